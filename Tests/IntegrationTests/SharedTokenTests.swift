import Postgres
import Projector
import Subscriptions
import TestSupport
import Testing

@Suite("An account token of more store accounts than configured leads to nobody")
struct SharedTokenTests {
    typealias Row = CustomerLog.Row
    private static let token = "cccccccc-0000-4000-8000-000000000003"

    private static func limit(_ max: Int, app: String = CustomerLog.app) -> String {
        """
        insert into subledger.app_ownership (app, policy, store_accounts_per_token_max)
        values ('\(app)', 'latest-buyer', \(max))
        on conflict (app) do update
        set store_accounts_per_token_max = excluded.store_accounts_per_token_max
        """
    }

    /// Purchases of three store accounts with one token, and links on the token and on one of the subscriptions.
    private static let story: [CustomerLog.Told] = [
        .rows([Row("10", account: "aa", appTransaction: "70")]),
        .rows([Row("20", account: "aa", appTransaction: "71")]),
        .rows([Row("30", account: "aa", appTransaction: "72")]),
        .links("u-1", [CustomerKey(.account, "aa")]),
        .links("u-2", [CustomerKey(.subscription, "20")]),
    ]
    private static let tied = [
        "account aa → link u-1", "app_transaction 70 → link u-1", "app_transaction 71 → link u-1",
        "app_transaction 72 → link u-1", "link u-1 → link u-1", "link u-2 → link u-2", "subscription 10 → link u-1",
        "subscription 20 → link u-2",
        "subscription 30 → link u-1",
    ]
    private static let separate = [
        "app_transaction 70 → subscription 10", "app_transaction 71 → link u-2",
        "app_transaction 72 → subscription 30", "link u-1 → link u-1",
        "link u-2 → link u-2", "subscription 10 → subscription 10", "subscription 20 → link u-2",
        "subscription 30 → subscription 30",
    ]

