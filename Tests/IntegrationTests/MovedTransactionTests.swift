import Encoding
import EventLog
import Postgres
import Projector
import Readers
import Subscriptions
import TestSupport
import Testing

/// See the tests of the fold for the public reports.
@Suite("A transaction that moves to another subscription in the projections")
struct MovedTransactionTests {
    typealias Row = CustomerLog.Row

    /// Lapsed on January 5; bought again under a new id, and later reported under the old one, which is renewed.
    private static let told: [CustomerLog.Told] = [
        .rows([Row("10", 1..<5, transaction: "1")]), .rows([Row("90", 6..<10, transaction: "9")]),
        .links("u-1", [CustomerKey(.subscription, "90")]), .rows([Row("10", 6..<10, transaction: "9")]),
        .rows([Row("10", 10..<20, transaction: "11")]),
    ]

    private static func rows(_ log: CustomerLog) async throws -> [String] {
        try await log.lines(
            """
            select concat_ws(' ', 'transaction', original_transaction_id, transaction_id) as line
            from subledger.transaction
            union all
            select concat_ws(' ', 'access', original_transaction_id, to_char(starts_at at time zone 'UTC', 'DD'),
              to_char(ends_at at time zone 'UTC', 'DD'), transaction_id)
            from subledger.access_period
            union all
            select concat_ws(' ', 'owner', original_transaction_id, customer_kind, customer_id)
            from subledger.ownership
            order by line
            """)
    }

    private static let expected = [
        "access 10 01 05 1", "access 10 06 10 9", "access 10 10 20 11", "owner 10 link u-1", "owner 90 link u-1",
        "transaction 10 1", "transaction 10 11", "transaction 10 9",
    ]

    @Test("one event at a time or all at once, it is in one subscription, and a rebuild and an audit find the same")
    func moved() async throws {
        for inBatches in [false, true] {
            try await CustomerLog.with { log in
                try await log.tell(Self.told, inBatches: inBatches)

                #expect(try await Self.rows(log) == Self.expected, "in batches: \(inBatches)")
                try await log.isConfirmed { try await Self.rows(log) }
            }
        }
    }

    @Test("it moves back, and to a third subscription that was known before, and nothing is left behind")
    func back() async throws {
        try await CustomerLog.with { log in
            try await log.tell(Self.told)
            try await log.tell([.rows([Row("90", 6..<10, transaction: "9")])], on: 2)
            #expect(
                try await Self.rows(log).filter { $0.hasSuffix(" 9") } == ["access 90 06 10 9", "transaction 90 9"])
            try await log.isConfirmed { try await Self.rows(log) }

            try await log.tell(
                [.rows([Row("50", transaction: "50")]), .rows([Row("50", 6..<10, transaction: "9")])], on: 3)
            #expect(
                try await Self.rows(log).filter { $0.hasSuffix(" 9") } == ["access 50 06 10 9", "transaction 50 9"])
            try await log.tell([.rows([Row("10", 6..<10, transaction: "9", revokedOn: 8)])], on: 4)
            #expect(try await Self.rows(log).filter { $0.hasSuffix(" 9") } == ["transaction 10 9"])
            try await log.isConfirmed { try await Self.rows(log) }
        }
    }

    @Test("by the events received until then, it is where it was, and the explanation names its new place")
    func past() async throws {
        try await CustomerLog.with { log in
            try await log.tell(Array(Self.told.prefix(3)))
            try await log.tell(Array(Self.told.suffix(2)), on: 3)
            let reader = CustomerReader(pool: log.reader)
            let stream = StreamKey(app: CustomerLog.app, environment: .production)

            let before = try #require(try await reader.subscription("90", in: stream, knownAt: day(2)))
            #expect(before.subscription.access.count == 1)
            let after = try #require(try await reader.subscription("90", in: stream, knownAt: day(4)))
            #expect(after.subscription.access.isEmpty)
            let effects = try #require(try await reader.effects(of: 4, on: "10", in: stream))
            #expect(effects.map(\.after.originalTransactionId) == ["10", "90"])
            #expect(effects.map { $0.after.access.count - ($0.before?.access.count ?? 0) } == [1, -1])
        }
    }

    @Test("handed in under its old id, it shows the subscription that has it now")
    func handedIn() async throws {
        try await CustomerLog.with { log in
            try await log.tell(Self.told)
            let reader = SubscriptionReader(pool: log.reader)
            let stream = StreamKey(app: CustomerLog.app, environment: .production)

            for ids in [["90"], ["10"], ["90", "10"]] {
                let found = try await reader.leading(reader.subscriptions(ids, in: stream), in: stream)
                #expect(found.map(\.facts.originalTransactionId) == ["10"], "\(ids)")
            }
            try await log.tell([.rows([Row("90", 20..<25, transaction: "92")])], on: 2)
            let found = try await reader.leading(reader.subscriptions(["90"], in: stream), in: stream)
            #expect(found.map(\.facts.originalTransactionId) == ["90"])
        }
    }

    @Test("an audit finds a transaction that two subscriptions have")
    func audit() async throws {
        try await CustomerLog.with { log in
            try await log.tell([.rows([Row("10", transaction: "1")]), .rows([Row("20", transaction: "2")])])
            let owner = try await TestCluster.connect(log.database)
            try await owner.script(
                "update subledger.transaction set transaction_id = '1' where transaction_id = '2'",
                deadline: .now + .seconds(30))
            await owner.close()
            let connection = try await TestCluster.connect(log.database.with(role: "subledger_projector"))
            let audit = try await ProjectionAudit(connection: connection, seed: 1)
            let stream = try await log.lines("select stream_id::text as line from subledger.stream")[0]

            let problem = await #expect(throws: ProjectionAudit.Problem.self) {
                _ = try await audit.check(stream: Int32(stream) ?? 0, .all) { _, _ in }
            }
            #expect(problem?.description == "transaction 1 of subscription 10: is of another subscription, too")
            await connection.close()
        }
    }
}
