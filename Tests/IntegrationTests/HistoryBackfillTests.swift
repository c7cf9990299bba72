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

@Suite("The past of subscriptions that version 1 and receipts name is read without a command")
struct HistoryBackfillTests {
    private static let stream = StreamKey(app: DeliveryBundle.bundleId, environment: .production)

    private struct Bundle {
        let server: TestBundle
        let store: SimulatedStore
        let simulation: Simulation
        let clock: SetClock
        let backfills: HistoryBackfills
        /// Of another process.
        let others: HistoryBackfills

        /// The subscriptions of the run, each with its number of transactions.
        var purchases: [String: Int] {
            var purchases: [String: Int] = [:]
            for story in 0..<simulation.settings.subscriptions {
                for subscription in simulation.storyteller.accounts(ofStory: story).flatMap(\.subscriptions) {
                    purchases[subscription.originalTransactionId] = subscription.purchases.count
                }
            }
            return purchases
        }

        var requests: Int { store.api.counts.reduce(0) { $0 + $1.count } }

        /// Posts the first notification of each subscription.
        func postFirst() async throws {
            var known: Set<String> = []
            for delivery in simulation.deliveries where known.insert(delivery.originalTransactionId).inserted {
                #expect(try await server.apple.post(delivery.body()).status == 200)
            }
            try await server.isFolded()
        }

        /// Links each subscription to a customer of its own.
        func link() async throws {
            for id in purchases.keys {
                let answer = try await server.owner.put(
                    #"{"links":[{"originalTransactionId":"\#(id)"}]}"#,
                    to: "/customers/u-\(id)/links?app=\(stream.app)&environment=\(stream.environment.rawValue)")
                #expect(answer.status == 200)
            }
            try await server.isFolded()
        }

        /// The subscriptions whose past is in the log.
        func covered() async throws -> Set<String> {
            let ids = try await server.sql(
                "select original_transaction_id from subledger.store_history where covered_since is not null")
            return Set(ids)
        }

        func count(_ source: EventSource) async throws -> Int {
            let sources = try await server.sql("select source from subledger.event")
            return sources.count { $0 == source.rawValue }
        }
    }

    /// - Parameter date: The time of the server and of the store, of a run; nil for its end.
    private static func with(
        _ stories: [Story], _ format: Simulation.Format = .v1,
        at date: (Simulation) -> Instant = { _ in Simulation.end },
        _ test: (Bundle) async throws -> Void
    ) async throws {
        let secret = V1Body.secret
        var run = Simulation.Settings(
            app: SimulatedApp(
                bundleId: stream.app, appAppleId: 1_400_000_001, environment: .production, sharedSecret: secret))
        run.stories = stories
        run.subscriptions = stories.count
        run.format = format
        let simulation = try #require(Simulation(run))
        let root = try #require(RootCertificates(file: Array(TestCertificates.standard.rootPEM.utf8)))
        let app = App(
            bundleId: stream.app, appAppleId: 1_400_000_001, sharedSecrets: [secret],
            serverAPIKey: try DeliveryBundle.key())
        let clock = SetClock(date(simulation))
        var settings = SimulatedServerAPI.Settings()
        settings.tokenClock = { clock.now }
        let store = SimulatedStore(simulation, now: clock.now, api: settings)
        try await StoreServer.serve(store) { addresses, transport in
            try await TestBundle.withServer(apps: [app], roots: root, now: { clock.now }) { server in
                let logger = server.logs.logger
                let role = server.database.with(role: "subledger_poller")
                let pool = PostgresPool(role, limit: 4, logger: logger)
                let receiver = PostgresPool(
                    server.database.with(role: "subledger_receiver"), limit: 2, logger: logger)
                let appender = Appender(pool: receiver, logger: logger)
                let storeClock = StoreClock(date: { clock.now })
                let leaders = [
                    StreamLeadership(Elector(role), for: .backfills), StreamLeadership(Elector(role), for: .backfills),
                ]
                let backfills = leaders.map { leadership in
                    HistoryBackfills(
                        backfiller: Backfiller(
                            client: ServerAPIClient(
                                transport: transport, addresses: addresses, clock: storeClock, random: { 0 },
                                logger: logger),
                            verifier: NotificationVerifier(
                                apps: Apps([app]), signatures: SignatureVerifier(roots: root)),
                            log: LogReader(pool: pool), histories: HistoryLog(pool: pool),
                            subscriptions: SubscriptionReader(pool: pool), appender: appender, clock: storeClock),
                        log: BackfillLog(pool: pool), leadership: leadership, apps: [app], clock: storeClock,
                        logger: logger)
                }
                async let appending: Void = appender.run()
                let outcome: Result<Void, any Error>
                do {
                    let bundle = Bundle(
                        server: server, store: store, simulation: simulation, clock: clock, backfills: backfills[0],
                        others: backfills[1])
                    outcome = .success(try await test(bundle))
                } catch {
                    outcome = .failure(error)
                }
                for leadership in leaders { await leadership.release() }
                await appender.stop()
                await appending
                await pool.close()
                await receiver.close()
                try outcome.get()
            }
        }
    }

