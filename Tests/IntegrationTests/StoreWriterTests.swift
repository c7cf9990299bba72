import AppStore
import Encoding
import EventLog
import Postgres
import Simulation
import StoreClient
import Subscriptions
import Synchronization
import TestSupport
import Testing

@Suite("Operators' changes are in the log before the App Store is asked, and are made once")
struct StoreWriterTests {
    private static let stream = StreamKey(app: "com.example.app", environment: .production)
    private static let week = StoreWrite.ExtensionTerms(days: 7, reason: .outage)
    private static let token = "0f3d4a52-7a1c-4d3e-9b5b-1f0e8c6d2a31"

    /// A database, and a simulated store in the last period of its subscription.
    private struct Bundle {
        let server: TestBundle
        let store: SimulatedStore
        let writer: StoreWriter
        let log: WriteLog
        let app: App
        let id: String
        let product: String
        /// The end of the period.
        let end: Instant

        func extend(days: Int = 7) -> StoreWrite.Change {
            .extend(originalTransactionId: id, .init(days: days, reason: .outage))
        }

        /// - Parameter identifier: Chosen by the operator; nil for `made`.
        func write(
            _ change: StoreWrite.Change, _ identifier: String? = nil, made: String = "made-1"
        ) async throws -> StoreWriter.Outcome {
            try await writer.write(
                StoreWrite(change, requestIdentifier: identifier ?? made, by: "alice", reason: "outage"),
                isIdentifierChosen: identifier != nil, of: app, in: stream)
        }

        /// - Parameters:
        ///   - key: What the sender repeats it by.
        ///   - digest: Stands for what is requested.
        func write(
            _ change: StoreWrite.Change, key: String, digest: String = "d", made: String
        ) async throws -> StoreWriter.Outcome {
            try await writer.write(keyed(change, key, digest, made), isIdentifierChosen: false, of: app, in: stream)
        }

        func keyed(_ change: StoreWrite.Change, _ key: String, _ digest: String, _ made: String) -> StoreWrite {
            StoreWrite(
                change, requestIdentifier: made, by: "alice", reason: "outage",
                idempotency: StoreWrite.IdempotencyKey(key, requestDigest: digest))
        }

        /// The kinds, identifiers and results of the events of operators.
        func events() async throws -> [String] {
            try await server.sql(
                """
                select concat_ws(' ', kind, facts #>> '{write,requestIdentifier}', facts #>> '{write,answer,result}',
                  facts #>> '{write,answer,problem}', facts #>> '{write,answer,errorCode}')
                from subledger.event
                where source = 'operator'
                order by position
                """)
        }

        /// How many times the store extended the subscription.
        var extensions: Int { store.notifications.count { $0.type == "RENEWAL_EXTENDED" } }
    }

