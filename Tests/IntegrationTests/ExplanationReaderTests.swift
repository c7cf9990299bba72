import Encoding
import Readers
import Subscriptions
import TestSupport
import Testing

@Suite("Explanations of stored customers, now and as known before")
struct ExplanationReaderTests {
    typealias Row = CustomerLog.Row

    /// The only explanation of an entitlement; nil if no customer has the id.
    private static func explanation(
        _ id: String, of entitlement: String = "monthly", on date: Instant, knownAt: Instant? = nil,
        _ reader: CustomerReader
    ) async throws -> Explanation? {
        let reference = CustomerReader.Reference(app: nil, environment: .production, id: id)
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
            #expect(after.because.first?.by.map(\.position) == [2])
            #expect(after.because.first?.by.first?.receivedAt.description.hasPrefix("2024-01-04") == true)
            #expect(after.restated?.active == true && after.restated?.reason.rule == .laterStatementWins)
            #expect(after.restated?.reason.by.map(\.position) == [3])
            #expect(before.restated == nil && reversed.restated == nil && now.restated == nil)
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
}