    @Test(
        "one notification of version 1 leads to all transactions of its account, once, also after the subscription ended"
    )
    func version1() async throws {
        try await Self.with([.renewals, .switchOffAndExpire, .sharedAppleAccount]) { bundle in
            try await bundle.postFirst()

            let read = try await bundle.backfills.round()
            let requests = bundle.requests
            try await bundle.server.isFolded()
            let again = try await bundle.backfills.round()
            let stored = try await bundle.server.sql(
                """
                select original_transaction_id || ' ' || count(*)
                from subledger.transaction
                group by original_transaction_id
                """)

            #expect(bundle.purchases.count == 4 && read == 3)
            #expect(again == 0 && bundle.requests == requests)
            #expect(try await bundle.covered() == Set(bundle.purchases.keys))
            #expect(Set(stored) == Set(bundle.purchases.map { "\($0) \($1)" }))
        }
    }

    @Test("a subscription that only signed notifications name is left to its checks")
    func version2() async throws {
        try await Self.with([.renewals], .v2) { bundle in
            try await bundle.postFirst()

            #expect(try await bundle.backfills.round() == 0)
            #expect(bundle.requests == 0)
        }
    }

    @Test("a linked subscription of which only a refund is known leads to all its transactions")
    func linkedAndRefunded() async throws {
        try await Self.with([.refundOfOldPeriod, .refundOfOldPeriod, .refundOfOldPeriod], .v2) { bundle in
            for delivery in bundle.simulation.deliveries where delivery.notification.version2?.type == "REFUND" {
                #expect(try await bundle.server.apple.post(delivery.body()).status == 200)
            }
            try await bundle.link()

            #expect(try await bundle.backfills.round() == 3)
            #expect(bundle.purchases.count == 3)
            #expect(try await bundle.covered() == Set(bundle.purchases.keys))
        }
    }

    @Test("a linked subscription whose first purchase is known is left to its checks")
    func linkedAndKnown() async throws {
        try await Self.with([.renewals], .v2) { bundle in
            try await bundle.postFirst()
            try await bundle.link()

            #expect(try await bundle.backfills.round() == 0)
            #expect(bundle.requests == 0)
        }
    }

    @Test("while the store does not answer nothing is passed over, and one process continues where another one ended")
    func unavailable() async throws {
        try await Self.with([.renewals]) { bundle in
            try await bundle.postFirst()
            bundle.store.api.inject(.overloaded, requests: 4)

            let failed = try await bundle.backfills.round()
            let requests = bundle.requests
            let tooEarly = try await bundle.backfills.round()
            let other = try await bundle.others.round()
            #expect(failed == 0 && requests == 4 && tooEarly == 0 && other == 0)
            #expect(bundle.requests == requests)
            #expect(try await bundle.server.sql("select position::text from subledger.history_backfill").isEmpty)

            bundle.clock.advance(by: .seconds(31))
            let read = try await bundle.backfills.round()
            #expect(read == 1)
            #expect(try await bundle.covered() == Set(bundle.purchases.keys))
        }
    }

    @Test("an account about which the store does not answer for a day holds the others up no longer")
    func givenUp() async throws {
        try await Self.with([.renewals]) { bundle in
            try await bundle.postFirst()
            for attempt in 1...6 {
                #expect(try await bundle.server.sql("select position::text from subledger.history_backfill").isEmpty)
                bundle.store.api.inject(.overloaded, requests: 4)
                #expect(try await bundle.backfills.round() == 0, "attempt \(attempt)")
                bundle.clock.advance(by: .seconds(attempt == 5 ? 86_400 : 31))
            }

            #expect(try await bundle.server.sql("select position::text from subledger.history_backfill").count == 1)
            let log = bundle.server.logs.text
            #expect(log.components(separatedBy: "histories not read yet").count == 2)
            #expect(log.components(separatedBy: "histories given up").count == 2)
        }
    }

    @Test("an account that the store does not know is passed over, and a later notification leads to another attempt")
    func notFound() async throws {
        try await Self.with([.renewals]) { bundle in
            let bodies = bundle.simulation.deliveries.prefix(2).map { $0.body() }
            #expect(try await bundle.server.apple.post(bodies[0]).status == 200)
            try await bundle.server.isFolded()
            bundle.store.api.inject(.error(4_040_010), requests: 3)
            let unknown = try await bundle.backfills.round()
            let requests = bundle.requests
            bundle.store.api.withdrawFaults()

            let passedOver = try await bundle.backfills.round()
            #expect(unknown == 0 && passedOver == 0 && requests > 0 && bundle.requests == requests)
            #expect(bundle.server.logs.text.contains("history not read"))

            #expect(try await bundle.server.apple.post(bodies[1]).status == 200)
            try await bundle.server.isFolded()
            let read = try await bundle.backfills.round()
            #expect(read == 1)
        }
    }

    @Test("notifications of half a year are read, and those of yesterday and today are left to Apple and the audit")
    func notifications() async throws {
        try await Self.with(
            [.renewals],
            at: { simulation in
                let made = MadeNotifications(simulation)
                return made.signedDate(at: made.count - 1).advanced(by: .seconds(3600))
            }
        ) { bundle in
            try await bundle.postFirst()

            let read = try await bundle.backfills.round()
            let made = MadeNotifications(bundle.simulation)
            let yesterday = AuditDay(containing: bundle.clock.now).previous.start
            let oldest = bundle.clock.now.advanced(by: .seconds(-180 * 86_400))
            let expected = made.indices.count {
                oldest < made.signedDate(at: $0) && made.signedDate(at: $0) < yesterday
            }

            #expect(read == 1 && expected > 0 && expected < made.count)
            #expect(try await bundle.count(.appleHistory) == expected)
        }
    }
}
