import StoreClient
import Synchronization
import Testing

/// A store with scripted replies.
final class FakeStore: StoreTransport {
    struct Request: Sendable {
        let url: String
        let text: String
        let timeout: Duration
        let bytesMax: Int
    }

    enum Reply: Sendable {
        case body(String, httpStatus: Int = 200, retryAfter: Duration? = nil)
        case failure(TransportFailure)

        static func status(_ number: Int) -> Reply { .body("{\"status\":\(number)}") }
    }

    private struct State: Sendable {
        var requests: [Request] = []
        var inFlight = 0
        var inFlightMax = 0
    }

    private let state = Mutex(State())
    private let reply: @Sendable (Request) async -> Reply

    init(_ reply: @escaping @Sendable (Request) async -> Reply) {
        self.reply = reply
    }

    /// A store that gives each reply once. A further request is an issue.
    convenience init(production: [Reply] = [], sandbox: [Reply] = []) {
        let script = Script([FakeStore.productionURL: production, FakeStore.sandboxURL: sandbox])
        self.init { request in
            guard let reply = script.next(request.url) else {
                Issue.record("unexpected request to \(request.url)")
                return .failure(.unreachable)
            }
            return reply
        }
    }

    static let productionURL = "https://buy.itunes.apple.com/verifyReceipt"
    static let sandboxURL = "https://sandbox.itunes.apple.com/verifyReceipt"

    var requests: [Request] { state.withLock { $0.requests } }
    var inFlight: Int { state.withLock { $0.inFlight } }
    var inFlightMax: Int { state.withLock { $0.inFlightMax } }

    func send(
        _ sent: StoreRequest, timeout: Duration, bytesMax: Int
    ) async throws(TransportFailure) -> StoreResponse {
        let request = Request(
            url: sent.url, text: String(decoding: sent.body ?? [], as: UTF8.self), timeout: timeout,
            bytesMax: bytesMax)
        state.withLock { state in
            state.requests.append(request)
            state.inFlight += 1
            state.inFlightMax = max(state.inFlightMax, state.inFlight)
        }
        let reply = await self.reply(request)
        state.withLock { $0.inFlight -= 1 }
        switch reply {
        case .body(let text, let httpStatus, let retryAfter):
            return StoreResponse(
                status: httpStatus, retryAfter: retryAfter.map { "\($0.components.seconds)" }, body: Array(text.utf8))
        case .failure(let failure): throw failure
        }
    }
}

/// The replies that are left, by URL.
private final class Script: Sendable {
    private let replies: Mutex<[String: [FakeStore.Reply]]>

    init(_ replies: [String: [FakeStore.Reply]]) {
        self.replies = Mutex(replies)
    }

    func next(_ url: String) -> FakeStore.Reply? {
        replies.withLock { replies in
            guard let reply = replies[url]?.first else { return nil }
            replies[url]?.removeFirst()
            return reply
        }
    }
}