    @Test("every order of the events gives the same customers, at the limit and one above", arguments: [3, 2])
    func order(limit: Int) async throws {
        try await CustomerLog.with { log in
            let orders = permutations(of: Self.story)
            for (number, order) in orders.enumerated() {
                try await log.script(Self.limit(limit, app: "app-\(number)"))
                try await log.tell(
                    order, app: "app-\(number)", inBatches: number.isMultiple(of: 2), folding: number % 10 == 1)
            }
            await log.projector.foldAllStreams()

            let found = try await log.lines(
                """
                select concat_ws(E'\\n', count(*), min(rows), max(rows))
                from (
                  select string_agg(
                    concat_ws(' ', kind, id, '→', customer_kind, customer_id), ', ' order by kind, id) as rows
                  from subledger.customer_identity
                  group by stream_id
                ) as streams
                """)
            let expected = (limit == 3 ? Self.tied : Self.separate).joined(separator: ", ")
            #expect(found == ["\(orders.count)\n\(expected)\n\(expected)"])
            #expect(
                try await log.lines(
                    "select concat_ws(' ', account_token, count(*)) from subledger.shared_account_token group by account_token"
                )
                    == (limit == 3 ? [] : ["aa \(orders.count)"]))
        }
    }

    private static func change(_ log: CustomerLog) async throws -> [String] {
        try await log.lines(
            """
            select concat_ws(' ', original_transaction_id, cause, position, customer_id)
            from subledger.change
            where kind = 'customer_changed'
            order by original_transaction_id, number
            """)
    }

    @Test("every subscription with the token moves once when it becomes shared, and back when it is no longer")
    func crossing() async throws {
        try await CustomerLog.with { log in
            try await log.script(Self.limit(2))
            let rows = [Row("10", account: "aa"), Row("20", account: "aa"), Row("30", account: "aa")]
            try await log.tell(rows.map { .rows([$0]) })
            let shared = try await log.identities()
            #expect(try await Self.change(log) == ["10 event 3 aa", "20 event 3 aa"])
            // The app's server sets the token of the user.
            try await log.tell([.rows([Row("30", account: "bb")])], on: 2)

            #expect(
                shared == [
                    "subscription 10 → subscription 10", "subscription 20 → subscription 20",
                    "subscription 30 → subscription 30",
                ])
            #expect(
                try await log.identities() == [
                    "account aa → account aa", "account bb → account bb", "subscription 10 → account aa",
                    "subscription 20 → account aa", "subscription 30 → account bb",
                ])
            #expect(
                try await Self.change(log) == [
                    "10 event 3 aa", "10 event 4 aa", "20 event 3 aa", "20 event 4 aa", "30 event 4 bb",
                ])
        }
    }

    @Test("subscriptions of one Apple Account count once, also if that is known later")
    func oneAccount() async throws {
        try await CustomerLog.with { log in
            try await log.script(Self.limit(1))
            try await log.tell([.rows([Row("10", account: "aa")]), .rows([Row("20", account: "aa")])])
            let before = try await log.identities()
            try await log.tell(
                [.rows([Row("10", account: "aa", appTransaction: "70")]), .rows([Row("20", appTransaction: "70")])],
                on: 2)

            #expect(before == ["subscription 10 → subscription 10", "subscription 20 → subscription 20"])
            #expect(
                try await log.identities() == [
                    "account aa → account aa", "app_transaction 70 → account aa", "subscription 10 → account aa",
                    "subscription 20 → account aa",
                ])
        }
    }

    @Test("one receipt with more purchases than the limit is one store account")
    func oneReceipt() async throws {
        try await CustomerLog.with { log in
            let ids = (10...21).map(String.init)
            try await log.tell([.rows(ids.map { Row($0, account: "aa") })])

            #expect(
                try await log.identities()
                    == ["account aa → account aa"] + ids.map { "subscription \($0) → account aa" })
        }
    }

    /// Purchases of coins on Google Play with one account id.
    private static func coins(_ numbers: Range<Int>) -> [CustomerLog.Told] {
        numbers.map { number in
            var snapshot = PurchaseSnapshot(
                purchaseToken: "coins-\(number)", kind: .product, stateName: PurchaseSnapshot.State.purchased.rawValue)
            snapshot.startTime = day(1 + number % 28)
            snapshot.obfuscatedAccountId = "aa"
            var item = PurchaseSnapshot.Item(productId: "coins")
            item.orderId = "GPA.\(number)"
            snapshot.items = [item]
            return .purchase(.snapshot(snapshot), on: 1 + number % 28)
        }
    }

    @Test("purchases say nothing about how many people there are, however many one user makes")
    func manyPurchases() async throws {
        try await CustomerLog.with { log in
            // One subscription after the other, and coins.
            let subscriptions = (1...14).map { number in
                CustomerLog.Told.rows([Row("\(number)", number..<(number + 1), account: "aa")])
            }
            try await log.tell(subscriptions + Self.coins(0..<40))

            #expect(try await log.lines("select account_token from subledger.shared_account_token") == [])
            #expect(
                try await log.lines("select distinct customer_id from subledger.ownership") == ["aa"])
        }
    }

    @Test("subscriptions to one product at one time are of as many people, in every order of the reports")
    func sameTime() async throws {
        try await CustomerLog.with { log in
            // The first one is renewed until the second one is active, too. The third one is to another product.
            let story: [CustomerLog.Told] = [
                .rows([Row("10", 1..<8, account: "aa")]), .rows([Row("10", 8..<25, account: "aa", transaction: "11")]),
                .rows([Row("20", 20..<32, account: "aa")]),
                .rows([Row("30", 20..<32, product: "other", account: "aa")]),
            ]
            for (number, order) in permutations(of: story).enumerated() {
                try await log.script(Self.limit(1, app: "app-\(number)"))
                try await log.tell(order, app: "app-\(number)", folding: number.isMultiple(of: 2))
            }
            await log.projector.foldAllStreams()

            #expect(
                try await log.lines(
                    "select concat_ws(' ', account_token, count(*)) from subledger.shared_account_token group by account_token"
                )
                    == ["aa 24"])
        }
    }

    @Test(
        "people whose store account is stated and others count together at one instant, in every order of the reports")
    func someStated() async throws {
        try await CustomerLog.with { log in
            // Three people at once, of whom the store names one. The second subscription of that one is a later one.
            let story: [CustomerLog.Told] = [
                .rows([Row("10", 1..<8, account: "aa", appTransaction: "70")]),
                .rows([Row("11", 9..<30, account: "aa", appTransaction: "70")]),
                .rows([Row("20", 5..<32, account: "aa")]), .rows([Row("30", 20..<32, account: "aa")]),
            ]
            let orders = permutations(of: story)
            for (number, order) in orders.enumerated() {
                for limit in [2, 3] {
                    let app = "app-\(number)-\(limit)"
                    try await log.script(Self.limit(limit, app: app))
                    try await log.tell(order, app: app, folding: number.isMultiple(of: 2))
                }
            }
            await log.projector.foldAllStreams()

            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', right(stream.app, 2), count(*))
                    from subledger.shared_account_token
                    join subledger.stream using (stream_id)
                    group by right(stream.app, 2)
                    """) == ["-2 \(orders.count)"])
        }
    }

    @Test("people are found among more consumables than are looked at")
    func amongCoins() async throws {
        try await CustomerLog.with { log in
            try await log.script(Self.limit(1))
            try await log.tell(
                Self.coins(0..<30) + [
                    .rows([Row("x-1", 1..<30, account: "aa")]), .rows([Row("x-2", 1..<30, account: "aa")]),
                ])

            #expect(try await log.lines("select account_token from subledger.shared_account_token") == ["aa"])
        }
    }

    @Test("another limit computes the customers again, as a rebuild does")
    func otherLimit() async throws {
        try await CustomerLog.with { log in
            let pool = PostgresPool(
                log.database.with(role: "subledger_projector"), limit: 4, logger: LogRecorder().logger)
            let rebuild = ProjectionRebuild(
                owner: log.database, pool: pool, app: nil, environment: nil, now: { .latest })
            try await log.tell(Self.story)
            #expect(try await log.identities() == Self.tied)
            var replaced: [Int] = []
            for (limit, expected) in [(2, Self.separate), (3, Self.tied)] {
                try await log.script(Self.limit(limit))
                await log.projector.foldAllStreams()
                #expect(try await log.identities() == expected, "\(limit)")
                replaced.append(try await rebuild.run { _ in }.rowsReplaced)
            }
            try await log.script("insert into subledger.shared_account_token values (1, 'aa')")
            replaced.append(try await rebuild.run { _ in }.rowsReplaced)
            await pool.close()

            #expect(replaced == [0, 0, 1])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', original_transaction_id, customer_id)
                    from subledger.change
                    where cause = 'ownership'
                    order by number
                    """)
                    == ["10 u-1", "30 u-1", "10 u-1", "30 u-1"])
        }
    }

    @Test("answers about the token do not show whose purchases have it, and the subscription says why")
    func routes() async throws {
        typealias Routes = CustomerRoutesTests
        let (june, december): (Int64, Int64) = (1_560_000_000_000, 1_576_000_000_000)
        try await TestBundle.withServer { server in
            try await Routes.script(server.database, Self.limit(2, app: V1Body.app))
            func buy(_ id: String) async throws {
                let row = V1Body.Row(id, subscription: id, purchase: june, expires: december, account: Self.token)
                let body = V1Body(type: "INITIAL_BUY", rows: [row], subscription: id, autoRenew: true)
                #expect(try await server.apple.post(try body.bytes).status == 200)
                try await server.isFolded()
            }
            func get(_ path: String) async throws -> HTTPAnswer {
                try await server.backend.get("\(path)?\(Routes.here)")
            }
            try await buy("10")
            try await buy("20")
            let tied = try await get("/customers/\(Self.token)")
            let whole = try await get("/subscriptions/10")
            try await buy("30")
            let shared = try await get("/customers/\(Self.token)")
            let own = try await get("/customers/10")
            let defective = try await get("/subscriptions/10")
            let links = #"{"links":[{"appAccountToken":"\#(Self.token)"}]}"#
            let first = try await Routes.put(server, "u-1", links)
            let second = try await Routes.put(server, "u-2", #"{"links":[{"originalTransactionId":"30"}]}"#)
            try await server.isFolded()
            let again = try await Routes.put(server, "u-1", links)

            #expect(tied.json["subscriptions"] as? [String] == ["10", "20"])
            #expect(whole.json["defects"] == nil)
            #expect(shared.status == 404)
            #expect(own.json["subscriptions"] as? [String] == ["10"])
            #expect(own.json["appAccountTokens"] as? [String] == [])
            #expect(
                defective.body.contains(
                    """
                    "defects":[{"path":"appAccountToken",\
                    "problem":"is shared by too many store accounts, and identifies no customer",\
                    "appAccountToken":"\(Self.token)"}]
                    """), "\(defective.body)")
            #expect(first.status == 200)
            #expect(again.json["duplicate"] as? Bool == true)
            #expect(second.status == 200)
            #expect(try await get("/customers/u-1").json["subscriptions"] as? [String] == [])
            #expect(try await get("/customers/u-2").json["subscriptions"] as? [String] == ["30"])
            #expect(
                try await server.sql(
                    """
                    select concat_ws(' ', original_transaction_id, defect, position)
                    from subledger.subscription_defect
                    order by 1
                    """)
                    == ["10 shared_account_token 1", "20 shared_account_token 2", "30 shared_account_token 3"])
            #expect(try await Routes.problem(server.database) == nil)
            try await Routes.script(server.database, "delete from subledger.shared_account_token")
            #expect(
                try await Routes.problem(server.database)?.hasSuffix("shared_account_token \(Self.token): is missing")
                    == true)
        }
    }
}
