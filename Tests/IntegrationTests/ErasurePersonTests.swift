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
        _ key: CustomerKey, _ log: CustomerLog, on noon: Int, random: [UInt8]? = nil,
        replacesTransactions: Bool = false, isRepeated: Bool = false
    ) async throws -> [Erasure.Outcome] {
        let order = Erasure.Order(
            now: { day(noon) }, by: "test", reason: "by mail",
            random: random ?? (0..<16).map { _ in UInt8.random(in: 0...255) },
            replacesTransactions: replacesTransactions, isRepeated: isRepeated)
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

    // MARK: The stores' own ids

    /// Days that are long over, as those of a subscription that no store reports any more.
    private static let past = -300..<(-200)

    /// Everything about access and its time, without ids.
    private static func access(_ log: CustomerLog) async throws -> [String] {
        try await lines(
            log,
            """
            select concat_ws(' ', product_id, starts_at, ends_at, cause, position, first_start, movement)
            from subledger.access_period
            order by 1
            """)
    }

    @Test("with the stores' own ids, nothing names a purchase of the person, and everything else is as before")
    func transactions() async throws {
        try await CustomerLog.with { log in
            try await log.tell([
                // By its bytes, the longer number is the smaller one.
                .rows([
                    .init("2000000000000101", Self.past, account: Self.first, transaction: "2000000000000101"),
                    .init("2000000000000101", -200..<(-150), account: Self.first, transaction: "20000000000001019"),
                    .init("10000000000000109", Self.past, product: "book", account: Self.first),
                ]),
                .rows([.init("2000000000000201", account: Self.second)]),
                .links("u-7", [CustomerKey(.account, Self.first), CustomerKey(.subscription, "2000000000000101")]),
                .rows([
                    .init(
                        "2000000000000301", Self.past, product: "video", account: Self.first,
                        previousSubscription: "2000000000000300")
                ]),
            ])
            let before = try await Self.access(log)
            let others = try await Self.owners(log).filter { $0.contains("2000000000000201") }

            let outcomes = try await Self.erase(
                CustomerKey(.link, "u-7"), log, on: 2, replacesTransactions: true)

            #expect(
                try await !Self.mentions(
                    "2000000000000101", "20000000000001019", "10000000000000109", "2000000000000300",
                    "2000000000000301", "u-7", Self.first, in: log))
            #expect(try await Self.access(log) == before)
            #expect(try await Self.owners(log).filter { $0.contains("2000000000000201") } == others)
            let statement = outcomes[0].statement
            #expect(statement.replacesTransactions && statement.positions == [1...1, 3...4])
            #expect(
                statement.subscriptions.count == 3
                    && statement.subscriptions.allSatisfy { $0.hasPrefix("\(statement.pseudonym)-apple-") })
            // A store account is named by its smallest id, and an id by one name as subscription and as transaction.
            #expect(
                try await Self.lines(
                    log,
                    """
                    select count(*)::text
                    from subledger.transaction
                    where original_transaction_id = transaction_id
                      and original_transaction_id like 'erased-%'
                    """) == ["3"])
            #expect(
                try await Self.lines(
                    log, "select distinct analyst.store(original_transaction_id) from subledger.subscription")
                    == ["apple"])
            #expect(try await Self.isAsRebuilt(log))
            await #expect(throws: Erasure.Failure.nobody) {
                try await Self.erase(
                    CustomerKey(.subscription, "2000000000000101"), log, on: 3, replacesTransactions: true)
            }
        }
    }

    @Test("orders of Google keep their numbers behind a pseudonym, also where nothing but the order is named")
    func orders() async throws {
        try await CustomerLog.with { log in
            let token = "token-of-the-person-aaaaaaaaaaaaaaaa"
            var orders: [CustomerLog.Told] = []
            for (index, orderId) in ["GPA.1111-2222-3333-44444", "GPA.1111-2222-3333-44444..0"].enumerated() {
                let start = -300 + 30 * index
                var item = PurchaseSnapshot.Item(productId: "monthly")
                item.orderId = orderId
                item.expiryTime = day(start + 30)
                item.isAutoRenewing = index == 0
                var snapshot = PurchaseSnapshot(
                    purchaseToken: token, kind: .subscription,
                    stateName: index == 0 ? "SUBSCRIPTION_STATE_ACTIVE" : "SUBSCRIPTION_STATE_EXPIRED")
                snapshot.startTime = day(-300)
                snapshot.obfuscatedAccountId = Self.first
                snapshot.items = [item]
                orders.append(.purchase(.snapshot(snapshot), on: index == 0 ? start : start + 31))
            }
            try await log.tell(orders)
            try await log.script(
                """
                insert into subledger.store_report_row (name, sha256, line, day, event, app, order_id, fields)
                values
                  ('sales', '\\x00', 1, '2023-05-01', 'sale', '\(CustomerLog.app)', 'GPA.1111-2222-3333-44444..0',
                    '{"Order Number": "GPA.1111-2222-3333-44444..0", "Product ID": "monthly"}'),
                  ('sales', '\\x00', 2, '2023-05-01', 'sale', '\(CustomerLog.app)', 'GPA.1111-2222-3333-44445',
                    '{"Order Number": "GPA.1111-2222-3333-44445"}')
                """)
            let before = try await Self.access(log)

            let outcomes = try await Self.erase(
                CustomerKey(.account, Self.first), log, on: 2, replacesTransactions: true)

            #expect(try await !Self.mentions("gpa.1111-2222-3333-44444", token, Self.first, in: log))
            let stem = outcomes[0].statement.pseudonym
            let orderIds = try await Self.lines(log, "select order_id from subledger.store_report_row order by line")
            #expect(orderIds[0].hasPrefix(stem) && orderIds[0].hasSuffix("..0"), "\(orderIds)")
            #expect(orderIds[1] == "GPA.1111-2222-3333-44445")
            #expect(
                try await Self.lines(
                    log, "select fields ->> 'Order Number' from subledger.store_report_row order by line") == orderIds)
            let transactions = try await Self.lines(
                log, "select transaction_id from subledger.transaction order by purchase_date")
            #expect(transactions.contains(orderIds[0]), "\(transactions)")
            #expect(try await Self.access(log) == before)
            #expect(try await Self.isAsRebuilt(log))
        }
    }

    @Test("the stores' own ids stay while a store can report them, and if they are somebody else's, too")
    func obstacles() async throws {
        try await CustomerLog.with { log in
            try await log.tell([
                .rows([.init("1", account: Self.first)]),
                .rows([
                    .init("101", Self.past, account: Self.second, transaction: "1011"),
                    .init("101", -200..<(-150), account: "cccccccc-0000-4000-8000-000000000003", transaction: "1012"),
                ]),
                .rows([
                    .init("201", Self.past, account: "dddddddd-0000-4000-8000-000000000004"),
                    .init("301", Self.past, account: "eeeeeeee-0000-4000-8000-000000000005"),
                ]),
            ])
            let facts: StaticString = "select facts::text from subledger.event order by position"
            let before = try await Self.lines(log, facts)

            // Until 100 days after its end, since nothing says that its renewal is off.
            await #expect(throws: Erasure.Failure.open(subscriptions: 1, until: day(132))) {
                try await Self.erase(CustomerKey(.account, Self.first), log, on: 131, replacesTransactions: true)
            }
            for account in [
                Self.second, "cccccccc-0000-4000-8000-000000000003", "dddddddd-0000-4000-8000-000000000004",
            ] {
                await #expect(throws: Erasure.Failure.shared(subscriptions: 1), "\(account)") {
                    try await Self.erase(CustomerKey(.account, account), log, on: 2, replacesTransactions: true)
                }
            }
            #expect(try await Self.lines(log, facts) == before)
            // What was done in another copy of the log is repeated.
            let outcomes = try await Self.erase(
                CustomerKey(.account, Self.first), log, on: 2, replacesTransactions: true, isRepeated: true)
            #expect(outcomes[0].statement.subscriptions == ["\(outcomes[0].statement.pseudonym)-apple-2"])
        }
    }

    @Test("what a store reports later under the same id is a new subscription, and can be erased again")
    func later() async throws {
        try await CustomerLog.with { log in
            try await log.tell([.rows([.init("77", Self.past, account: Self.first)])])
            _ = try await Self.erase(CustomerKey(.account, Self.first), log, on: 2, replacesTransactions: true)

            try await log.tell([.rows([.init("77", Self.past, account: Self.first, revokedOn: -290)])], on: 3)

            let subscriptions = try await Self.lines(
                log, "select original_transaction_id from subledger.subscription order by 1")
            #expect(subscriptions.count == 2 && subscriptions[0] == "77" && subscriptions[1].hasPrefix("erased-"))
            #expect(try await Self.owners(log).count == 2)
            #expect(try await Self.isAsRebuilt(log))
            _ = try await Self.erase(CustomerKey(.account, Self.first), log, on: 4, replacesTransactions: true)
            #expect(try await !Self.mentions(Self.first, "\"77\"", in: log))
            #expect(try await Self.isAsRebuilt(log))
        }
    }

    @Test("someone who was erased before loses the stores' own ids, too")
    func afterwards() async throws {
        try await CustomerLog.with { log in
            try await log.tell([
                .rows([.init("2000000000000101", Self.past, account: Self.first)]),
                .links("u-1", [CustomerKey(.account, Self.first)]),
            ])
            let first = try await Self.erase(CustomerKey(.link, "u-1"), log, on: 2)

            let second = try await Self.erase(
                CustomerKey(.subscription, "2000000000000101"), log, on: 3, replacesTransactions: true)

            #expect(try await !Self.mentions("2000000000000101", in: log))
            #expect(try await Self.owners(log).allSatisfy { $0.contains(first[0].statement.pseudonym) })
            #expect(try await Self.owners(log).allSatisfy { $0.hasPrefix(second[0].statement.pseudonym) })
            #expect(try await Self.isAsRebuilt(log))
        }
    }
}
