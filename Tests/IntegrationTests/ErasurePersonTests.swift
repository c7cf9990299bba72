import Encoding
import EventLog
import Foundation
import Postgres
import Projector
import Subscriptions
import TestSupport
import Testing

@Suite("An erasure takes what is the person's, and nothing of others")
struct ErasurePersonTests {
    private static let first = "aaaaaaaa-0000-4000-8000-000000000001"
    private static let second = "bbbbbbbb-0000-4000-8000-000000000002"

    static func erase(
        _ key: CustomerKey, _ log: CustomerLog, on noon: Int, random: [UInt8]? = nil
    ) async throws -> [Erasure.Outcome] {
        let order = Erasure.Order(
            now: { day(noon) }, by: "test", reason: "by mail",
            random: random ?? (0..<16).map { _ in UInt8.random(in: 0...255) })
        let outcomes = try await with(log) { erasure in
            try await erasure.erase(key, app: CustomerLog.app, environment: .production, order)
        }
        await log.projector.foldAllStreams()
        return outcomes
    }

    static func with<Value>(_ log: CustomerLog, _ body: (Erasure) async throws -> Value) async throws -> Value {
        let connection = try await TestCluster.connect(log.database)
        let listing = try await TestCluster.connect(log.database)
        let outcome: Result<Value, any Error>
        do {
            outcome = .success(try await body(Erasure(connection: connection, listing: listing, archive: .none)))
        } catch {
            outcome = .failure(error)
        }
        await connection.close()
        await listing.close()
        return try outcome.get()
    }

    /// The first column of a query.
    static func lines(_ log: CustomerLog, _ sql: StaticString) async throws -> [String] {
        let connection = try await TestCluster.connect(log.database)
        let rows = try await connection.query(
            Statement("erasure_lines", SQL(stringLiteral: sql)), deadline: .now + .seconds(20))
        let lines: [String] = try rows.map { try $0.value(at: 0) }
        await connection.close()
        return lines
    }

    /// Who owns what, as `subscription kind customer start end`.
    static func owners(_ log: CustomerLog) async throws -> [String] {
        try await lines(
            log,
            """
            select concat_ws(' ', original_transaction_id, customer_kind, customer_id, starts_at, ends_at)
            from subledger.ownership
            order by 1
            """)
    }

    static func isAsRebuilt(_ log: CustomerLog) async throws -> Bool {
        let pool = PostgresPool(
            log.database.with(role: "subledger_projector"), limit: 3, logger: LogRecorder().logger)
        let rebuild = ProjectionRebuild(
            owner: log.database, pool: pool, app: nil, environment: nil, now: { .latest }, workers: 3,
            eventsIndexedMax: 2, eventsAtOnceMax: 1)
        var differences: [RebuildDifference] = []
        let outcome: Result<ProjectionRebuild.Comparison, any Error>
        do {
            outcome = .success(try await rebuild.compare(onProgress: { _ in }) { differences.append($0) })
        } catch {
            outcome = .failure(error)
        }
        await pool.close()
        let comparison = try outcome.get()
        if comparison.rows > 0 { Issue.record("\(differences.map(\.json))") }
        return comparison.rows == 0
    }

    static func mentions(_ texts: String..., in log: CustomerLog) async throws -> Bool {
        let connection = try await TestCluster.connect(log.database)
        let rows = try await connection.query(
            Statement(
                "erasure_mentions",
                """
                select exists (
                  select
                  from (
                    select facts::text as line from subledger.event
                    union all
                    select convert_from(body, 'UTF8') from subledger.event_body
                    union all
                    select subscription::text from subledger.subscription
                    union all
                    select transaction::text from subledger.transaction
                    union all
                    select customer_edge::text from subledger.customer_edge
                    union all
                    select customer_link::text from subledger.customer_link
                    union all
                    select customer_identity::text from subledger.customer_identity
                    union all
                    select ownership::text from subledger.ownership
                    union all
                    select change::text from subledger.change
                  ) as everything
                  join unnest($1::text[]) as wanted (text) on position(wanted.text in lower(line)) > 0
                )
                """), [.array(texts)], deadline: .now + .seconds(20))
        let found: Bool = try rows[0].value(at: 0)
        await connection.close()
        return found
    }

