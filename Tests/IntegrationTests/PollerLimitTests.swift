import AppStore
import Encoding
import EventLog
import Postgres
import Readers
import Simulation
import StoreClient
import Subscriptions
import TestSupport
import Testing

@Suite("The poller stays within the limits of the App Store Server API")
struct PollerLimitTests {
    /// The requests per hour that the store accepts of each endpoint, in place of Apple's 180,000.
    private static let hourlyLimit = 120
    private static let subscriptions = 150

    /// Sets the store's clock before each request.
    private struct ClockedTransport: StoreTransport {
        let base: HTTPStoreTransport
        let store: SimulatedStore
        let clock: SetClock

        func send(
            _ request: StoreRequest, timeout: Duration, bytesMax: Int
        ) async throws(TransportFailure) -> StoreResponse {
            store.now = clock.now
            return try await base.send(request, timeout: timeout, bytesMax: bytesMax)
        }
    }

    @Test("more subscriptions than the limits allow are due at once: all are asked about, and no request is refused")
    func manyAtOnce() async throws {
        try await Self.with([.renewals], Self.subscriptions) { server, app, addresses, transport, store, clock, known in
            let hours = try await Self.poll(server, app, addresses, transport, clock)

            let refused = store.api.counts.filter { $0.question.status == 429 }
            let asked = try await server.sql("select distinct original_transaction_id from subledger.store_check")
            let unanswered = try await server.sql(
                "select result from subledger.store_check where result not in ('appended', 'unchanged')")
            #expect(known.count == Self.subscriptions && Set(asked) == known)
            // What the budget holds back is not a failed check.
            #expect(unanswered.isEmpty)
            #expect(refused.isEmpty, "\(refused)")
            // Half of the limit is used, as far as it lasts.
            #expect(hours < 1.2 * Double(Self.subscriptions) / Double(Self.hourlyLimit / 2), "\(hours)")
        }
    }

    @Test("one question serves all subscriptions of an Apple Account that are due")
    func accounts() async throws {
        try await Self.with([.sharedAppleAccount], 3) { server, app, addresses, transport, store, clock, ids in
            let asked = try await Self.withPoller(
                server, app, addresses, transport, clock, callsPerMinute: 600
            ) { poller in
                let first = try await poller.round(at: clock.now).asked
                try await server.isFolded()
                return (first, try await poller.round(at: clock.now).asked)
            }

            let statuses = store.api.counts.filter { $0.question.endpoint == .statuses }.reduce(0) { $0 + $1.count }
            let covered = try await server.sql(
                "select original_transaction_id from subledger.store_history where covered_since is not null")
            #expect(ids.count == 6 && Set(covered) == ids)
            #expect(asked == (3, 0) && statuses == 3, "\(asked), \(statuses)")
        }
    }

    /// Runs the test with a server that knows the first notification of each subscription of a run, and with a store whose
    /// clock is that of the server.
    private static func with(
        _ stories: [Story], _ subscriptions: Int,
        _ test: (
            TestBundle, App, ServerAPIAddresses, ClockedTransport, SimulatedStore, SetClock, Set<String>
        ) async throws -> Void
    ) async throws {
        var run = Simulation.Settings(
            app: SimulatedApp(
                bundleId: DeliveryBundle.bundleId, appAppleId: 1_400_000_001, environment: .production))
        run.stories = stories
        run.subscriptions = subscriptions
        let simulation = try #require(Simulation(run))
        let root = try #require(RootCertificates(file: Array(TestCertificates.standard.rootPEM.utf8)))
        let app = App(
            bundleId: DeliveryBundle.bundleId, appAppleId: 1_400_000_001, serverAPIKey: try DeliveryBundle.key())
        let clock = SetClock(Simulation.end)
        var settings = SimulatedServerAPI.Settings()
        settings.tokenClock = { clock.now }
        settings.hourlyLimits = [.statuses: Self.hourlyLimit, .history: Self.hourlyLimit]
        let store = SimulatedStore(simulation, api: settings)
        try await StoreServer.serve(store) { addresses, transport in
            try await TestBundle.withServer(apps: [app], roots: root, now: { clock.now }) { server in
                var known: Set<String> = []
                for delivery in simulation.deliveries where known.insert(delivery.originalTransactionId).inserted {
                    #expect(try await server.apple.post(delivery.body()).status == 200)
                }
                try await server.isFolded()
                let clocked = ClockedTransport(base: transport, store: store, clock: clock)
                try await test(server, app, addresses, clocked, store, clock, known)
            }
        }
    }

