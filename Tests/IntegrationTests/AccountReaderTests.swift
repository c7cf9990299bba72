import AppStore
import Encoding
import EventLog
import Postgres
import Readers
import Simulation
import Subscriptions
import Synchronization
import TestSupport
import Testing

@testable import StoreClient

@Suite("Accounts are read from the App Store Server API to their end")
struct AccountReaderTests {
    private static let stream = StreamKey(app: "com.example.app", environment: .production)

    /// Lets a store fail from one request on.
    private final class FailingTransport: StoreTransport {
        private let base: HTTPStoreTransport
        private let store: SimulatedStore
        private let sent = Mutex(0)
        private let faults: [(request: Int, fault: StoreAPIFault, count: Int)]

        init(_ base: HTTPStoreTransport, _ store: SimulatedStore, _ faults: [(Int, StoreAPIFault, Int)]) {
            self.base = base
            self.store = store
            self.faults = faults.map { (request: $0.0, fault: $0.1, count: $0.2) }
        }

        func send(
            _ request: StoreRequest, timeout: Duration, bytesMax: Int
        ) async throws(TransportFailure) -> StoreResponse {
            let number = sent.withLock { sent in
                sent += 1
                return sent
            }
            for fault in faults where fault.request == number {
                store.api.inject(fault.fault, requests: fault.count)
            }
            return try await base.send(request, timeout: timeout, bytesMax: bytesMax)
        }
    }

    private struct Bundle {
        let server: TestBundle
        let reader: AccountReader
        let store: SimulatedStore
        let histories: HistoryLog
        let app: App
        let id: String
        let transactions: Int

        func read(includesRefunds: Bool = false) async throws -> String {
            let outcome = try await reader.read(
                id, of: app, in: stream, priority: .check, includesRefunds: includesRefunds)
            return switch outcome {
            case .success(let account): "read \(account.subscriptions.count)"
            case .failure(let failure): "\(failure)"
            }
        }

        var refundQuestions: Int {
            store.api.counts.filter { $0.question.endpoint == .refundHistory }.reduce(0) { $0 + $1.count }
        }

        /// The number of transactions in the log.
        func stored() async throws -> Int {
            let ids = try await server.sql(
                """
                select distinct transaction ->> 'transactionId'
                from subledger.event
                cross join jsonb_array_elements(facts -> 'transactions') as transaction
                """)
            return ids.count
        }
    }

    private static func run(_ story: Story) -> Simulation.Settings {
        var run = Simulation.Settings(
            app: SimulatedApp(bundleId: stream.app, appAppleId: 1_400_000_001, environment: .production))
        run.stories = [story]
        run.subscriptions = 1
        return run
    }

    /// - Parameter faults: Each begins with a request: the first asks for statuses, and the next ones for the pages.
    private static func with(
        _ faults: [(Int, StoreAPIFault, Int)], story: Story = .renewals, _ test: (Bundle) async throws -> Void
    ) async throws {
        let simulation = try #require(Simulation(run(story)))
        let subscription = simulation.storyteller.accounts(ofStory: 0)[0].subscriptions[0]
        let root = try #require(RootCertificates(file: Array(TestCertificates.standard.rootPEM.utf8)))
        let app = App(bundleId: stream.app, appAppleId: 1_400_000_001, serverAPIKey: try DeliveryBundle.key())
        var settings = SimulatedServerAPI.Settings()
        settings.tokenClock = { Simulation.end }
        settings.pageItems = 2
        let store = SimulatedStore(simulation, api: settings)
        try await StoreServer.serve(store) { addresses, transport in
            try await TestBundle.withServer(apps: [app], roots: root, now: { Simulation.end }) { server in
                let logger = server.logs.logger
                let clock = StoreClock(date: { Simulation.end })
                let poller = PostgresPool(server.database.with(role: "subledger_poller"), limit: 2, logger: logger)
                let receiver = PostgresPool(
                    server.database.with(role: "subledger_receiver"), limit: 2, logger: logger)
                let appender = Appender(pool: receiver, logger: logger)
                let histories = HistoryLog(pool: poller)
                let reader = AccountReader(
                    client: ServerAPIClient(
                        transport: FailingTransport(transport, store, faults), addresses: addresses, clock: clock,
                        random: { 0 }, logger: logger),
                    verifier: NotificationVerifier(apps: Apps([app]), signatures: SignatureVerifier(roots: root)),
                    news: NewsAppender(
                        log: LogReader(pool: poller), subscriptions: SubscriptionReader(pool: poller),
                        appender: appender), histories: histories, clock: clock)
                async let appending: Void = appender.run()
                let outcome: Result<Void, any Error>
                do {
                    outcome = .success(
                        try await test(
                            Bundle(
                                server: server, reader: reader, store: store, histories: histories, app: app,
                                id: subscription.originalTransactionId,
                                transactions: subscription.purchases.count)))
                } catch {
                    outcome = .failure(error)
                }
                await appender.stop()
                await appending
                await poller.close()
                await receiver.close()
                try outcome.get()
            }
        }
    }