    @Test("of two users of one device, the other one keeps everything")
    func sharedDevice() async throws {
        try await CustomerLog.with { log in
            try await log.tell([
                .rows([
                    .init("101", 1..<10, account: Self.first, transaction: "1"),
                    .init("101", 10..<32, account: Self.second, transaction: "2"),
                    .init("201", 1..<32, product: "book", account: Self.first),
                    .init("301", 1..<32, product: "video", account: Self.second),
                ]),
                .rows([.init("101", 10..<40, account: Self.second, transaction: "2")]),
            ])
            let before = try await Self.owners(log).filter { $0.contains(Self.second) }

            let outcomes = try await Self.erase(CustomerKey(.account, Self.first), log, on: 20)

            #expect(try await !Self.mentions(Self.first, in: log))
            let after = try await Self.owners(log).filter { $0.contains(Self.second) }
            #expect(after == before)
            #expect(outcomes.count == 1 && outcomes[0].statement.subscriptions == ["201"])
            #expect(try await Self.isAsRebuilt(log))
            // What is the other one's is still asked about.
            #expect(
                try await Self.lines(log, "select original_transaction_id from subledger.check_schedule order by 1")
                    .contains("101"))
        }
    }

    @Test("someone who comes back is a new customer, and can be erased again")
    func returning() async throws {
        try await CustomerLog.with { log in
            try await log.tell([.rows([.init("1")]), .links("u-1", [CustomerKey(.subscription, "1")])])
            let once = try await Self.erase(CustomerKey(.link, "u-1"), log, on: 2)
            try await log.tell(
                [.rows([.init("5", 3..<32)]), .links("u-1", [CustomerKey(.subscription, "5")])], on: 3)
            #expect(try await Self.mentions("u-1", in: log))

            let twice = try await Self.erase(CustomerKey(.link, "u-1"), log, on: 4)

            #expect(try await !Self.mentions("u-1", in: log))
            #expect(once[0].statement.pseudonym != twice[0].statement.pseudonym)
            #expect(once[0].statement.positions == [1...2] && twice[0].statement.positions == [4...5])
            #expect(
                try await Self.lines(
                    log,
                    """
                    select position::text
                    from subledger.event_body
                    where octet_length(body) > 0
                    order by position
                    """) == ["3", "6"])
            #expect(try await Self.isAsRebuilt(log))
            await #expect(throws: Erasure.Failure.nobody) {
                try await Self.erase(CustomerKey(.link, "u-1"), log, on: 5)
            }
        }
    }

    @Test("an id of several kinds, with the name of a product, or with an account token as its text")
    func texts() async throws {
        try await CustomerLog.with { log in
            try await log.tell([
                .rows([.init("1", account: Self.first)]), .rows([.init("2", account: Self.second)]),
                .links("monthly", [CustomerKey(.account, Self.first)]),
                .links(Self.second, [CustomerKey(.account, Self.second), CustomerKey(.subscription, "3")]),
                .rows([.init("3")]),
            ])

            _ = try await Self.erase(CustomerKey(.link, "monthly"), log, on: 2)
            _ = try await Self.erase(CustomerKey(.link, Self.second), log, on: 3)

            #expect(try await !Self.mentions(Self.first, Self.second, in: log))
            #expect(
                try await Self.lines(log, "select distinct product_id from subledger.access_period") == ["monthly"])
            #expect(try await Self.owners(log).count == 3)
            #expect(try await Self.isAsRebuilt(log))
        }
    }

    @Test("all ids of a person, by any of them")
    func manyIds() async throws {
        let asked = [
            CustomerKey(.link, "u-7"), CustomerKey(.account, Self.second), CustomerKey(.subscription, "2"),
            CustomerKey(.appTransaction, "704000000000000001"),
        ]
        for key in asked {
            try await CustomerLog.with { log in
                try await log.tell([
                    .rows([.init("1", account: Self.first)]), .rows([.init("2", account: Self.second)]),
                    .rows([.init("3", appTransaction: "704000000000000001")]),
                    .links(
                        "u-7",
                        [
                            CustomerKey(.account, Self.first), CustomerKey(.account, Self.second),
                            CustomerKey(.appTransaction, "704000000000000001"),
                        ]),
                    .rows([.init("9", account: "cccccccc-0000-4000-8000-000000000003")]),
                ])

                let outcomes = try await Self.erase(key, log, on: 2)

                #expect(outcomes[0].statement.subscriptions == ["1", "2", "3"], "\(key)")
                #expect(
                    try await !Self.mentions("u-7", Self.first, Self.second, "704000000000000001", in: log), "\(key)")
                #expect(try await Self.mentions("cccccccc-0000-4000-8000-000000000003", in: log))
                #expect(try await Self.isAsRebuilt(log), "\(key)")
            }
        }
    }
}