    /// Makes all checks that are due at the beginning, and returns the hours that it takes by the clock.
    private static func poll(
        _ server: TestBundle, _ app: App, _ addresses: ServerAPIAddresses, _ transport: ClockedTransport,
        _ clock: SetClock
    ) async throws -> Double {
        let start = clock.now
        try await withPoller(
            server, app, addresses, transport, clock, callsPerMinute: hourlyLimit / 60 / 2
        ) { poller in
            while let next = try await poller.round(at: clock.now).nextDue,
                start.duration(to: clock.now) < .seconds(12 * 3600)
            {
                clock.pass(to: next)
                try await server.isFolded()
            }
        }
        return try await lastAnswer(server, since: start)
    }

    private static func withPoller<Value: Sendable>(
        _ server: TestBundle, _ app: App, _ addresses: ServerAPIAddresses, _ transport: ClockedTransport,
        _ clock: SetClock, callsPerMinute: Int, _ use: (Poller) async throws -> Value
    ) async throws -> Value {
        let logger = server.logs.logger
        let poller = server.database.with(role: "subledger_poller")
        let pool = PostgresPool(poller, limit: 4, logger: logger)
        let receiver = PostgresPool(server.database.with(role: "subledger_receiver"), limit: 2, logger: logger)
        let appender = Appender(pool: receiver, logger: logger)
        let leadership = StreamLeadership(Elector(poller))
        // Pauses pass at once: each sets the clock to its end.
        let (start, origin) = (clock.now, ContinuousClock.now)
        let storeClock = StoreClock(
            date: { clock.now }, now: { origin + start.duration(to: clock.now) },
            sleep: { instant in
                try Task.checkCancellation()
                clock.pass(to: start.advanced(by: instant - origin))
                await Task.yield()
            })
        let queue = CheckQueue(pool: pool)
        let api = ServerAPIClient(
            transport: transport, addresses: addresses, clock: storeClock,
            budget: { _, _ in CallBudget(callsPerMinute: callsPerMinute, concurrency: 8) }, random: { 0 },
            logger: logger)
        let root = try #require(RootCertificates(file: Array(TestCertificates.standard.rootPEM.utf8)))
        let checker = Checker(
            client: ReceiptClient(transport: UnreachableStore(), clock: storeClock, random: { 0 }, logger: logger),
            api: (api, NotificationVerifier(apps: Apps([app]), signatures: SignatureVerifier(roots: root))),
            apps: [app], queue: queue, log: LogReader(pool: pool), histories: HistoryLog(pool: pool),
            handIns: HandInLog(pool: pool), subscriptions: SubscriptionReader(pool: pool), appender: appender,
            clock: storeClock, random: { 0 }, logger: logger)
        let service = Poller(
            checker: checker, apps: [app], queue: queue, leadership: leadership, clock: storeClock, logger: logger)
        async let appending: Void = appender.run()
        let outcome: Result<Value, any Error>
        do {
            outcome = .success(try await use(service))
        } catch {
            outcome = .failure(error)
        }
        await leadership.release()
        await appender.stop()
        await appending
        await pool.close()
        await receiver.close()
        return try outcome.get()
    }

    /// The hours from the start to the last first check of a subscription.
    private static func lastAnswer(_ server: TestBundle, since start: Instant) async throws -> Double {
        let lines = try await server.sql(
            """
            select (extract(epoch from max(asked_at)) * 1000)::bigint::text
            from (
              select original_transaction_id, min(asked_at) as asked_at
              from subledger.store_check
              group by original_transaction_id
            ) as first_check
            """)
        let last = try #require(lines.first.flatMap { Int64($0) }.flatMap { Instant(milliseconds: $0) })
        return start.duration(to: last) / .seconds(3600)
    }
}