    private static func with(_ test: (Bundle) async throws -> Void) async throws {
        var run = Simulation.Settings(
            app: SimulatedApp(bundleId: stream.app, appAppleId: 1_400_000_001, environment: .production))
        run.stories = [.renewals]
        run.subscriptions = 1
        let simulation = try #require(Simulation(run))
        let subscription = simulation.storyteller.accounts(ofStory: 0)[0].subscriptions[0]
        let last = try #require(subscription.purchases.last)
        let end = try #require(last.expiresDate)
        let now = end.advanced(byMilliseconds: -3_600_000)
        let app = App(bundleId: stream.app, appAppleId: 1_400_000_001, serverAPIKey: try DeliveryBundle.key())
        var settings = SimulatedServerAPI.Settings()
        settings.tokenClock = { now }
        let store = SimulatedStore(simulation, now: now, api: settings)
        try await StoreServer.serve(store) { addresses, transport in
            try await TestBundle.withServer(apps: [app], now: { now }) { server in
                let logger = server.logs.logger
                // Each reading of the clock is a millisecond later. Pauses are a tenth as long.
                let readings = Mutex<Int64>(0)
                let clock = StoreClock(
                    date: {
                        readings.withLock { readings in
                            readings += 1
                            return now.advanced(byMilliseconds: readings)
                        }
                    },
                    sleep: { instant in
                        let now = ContinuousClock.now
                        try await Task.sleep(until: now + (instant - now) / 10, clock: .continuous)
                    })
                let poller = PostgresPool(server.database.with(role: "subledger_poller"), limit: 3, logger: logger)
                let receiver = PostgresPool(
                    server.database.with(role: "subledger_receiver"), limit: 2, logger: logger)
                let appender = Appender(pool: receiver, logger: logger)
                let log = WriteLog(pool: poller, appender: appender)
                let client = ServerAPIClient(
                    transport: transport, addresses: addresses, clock: clock,
                    budget: { _, _ in CallBudget(callsPerMinute: CallBudget.callsPerMinuteMax, concurrency: 8) },
                    random: { 0 }, logger: logger)
                async let appending: Void = appender.run()
                let outcome: Result<Void, any Error>
                do {
                    outcome = .success(
                        try await test(
                            Bundle(
                                server: server, store: store,
                                writer: StoreWriter(client: client, log: log, clock: clock), log: log, app: app,
                                id: subscription.originalTransactionId, product: last.product.id, end: end)))
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

    @Test("an extension is two events with operator and reason, neither of them a fact about the subscription")
    func extend() async throws {
        try await Self.with { bundle in
            let outcome = try await bundle.write(bundle.extend())
            try await bundle.server.isFolded()

            let answer = try #require(outcome.answer)
            #expect(answer.result == .accepted)
            #expect(answer.effectiveDate == bundle.end.advanced(by: .seconds(7 * 86_400)))
            #expect(
                try await bundle.events() == ["write_request made-1", "write_answer made-1 accepted"])
            #expect(
                try await bundle.server.sql(
                    "select facts #>> '{write,by}' || ': ' || (facts #>> '{write,reason}') from subledger.event")
                    == ["alice: outage", "alice: outage"])
            #expect(try await bundle.server.sql("select count(*)::text from subledger.subscription") == ["0"])
            #expect(bundle.extensions == 1)
        }
    }

    @Test("a change without an answer is asked for again with its identifier, and is made once")
    func unknown() async throws {
        try await Self.with { bundle in
            bundle.store.api.inject(.cutOff, requests: 4)

            let first = try await bundle.write(bundle.extend())
            let second = try await bundle.write(bundle.extend(), made: "made-2")
            let third = try await bundle.write(bundle.extend(), made: "made-3")

            #expect(first.answer?.result == .unknown)
            #expect(second.answer?.result == .accepted && second.repeated == 2)
            // The second one has an answer, so this is another extension.
            #expect(third.answer?.result == .accepted && third.repeated == nil)
            #expect(
                try await bundle.events() == [
                    "write_request made-1", "write_answer made-1 unknown not_an_object", "write_request made-1",
                    "write_answer made-1 accepted", "write_request made-3", "write_answer made-3 accepted",
                ])
            #expect(bundle.extensions == 2)
        }
    }

    @Test("a request whose process has died is repeated with its identifier")
    func died() async throws {
        try await Self.with { bundle in
            let request = StoreWrite(bundle.extend(), requestIdentifier: "lost", by: "alice", reason: "outage")
            let begun = try await bundle.log.begin(
                request, isIdentifierChosen: false, in: Self.stream, receivedAt: bundle.end)
            guard case .begun(_, repeats: nil) = begun else {
                Issue.record("\(begun)")
                return
            }

            let outcome = try await bundle.write(bundle.extend())

            #expect(outcome.answer?.result == .accepted && outcome.repeated == 1)
            #expect(
                try await bundle.events() == [
                    "write_request lost", "write_request lost", "write_answer lost accepted",
                ])
        }
    }

    @Test("beside a request without an answer, another extension needs an identifier that the operator chose")
    func other() async throws {
        try await Self.with { bundle in
            bundle.store.api.inject(.dropped, requests: 4)

            let first = try await bundle.write(bundle.extend())
            let other = try await bundle.write(bundle.extend(days: 1), made: "made-2")
            let used = try await bundle.write(bundle.extend(days: 1), "made-1")
            let chosen = try await bundle.write(bundle.extend(days: 1), "chosen")

            #expect(first.answer?.result == .unknown)
            guard case .open(let open) = other, case .identifierUsed(let known) = used else {
                Issue.record("\(other), \(used)")
                return
            }
            #expect(open.write.requestIdentifier == "made-1" && known.write.change == bundle.extend())
            #expect(chosen.answer?.result == .accepted)
            #expect(try await bundle.events().count == 4)
            #expect(bundle.extensions == 1)
        }
    }

