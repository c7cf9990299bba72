import AppStore
import Encoding
import EventLog
import Postgres
import Readers
import StoreSimulator
import Subscriptions
import TestSupport
import Testing

@Suite("Explanations of stored customers, now and as known before")
struct ExplanationReaderTests {
    typealias Row = CustomerLog.Row

    /// The only explanation of an entitlement; nil if no customer has the id.
    private static func explanation(
        _ id: String, of entitlement: String = "monthly", on date: Instant, knownAt: Instant? = nil,
        as kind: CustomerKey.Kind? = nil, _ reader: CustomerReader
    ) async throws -> Explanation? {
        let reference = CustomerReader.Reference(app: nil, environment: .production, id: id, kind: kind)
        let answer = try await reader.explanations(
            CustomerReader.Question(reference, at: date), of: entitlement, knownAt: knownAt)
        guard case .found(let found) = answer else { return nil }
        #expect(found.explanations.count == 1)
        return found.explanations.first
    }

    @Test("a purchase, its refund and the reversal are explained with their events, as known after each")
    func refund() async throws {
        try await CustomerLog.with { log in
            try await log.tell([.rows([Row("10", 1..<10, account: "aa")])], on: 2)
            try await log.tell([.rows([Row("10", 1..<10, account: "aa", revokedOn: 3)])], on: 4)
            try await log.tell([.rows([Row("10", 1..<10, account: "aa")])], on: 6)
            let reader = CustomerReader(pool: log.reader)
            func known(_ date: Int?) async throws -> Explanation? {
                try await Self.explanation("aa", on: day(5), knownAt: date.map { day($0) }, reader)
            }

            let before = try #require(try await known(3))
            let after = try #require(try await known(5))
            let reversed = try #require(try await known(7))
            let now = try #require(try await known(nil))

            #expect(try await known(1) == nil)
            #expect(before.active && before.because.map(\.rule) == [.paid, .ownName, .tiedByAccountToken])
            #expect(before.because.map(\.positions) == [[1], [], [1]])
            #expect(!after.active)
            #expect(after.because.prefix(2).map(\.rule) == [.refundedWhole, .paid])
            #expect(after.because.first?.positions == [2])
            for explanation in [reversed, now] {
                #expect(explanation.active)
                #expect(explanation.because.prefix(2).map(\.rule) == [.paid, .laterStatementWins])
                // The event repeats what the first one stated, so its facts have the position of that one.
                #expect(explanation.because.dropFirst().first?.positions == [3])
            }
            #expect(now.knownAt == nil && reversed.knownAt == day(7))
        }
    }

    @Test("a link that moves is explained to both customers")
    func links() async throws {
        try await CustomerLog.with { log in
            try await log.tell([.rows([Row("10", 1..<10)])], on: 2)
            try await log.tell([.links("u-1", [CustomerKey(.subscription, "10")])], on: 3)
            try await log.tell([.links("u-2", [CustomerKey(.subscription, "10")])], on: 4)
            let reader = CustomerReader(pool: log.reader)

            let lost = try #require(try await Self.explanation("u-1", on: day(5), reader))
            let gained = try #require(try await Self.explanation("u-2", on: day(5), reader))
            let then = try #require(try await Self.explanation("u-1", on: day(5), knownAt: day(4), reader))

            #expect(!lost.active && lost.because.first?.rule == .linkMoved)
            #expect(lost.because.first?.positions == [3])
            #expect(gained.active && gained.because.map(\.rule).contains(.tiedByLink))
            #expect(gained.because.map(\.rule).contains(.linkMoved))
            #expect(then.active && then.because.last?.rule == .tiedByLink && then.because.last?.positions == [2])
        }
    }

    @Test("a configured entitlement is explained, and all of a customer in order")
    func mapped() async throws {
        try await CustomerLog.with { log in
            try await log.tell([.rows([Row("10", 1..<10), Row("20", 1..<5, product: "books")])], on: 2)
            try await log.script(
                """
                insert into subledger.product (app, product_id) values ('com.example.magazine', 'monthly');
                insert into subledger.product_entitlement (app, product_id, entitlement)
                values ('com.example.magazine', 'monthly', 'plus')
                """)
            let reader = CustomerReader(pool: log.reader)
            let reference = CustomerReader.Reference(app: nil, environment: .production, id: "10")
            let answer = try await reader.explanations(
                CustomerReader.Question(reference, at: day(7)), of: nil, knownAt: nil)

            guard case .found(let found) = answer else {
                Issue.record("\(answer)")
                return
            }
            #expect(found.explanations.map(\.entitlement) == ["books", "plus"])
            #expect(found.explanations.map(\.active) == [false, true])
            #expect(found.explanations.map { $0.because.first?.rule } == [.clock, .paid])
            #expect(found.explanations.last?.because.map(\.rule).contains(.mapped) == true)
        }
    }

