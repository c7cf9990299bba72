import AppStore
import Encoding
import EventLog
import Logging
import Postgres
import Simulation
import StoreClient
import Subscriptions
import Synchronization
import TestSupport

/// A server, a simulated store that posts its notifications to it, and what audits their delivery, on one clock.
struct DeliveryBundle {
    /// The store's notifications are tests, since its stories have not begun.
    static let bundleId = "com.example.app"
    static let stream = StreamKey(app: bundleId, environment: .production)
    /// 2024-12-10T12:00:00Z: before all stories.
    static let noon = Instant(milliseconds: 1_733_832_000_000) ?? .earliest
    static let day = AuditDay(containing: noon)

    let server: TestBundle
    let store: SimulatedStore
    let clock: SetClock
    let app: App
    let auditor: DeliveryAuditor
    let deliveries: DeliveryLog
    let client: ServerAPIClient
    let leadership: StreamLeadership
    let storeClock: StoreClock
    /// A client that knows nothing of the calls of the others, as that of a new process.
    let newClient: @Sendable () -> ServerAPIClient
    private let simulation: Simulation
    private let verifier: NotificationVerifier
    private let path: Path

    /// What happens to what the store posts.
    enum Fate: Sendable {
        case posted
        /// The server gets it, and the store something else.
        case postedAnd(SendAttempt.Result)
        case lost(SendAttempt.Result)
        /// No attempt ever ends.
        case neverEnding
    }

    /// The way from the store to the server.
    final class Path: Sendable {
        private let state = Mutex<(port: Int?, fates: [Fate])>((nil, []))

        func lead(to port: Int) { state.withLock { $0.port = port } }

        /// Decides about the next attempts; later ones are posted.
        func decide(_ fates: [Fate]) { state.withLock { $0.fates += fates } }

        func post(_ body: [UInt8]) async -> SendAttempt.Result {
            let (port, fate) = state.withLock { ($0.port, $0.fates.isEmpty ? .posted : $0.fates.removeFirst()) }
            switch fate {
            case .lost(let result): return result
            case .neverEnding:
                try? await Task.sleep(for: .seconds(3600))
                return .timedOut
            case .posted, .postedAnd:
                let client = port.map { HTTPClient(port: $0, patience: .seconds(60)) }
                guard let answer = try? await client?.post(body) else { return .noResponse }
                if case .postedAnd(let result) = fate { return result }
                return (200...206).contains(answer.status) ? .success : .unsuccessfulResponse
            }
        }
    }

    /// - Parameters:
    ///   - stories: Of the store.
    ///   - roots: Those that the server and the audit trust.
    ///   - change: Changes the store.
    static func with(
        stories: [Story] = [.renewals], roots: RootCertificates? = nil, app changed: App? = nil,
        _ change: (inout SimulatedServerAPI.Settings) -> Void = { _ in },
        _ test: (DeliveryBundle) async throws -> Void
    ) async throws {
        guard let testRoot = RootCertificates(file: Array(TestCertificates.standard.rootPEM.utf8)) else {
            throw NotMade(what: "the test root")
        }
        let roots = roots ?? testRoot
        let app =
            if let changed { changed } else {
                try Self.app()
            }
        let clock = SetClock(noon)
        var run = Simulation.Settings(
            app: SimulatedApp(bundleId: bundleId, appAppleId: 1_400_000_001, environment: .production))
        run.stories = stories
        run.subscriptions = stories.count
        guard let simulation = Simulation(run) else { throw NotMade(what: "the simulation") }
        let path = Path()
        var settings = SimulatedServerAPI.Settings()
        settings.tokenClock = { clock.now }
        settings.sending = NotificationSending { await path.post($0) }
        change(&settings)
        let store = SimulatedStore(simulation, now: noon, api: settings)
        try await StoreServer.serve(store) { addresses, transport in
            try await TestBundle.withServer(apps: [app], roots: roots, now: { clock.now }) { server in
                path.lead(to: server.apple.port)
                try await with(server, store, simulation, addresses, transport, app, roots, clock, path, test)
            }
        }
    }

