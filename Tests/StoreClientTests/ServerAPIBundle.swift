import AppStore
import Encoding
import HTTPServer
import SimulatedStore
import StoreSimulator
import Subscriptions
import Synchronization
import TestSupport
import Testing

@testable import StoreClient

/// The simulated App Store Server API, asked without a network. Its clock follows that of the client.
final class SimulatedTransport: StoreTransport {
    let store: SimulatedStore
    private let date: @Sendable () -> Instant
    private let sent = Mutex<[StoreRequest]>([])

    init(_ store: SimulatedStore, date: @escaping @Sendable () -> Instant) {
        self.store = store
        self.date = date
    }

    var requests: [StoreRequest] { sent.withLock { $0 } }

    func send(
        _ request: StoreRequest, timeout: Duration, bytesMax: Int
    ) async throws(TransportFailure) -> StoreResponse {
        sent.withLock { $0.append(request) }
        store.now = date()
        guard let call = Self.call(request) else {
            Issue.record("unexpected request: \(request.method) \(request.url)")
            throw .unreachable
        }
        switch store.reaction(to: call) {
        case .closed: throw .unreachable
        case .response(let response):
            if response.isSlow { throw .timeout }
            guard response.body.count <= bytesMax else { throw .tooLong }
            return StoreResponse(status: response.status, retryAfter: response.retryAfter, body: response.body)
        }
    }

    private static let hosts: [(prefix: String, host: Subscriptions.Environment)] = [
        ("https://api.storekit.apple.com/inApps/", .production),
        ("https://api.storekit-sandbox.apple.com/inApps/", .sandbox),
    ]

    private static func call(_ request: StoreRequest) -> StoreAPICall? {
        guard let (prefix, host) = hosts.first(where: { request.url.hasPrefix($0.prefix) }) else { return nil }
        let parts = request.url.dropFirst(prefix.count).split(separator: "?", maxSplits: 1)
        let query = parts.count == 2 ? parts[1].split(separator: "&") : []
        return StoreAPICall(
            host: host, method: request.method, path: parts[0].split(separator: "/").map(String.init),
            query: query.map { pair in
                let halves = pair.split(separator: "=", maxSplits: 1)
                return (name: String(halves[0]), value: String(halves[1]))
            }, authorization: request.token.map { "Bearer \($0)" }, body: request.body ?? [])
    }
}

/// A client of the simulated App Store Server API with a clock that jumps over pauses.
struct ServerAPIBundle {
    static let bundleId = "com.example.app"

    let transport: SimulatedTransport
    let simulation: Simulation
    let clock = ManualClock(jumps: true)
    let log = LogRecorder()
    let metrics = MetricsRegistry()
    let client: ServerAPIClient
    let app: App

    var store: SimulatedStore { transport.store }
    var id: String { simulation.storyteller.accounts(ofStory: 0)[0].subscriptions[0].originalTransactionId }

    /// - Parameter key: The key of the client.
    init(
        _ environment: Subscriptions.Environment = .production, _ settings: SimulatedServerAPI.Settings = .init(),
        key: ServerAPIKey? = nil
    ) throws {
        var run = Simulation.Settings(
            app: SimulatedApp(bundleId: Self.bundleId, appAppleId: 1_400_000_001, environment: environment))
        run.stories = [.renewals]
        run.subscriptions = 3
        simulation = try #require(Simulation(run))
        let clock = clock.clock
        transport = SimulatedTransport(SimulatedStore(simulation, api: settings), date: clock.date)
        client = ServerAPIClient(
            transport: transport, clock: clock, random: { 0 }, metrics: metrics, logger: log.logger)
        app = App(bundleId: Self.bundleId, serverAPIKey: try key ?? Self.key())
    }

    static func key(_ keyId: String = SimulatedAPIKey.standard.keyId) throws -> ServerAPIKey {
        try ServerAPIKey(
            issuerId: SimulatedAPIKey.standard.issuerId, keyId: keyId, pem: SimulatedAPIKey.standard.pem)
    }

    func statuses(_ host: ReceiptHost = .production) async -> ServerAPIOutcome<[StatusesRequest.Line]> {
        await client.ask(StatusesRequest(id: id), app: app, host: host)
    }

    /// The number of requests whose answer had a status.
    func count(_ status: Int) -> Int {
        store.api.counts.filter { $0.question.status == status }.reduce(0) { $0 + $1.count }
    }
}

extension StoreOutcome where Refusal == ServerAPIRefusal {
    /// One line for comparisons.
    var text: String {
        switch self {
        case .answered: "answered"
        case .refused(let refusal): "refused \(refusal.code.map(String.init) ?? "without a code")"
        case .rejected: "key rejected"
        case .unreadable(let label): "unreadable \(label)"
        case .unavailable(let reason, let retryAfter): "unavailable \(reason), \(retryAfter)"
        }
    }
}