    @Test("a place that Apple has lost in the middle begins the walk anew, and every transaction is stored once")
    func lostPlace() async throws {
        try await Self.with([(3, .error(4_000_005), 1)]) { bundle in
            let outcome = try await bundle.read()
            let place = try await bundle.histories.place(of: bundle.id, in: Self.stream)

            #expect(outcome == "read 1" && bundle.transactions > 4)
            #expect(try await bundle.stored() == bundle.transactions)
            #expect(place.revision != nil && place.coveredSince != nil)
        }
    }

    @Test("a place that is lost again and again is a refusal, and the history is not covered")
    func lostAgain() async throws {
        try await Self.with([(3, .error(4_000_005), 9)]) { bundle in
            let outcome = try await bundle.read()
            #expect(outcome == "refused")
            let place = try await bundle.histories.place(of: bundle.id, in: Self.stream)

            #expect(place.revision == nil && place.coveredSince == nil)
        }
    }

    @Test("ten empty pages in a row are read over, and more are a list without an end")
    func emptyPages() async throws {
        try await Self.with([(2, .emptyPage, 10)]) { bundle in
            let outcome = try await bundle.read()
            #expect(outcome == "read 1")
            #expect(try await bundle.stored() == bundle.transactions)
        }
        try await Self.with([(2, .emptyPage, 11)]) { bundle in
            let outcome = try await bundle.read()
            #expect(outcome == "unreadable")
            let place = try await bundle.histories.place(of: bundle.id, in: Self.stream)
            #expect(place.coveredSince == nil)
        }
    }

    @Test("Apple is asked for the refunds of an account that has one, where they are wanted", arguments: [true, false])
    func refunds(areWanted: Bool) async throws {
        try await Self.with([], story: .refundOfOldPeriod) { bundle in
            let read = try await bundle.read(includesRefunds: areWanted)

            #expect(read == "read 1" && bundle.refundQuestions == (areWanted ? 1 : 0))
            #expect(try await bundle.stored() == bundle.transactions)
        }
    }

    @Test("nothing is asked about refunds of an account without one that has bought subscriptions only")
    func noRefunds() async throws {
        try await Self.with([]) { bundle in
            let read = try await bundle.read(includesRefunds: true)

            #expect(read == "read 1" && bundle.refundQuestions == 0)
        }
    }

    @Test("without an answer about the refunds, the history is not covered")
    func refundsUnanswered() async throws {
        let transactions = try #require(Simulation(Self.run(.refundOfOldPeriod))).storyteller.accounts(ofStory: 0)[0]
            .subscriptions[0].purchases.count
        // The statuses and the pages come first.
        let question = 1 + (transactions + 1) / 2 + 1
        try await Self.with([(question, .error(4_000_006), 1)], story: .refundOfOldPeriod) { bundle in
            let outcome = try await bundle.read(includesRefunds: true)
            let place = try await bundle.histories.place(of: bundle.id, in: Self.stream)
            let again = try await bundle.read(includesRefunds: true)
            let covered = try await bundle.histories.place(of: bundle.id, in: Self.stream)

            #expect(outcome == "refused" && place.revision == nil && place.coveredSince == nil)
            #expect(again == "read 1" && covered.coveredSince != nil && bundle.refundQuestions == 2)
        }
    }

    @Test("a page that repeats an item adds nothing")
    func repeatedItem() async throws {
        try await Self.with([(3, .repeatedItem, 1)]) { bundle in
            let outcome = try await bundle.read()
            #expect(outcome == "read 1")
            #expect(try await bundle.stored() == bundle.transactions)
        }
    }

    @Test(
        "answers that are not Apple's, or of another app or environment, are refused and not stored",
        arguments: [StoreAPIFault.unsigned, .otherRoot, .otherApp, .otherEnvironment])
    func notGenuine(_ fault: StoreAPIFault) async throws {
        try await Self.with([(1, fault, 50)]) { bundle in
            let outcome = try await bundle.read()
            #expect(outcome == "refused")
            #expect(try await bundle.stored() == 0)
        }
    }

    @Test("a token that is rejected in the middle of a walk is replaced")
    func rejectedToken() async throws {
        try await Self.with([(3, .unauthorized(hasText: false), 1)]) { bundle in
            let outcome = try await bundle.read()
            #expect(outcome == "read 1")
            #expect(try await bundle.stored() == bundle.transactions)
        }
    }
}