    @Test("a request with a known key has the outcome of the first one; without its key, it makes the change again")
    func key() async throws {
        try await Self.with { bundle in
            let first = try await bundle.write(bundle.extend(), key: "k-1", made: "made-1")
            let again = try await bundle.write(bundle.extend(), key: "k-1", made: "made-2")
            let other = try await bundle.write(bundle.extend(days: 1), key: "k-1", digest: "other", made: "made-3")
            let made = bundle.extensions
            let second = try await bundle.write(bundle.extend(), key: "k-2", made: "made-4")

            #expect(first.answer?.result == .accepted)
            guard case .known(.answered(let placed)) = again, case .known(.keyUsed) = other else {
                Issue.record("\(again), \(other)")
                return
            }
            #expect(placed.write == first.write && placed.position == 2)
            #expect(made == 1 && second.answer?.result == .accepted && bundle.extensions == 2)
            #expect(
                try await bundle.events() == [
                    "write_request made-1", "write_answer made-1 accepted", "write_request made-4",
                    "write_answer made-4 accepted",
                ])
        }
    }

    @Test(
        "of requests with the same key at once, one is made, and the others are told that it waits or what came of it")
    func keyAtOnce() async throws {
        try await Self.with { bundle in
            let outcomes = try await withThrowingTaskGroup(of: StoreWriter.Outcome.self) { group in
                for number in 1...3 {
                    group.addTask { try await bundle.write(bundle.extend(), key: "k-1", made: "made-\(number)") }
                }
                var outcomes: [StoreWriter.Outcome] = []
                for try await outcome in group { outcomes.append(outcome) }
                return outcomes
            }

            #expect(outcomes.count { $0.answer?.result == .accepted } == 1, "\(outcomes)")
            #expect(
                outcomes.count { outcome in
                    switch outcome {
                    case .known(.underWay), .known(.answered): true
                    default: false
                    }
                } == 2, "\(outcomes)")
            #expect(bundle.extensions == 1)
            #expect(try await bundle.events().count == 2)
        }
    }

    @Test("a key whose request has no answer waits for five minutes, and then repeats that request with its identifier")
    func keyOfTheDead() async throws {
        try await Self.with { bundle in
            let request = bundle.keyed(bundle.extend(), "k-1", "d", "lost")
            let now = bundle.end.advanced(byMilliseconds: -3_600_000)
            let late = now.advanced(by: .seconds(-300))
            let begun = try await bundle.log.begin(
                request, isIdentifierChosen: false, in: Self.stream, receivedAt: late.advanced(byMilliseconds: 60_000))
            let key = try #require(request.idempotency)
            let waiting = try await bundle.log.known(key, in: Self.stream, at: now)
            let ended = try await bundle.log.known(key, in: Self.stream, at: now.advanced(by: .seconds(60)))
            let early = try await bundle.write(bundle.extend(), key: "k-1", made: "made-2")
            let other = try await bundle.log.begin(
                bundle.keyed(bundle.extend(days: 2), "k-2", "d", "lost-2"), isIdentifierChosen: true, in: Self.stream,
                receivedAt: late)
            let repeated = try await bundle.write(bundle.extend(days: 2), key: "k-2", made: "made-3")

            guard case .begun(_, repeats: nil) = begun, case .underWay? = waiting, case .unfinished? = ended,
                case .known(.underWay) = early, case .begun = other
            else {
                Issue.record(
                    "\(begun), \(String(describing: waiting)), \(String(describing: ended)), \(early), \(other)")
                return
            }
            #expect(repeated.answer?.result == .accepted && repeated.repeated == 2)
            #expect(
                try await bundle.events() == [
                    "write_request lost", "write_request lost-2", "write_request lost-2",
                    "write_answer lost-2 accepted",
                ])
        }
    }

    @Test("after an unknown answer, the key repeats the request, and then has its outcome")
    func keyUnknown() async throws {
        try await Self.with { bundle in
            bundle.store.api.inject(.cutOff, requests: 4)

            let first = try await bundle.write(bundle.extend(), key: "k-1", made: "made-1")
            let second = try await bundle.write(bundle.extend(), key: "k-1", made: "made-2")
            let third = try await bundle.write(bundle.extend(), key: "k-1", made: "made-3")

            #expect(first.answer?.result == .unknown)
            #expect(second.answer?.result == .accepted && second.repeated == 1)
            guard case .known(.answered(let placed)) = third else {
                Issue.record("\(third)")
                return
            }
            #expect(placed.write.answer?.result == .accepted)
            #expect(try await bundle.events().allSatisfy { $0.contains("made-1") })
            #expect(bundle.extensions == 1)
        }
    }

    @Test("the same extension by two operators at once is one")
    func concurrent() async throws {
        try await Self.with { bundle in
            async let one = bundle.write(bundle.extend(), "same")
            async let two = bundle.write(bundle.extend(), "same")
            let outcomes = try await [one, two]

            #expect(outcomes.map { $0.answer?.result } == [.accepted, .accepted])
            #expect(outcomes.count { $0.repeated != nil } == 1)
            #expect(bundle.extensions == 1)
        }
    }

    @Test("a refusal has Apple's code, and ends the request; a page of a proxy does not")
    func refused() async throws {
        try await Self.with { bundle in
            bundle.store.api.inject(.error(4_030_005), requests: 1)

            let refused = try await bundle.write(bundle.extend())
            let next = try await bundle.write(bundle.extend(days: 1), made: "made-2")

            #expect(
                refused.answer?.refusal
                    == """
                    the App Store refuses the request: the subscription was extended twice in the last 365 days \
                    (error 4030005)
                    """)
            #expect(next.answer?.result == .accepted && next.repeated == nil)
            #expect(try await bundle.events()[1] == "write_answer made-1 refused 4030005")
        }
    }

    @Test("a rejected key leaves the request open")
    func keyRejected() async throws {
        try await Self.with { bundle in
            bundle.store.api.inject(.unauthorized(hasText: true), requests: 2)

            let outcome = try await bundle.write(bundle.extend())

            #expect(outcome.answer == StoreWrite.Answer(.unknown, problem: StoreWrite.Answer.keyRejected))
            #expect(outcome.answer?.refusal == nil && bundle.extensions == 0)
        }
    }

    @Test("an account token replaces another one, even one without an answer")
    func accountToken() async throws {
        try await Self.with { bundle in
            func set(_ token: String) -> StoreWrite.Change {
                .setAccountToken(originalTransactionId: bundle.id, appAccountToken: token)
            }
            bundle.store.api.inject(.error(5_000_000), requests: 4)

            let lost = try await bundle.write(set(Self.token))
            let next = try await bundle.write(set("7e3fb20b-4cdb-47cc-936d-99d65f608138"), made: "made-2")
            // An extension is another kind of change.
            let extended = try await bundle.write(bundle.extend(), made: "made-3")

            #expect(lost.answer?.problem == "temporary_status")
            #expect(next.answer?.result == .accepted && extended.answer?.result == .accepted)
        }
    }

    @Test("all subscriptions of a product are extended once, however often that is requested")
    func extendAll() async throws {
        try await Self.with { bundle in
            let product = bundle.product
            let change = StoreWrite.Change.extendAll(productId: product, storefronts: [], Self.week)
            bundle.store.api.inject(.dropped, requests: 4)

            let lost = try await bundle.write(change, made: Self.token)
            let made = try await bundle.write(change, made: "7e3fb20b-4cdb-47cc-936d-99d65f608138")
            let known = try await bundle.log.writes(about: product, in: Self.stream)

            #expect(lost.answer?.result == .unknown)
            #expect(made.answer?.result == .accepted && made.repeated == 2, "\(made)")
            #expect(known.map(\.position) == [4, 3, 2, 1])
            #expect(Set(known.map(\.write.requestIdentifier)) == [Self.token])
        }
    }
}

extension StoreWriter.Outcome {
    fileprivate var write: StoreWrite? {
        if case .asked(let write, _, _) = self { write } else { nil }
    }

    fileprivate var answer: StoreWrite.Answer? {
        if case .asked(let write, _, _) = self { write.answer } else { nil }
    }

    /// The position of the event that it repeats.
    fileprivate var repeated: Int64? {
        if case .asked(_, _, let repeats) = self { repeats?.position } else { nil }
    }
}