    @Test("a skipped event is among what does not count")
    func skipped() async throws {
        try await CustomerLog.with { log in
            try await log.tell([.rows([Row("10", 1..<10)])], on: 2)
            try await log.tell([.rows([Row("10", 10..<20, transaction: "11")])], on: 3, folding: false)
            try await log.script(
                """
                insert into subledger.projector_skip (stream_id, position, reason, skipped_by)
                values (1, 2, 'by hand', 'a test')
                """)
            await log.projector.foldAllStreams()
            let reader = CustomerReader(pool: log.reader)

            let explanation = try #require(try await Self.explanation("10", on: day(15), reader))

            #expect(!explanation.active && explanation.because.first?.rule == .clock)
            #expect(explanation.against.map(\.rule) == [.skipped])
            #expect(explanation.against.first?.positions == [2])
        }
    }

    @Test("the stories of the simulator are explained by the storyteller's books, before and after each notification")
    func stories() async throws {
        var settings = Simulation.Settings(
            app: SimulatedApp(
                bundleId: V1Body.app, appAppleId: 1_234_567_890, environment: .production,
                sharedSecret: V1Body.secret))
        settings.seed = TestSeed.value
        settings.subscriptions = Story.allCases.count
        let simulation = try #require(Simulation(settings))
        let verifier = NotificationVerifier(
            apps: Apps([App(bundleId: V1Body.app, sharedSecrets: [V1Body.secret])]),
            signatures: SignatureVerifier(roots: SimulatedLog.roots))
        try await SimulatedLog.with { log in
            var deliveries: [SimulatedLog.Delivery] = []
            for delivery in simulation.deliveries {
                deliveries.append(
                    SimulatedLog.Delivery(
                        notification: try await verifier.verify(delivery.body(), receivedAt: delivery.receivedAt),
                        receivedAt: delivery.receivedAt))
            }
            try await log.append(deliveries)
            await log.projector.foldAllStreams()
            for product in Product.all(of: V1Body.app) {
                for entitlement in product.configuredEntitlements {
                    try await log.script(
                        """
                        insert into subledger.product (app, product_id) values ('\(V1Body.app)', '\(product.id)')
                        on conflict do nothing;
                        insert into subledger.product_entitlement (app, product_id, entitlement)
                        values ('\(V1Body.app)', '\(product.id)', '\(entitlement)')
                        """)
                }
            }
            let pool = PostgresPool(
                log.database.with(role: "subledger_reader"), limit: 2, logger: LogRecorder().logger)
            let outcome: Result<Int, any Error>
            do {
                outcome = .success(try await Self.check(simulation, CustomerReader(pool: pool)))
            } catch {
                outcome = .failure(error)
            }
            await pool.close()
            #expect(try outcome.get() > 300)
        }
    }

    /// Returns how many answers were compared. Stories with several subscriptions are left out: a customer may have an
    /// entitlement by any of them.
    private static func check(_ simulation: Simulation, _ reader: CustomerReader) async throws -> Int {
        var count = 0
        for number in Story.allCases.indices {
            let rendered = simulation.storyteller.story(at: number)
            guard rendered.subscriptions.count == 1, let subscription = rendered.subscriptions.first else { continue }
            let names = Set(subscription.products.flatMap(\.entitlements)).sorted()
            var known: BookEntry?
            for (notification, entry) in zip(subscription.notifications, subscription.history)
            where notification.version2 != nil {
                let receivedAt = notification.signedDate.advanced(byMilliseconds: 1500)
                for (books, knownAt) in [(known, receivedAt.advanced(byMilliseconds: -1)), (entry, receivedAt)] {
                    for name in names {
                        let explanation = try await explanation(
                            subscription.originalTransactionId, of: name, on: notification.signedDate, knownAt: knownAt,
                            as: .subscription, reader)
                        count += 1
                        let message =
                            "\(rendered.story.name), seed \(simulation.settings.seed): \(explanation?.sentence ?? "")"
                        guard let books else {
                            #expect(explanation == nil, "\(message)")
                            continue
                        }
                        let expected = books.access.reason(for: name, at: notification.signedDate)
                        let decisive = try #require(explanation?.because.first, "\(message)")
                        if let expected {
                            #expect(decisive.rule.rawValue == expected.kind.rawValue, "\(expected): \(message)")
                            #expect(decisive.transactionId == expected.transactionId, "\(expected): \(message)")
                        } else {
                            #expect([.noPurchase, .noAccessKind].contains(decisive.rule), "\(message)")
                        }
                    }
                }
                known = entry
            }
        }
        return count
    }
}