    private static func with(
        _ server: TestBundle, _ store: SimulatedStore, _ simulation: Simulation, _ addresses: ServerAPIAddresses,
        _ transport: HTTPStoreTransport, _ app: App,
        _ roots: RootCertificates, _ clock: SetClock, _ path: Path, _ test: (DeliveryBundle) async throws -> Void
    ) async throws {
        let logger = server.logs.logger
        let poller = PostgresPool(server.database.with(role: "subledger_poller"), limit: 4, logger: logger)
        let receiver = PostgresPool(server.database.with(role: "subledger_receiver"), limit: 2, logger: logger)
        let appender = Appender(pool: receiver, logger: logger)
        let leadership = StreamLeadership(Elector(server.database.with(role: "subledger_poller")), for: .audits)
        // Pauses are a tenth as long.
        let storeClock = StoreClock(
            date: { clock.now },
            sleep: { instant in
                let now = ContinuousClock.now
                try await Task.sleep(until: now + (instant - now) / 10, clock: .continuous)
            })
        let newClient = { @Sendable in
            ServerAPIClient(
                transport: transport,
                addresses: addresses,
                clock: storeClock,
                budget: { _, _ in CallBudget(callsPerMinute: CallBudget.callsPerMinuteMax, concurrency: 8) },
                random: { 0 }, logger: logger)
        }
        let client = newClient()
        let verifier = NotificationVerifier(apps: Apps([app]), signatures: SignatureVerifier(roots: roots))
        let deliveries = DeliveryLog(pool: poller)
        let bundle = DeliveryBundle(
            server: server, store: store, clock: clock, app: app,
            auditor: DeliveryAuditor(
                client: client, verifier: verifier, apps: [app], deliveries: deliveries, appender: appender,
                clock: storeClock, windows: 4, logger: logger),
            deliveries: deliveries, client: client, leadership: leadership, storeClock: storeClock,
            newClient: newClient,
            simulation: simulation, verifier: verifier, path: path)
        async let appending: Void = appender.run()
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await test(bundle))
        } catch {
            outcome = .failure(error)
        }
        await leadership.release()
        await appender.stop()
        await appending
        await poller.close()
        await receiver.close()
        try outcome.get()
    }

    private struct NotMade: Error {
        let what: String
    }

    /// - Parameter since: The operator's word since when this installation listens.
    static func app(listeningSince since: Instant? = nil) throws -> App {
        App(bundleId: bundleId, appAppleId: 1_400_000_001, listeningSince: since, serverAPIKey: try key())
    }

    static func key() throws -> ServerAPIKey {
        try ServerAPIKey(
            issuerId: SimulatedAPIKey.standard.issuerId, keyId: SimulatedAPIKey.standard.keyId,
            pem: SimulatedAPIKey.standard.pem)
    }

    func accounts(ofStory story: Int) -> [SimulatedAccount] { simulation.storyteller.accounts(ofStory: story) }

    func decide(_ fates: Fate...) { path.decide(fates) }

    /// Sets the clocks, and lets the store make the attempts that are due.
    func pass(to instant: Instant) async {
        clock.advance(by: clock.now.duration(to: instant))
        await store.setClock(instant)
    }

    /// Lets the store make a test notification and its first attempt.
    func makeNotification() async throws {
        guard case .answered = await client.ask(TestNotificationRequest(), app: app, host: .production) else {
            throw NotMade(what: "a test notification")
        }
        await store.sendNotifications()
    }

    /// Audits the day, and returns the recorded figures.
    func audit() async throws -> DeliveryAuditor.Outcome {
        try await auditor.audit(Self.day, of: app, on: .production)
    }

    func probe(_ verifier: NotificationVerifier? = nil) -> DeliveryProbe {
        DeliveryProbe(client: client, verifier: verifier ?? self.verifier, deliveries: deliveries, clock: storeClock)
    }
}
