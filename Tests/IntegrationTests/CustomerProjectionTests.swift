import Encoding
import Subscriptions
import TestSupport
import Testing

@Suite("Every id leads to the customer that owns what it names, of one app in one environment")
struct CustomerProjectionTests {
    typealias Row = CustomerLog.Row

    private static func identities(_ told: [CustomerLog.Told]...) async throws -> [String] {
        var result: [String] = []
        try await CustomerLog.with { log in
            for told in told { try await log.tell(told) }
            result = try await log.identities()
        }
        return result
    }

    @Test("an account token, in either case, owns the subscriptions bought with it")
    func account() async throws {
        let found = try await Self.identities([
            .rows([Row("20", account: "7E3FB20B-4CDB-47CC-936D-99D65F608138")]),
            .rows([Row("10", account: "7e3fb20b-4cdb-47cc-936d-99d65f608138")]), .rows([Row("30")]),
        ])

        #expect(
            found == [
                "account 7e3fb20b-4cdb-47cc-936d-99d65f608138 → account 7e3fb20b-4cdb-47cc-936d-99d65f608138",
                "subscription 10 → account 7e3fb20b-4cdb-47cc-936d-99d65f608138",
                "subscription 20 → account 7e3fb20b-4cdb-47cc-936d-99d65f608138", "subscription 30 → subscription 30",
            ])
    }

    @Test("the nil UUID as account token makes nobody one customer")
    func nilAccountToken() async throws {
        let none = "00000000-0000-0000-0000-000000000000"
        let found = try await Self.identities([
            .rows([Row("20", account: none)]), .rows([Row("10", account: none)]),
            .rows([Row("30", account: none, appTransaction: "70")]), .rows([Row("40", appTransaction: "70")]),
        ])

        #expect(
            found == [
                "app_transaction 70 → subscription 30", "subscription 10 → subscription 10",
                "subscription 20 → subscription 20", "subscription 30 → subscription 30",
                "subscription 40 → subscription 30",
            ])
    }

    @Test("one appTransactionId makes two subscriptions without a token one customer")
    func appTransaction() async throws {
        let found = try await Self.identities([
            .rows([Row("20", appTransaction: "70")]), .rows([Row("10", appTransaction: "70")]),
        ])

        #expect(
            found == [
                "app_transaction 70 → subscription 10", "subscription 10 → subscription 10",
                "subscription 20 → subscription 10",
            ])
    }

    @Test(
        "a subscription that gets an app user by another of its store account is published, and so is a new account"
    )
    func told() async throws {
        try await CustomerLog.with { log in
            try await log.tell([
                .rows([Row("10", account: "u")]), .rows([Row("20", appTransaction: "x")]),
                .rows([Row("30", account: "u", appTransaction: "x")]),
                .rows([Row("40")]), .rows([Row("40", account: "v", transaction: "41")]),
            ])
            let changes = try await log.lines(
                """
                select concat_ws(' ', kind, original_transaction_id, position, customer_kind, customer_id)
                from subledger.change
                order by number
                """)

            #expect(changes == ["customer_changed 20 3 account u", "customer_changed 40 5 account v"])
        }
    }

    @Test("subscriptions in one receipt are one customer, even after a restore with a new original id")
    func restore() async throws {
        let found = try await Self.identities([
            .rows([Row("1000", 1..<10)]), .rows([Row("1000", 1..<10), Row("2000", 10..<20)]),
            .rows([Row("2000", 10..<20), Row("3000", 20..<30)]),
        ])

        #expect(
            found == [
                "subscription 1000 → subscription 1000", "subscription 2000 → subscription 1000",
                "subscription 3000 → subscription 1000",
            ])
    }

    @Test("links name subscriptions and tokens that are not known yet")
    func links() async throws {
        let found = try await Self.identities(
            [.links("u-1", [CustomerKey(.subscription, "20"), CustomerKey(.account, "aa")])],
            [.rows([Row("20")]), .rows([Row("10", account: "aa")])])

        #expect(
            found == [
                "account aa → link u-1", "link u-1 → link u-1", "subscription 10 → link u-1",
                "subscription 20 → link u-1",
            ])
    }

    @Test("a later statement replaces the earlier one: what it no longer names goes with its store account")
    func replaced() async throws {
        let both = [CustomerKey(.subscription, "10"), CustomerKey(.subscription, "20")]
        let told: [CustomerLog.Told] = [
            .rows([Row("10", appTransaction: "70")]), .rows([Row("20")]), .rows([Row("30", appTransaction: "70")]),
            .links("u-1", both), .links("u-2", [CustomerKey(.subscription, "30")]),
        ]

        let together = try await Self.identities(told)
        let apart = try await Self.identities(told, [.links("u-1", [CustomerKey(.subscription, "20")])])
        let none = try await Self.identities(told, [.links("u-1", [])])

        #expect(
            together == [
                "app_transaction 70 → link u-2", "link u-1 → link u-1", "link u-2 → link u-2",
                "subscription 10 → link u-1", "subscription 20 → link u-1", "subscription 30 → link u-2",
            ])
        #expect(
            apart == [
                "app_transaction 70 → link u-2", "link u-1 → link u-1", "link u-2 → link u-2",
                "subscription 10 → link u-2", "subscription 20 → link u-1", "subscription 30 → link u-2",
            ])
        #expect(
            none == [
                "app_transaction 70 → link u-2", "link u-2 → link u-2", "subscription 10 → link u-2",
                "subscription 20 → subscription 20", "subscription 30 → link u-2",
            ])
    }

    @Test("a link without known subscriptions is a customer named by its account")
    func linkAlone() async throws {
        let found = try await Self.identities([.links("u-1", [CustomerKey(.account, "AA")])])

        #expect(found == ["account aa → link u-1", "link u-1 → link u-1"])
    }

    @Test("a token leads to the customer who handed in all purchases with it, whichever store account they are of")
    func handedIn() async throws {
        let told: [CustomerLog.Told] = [
            .rows([Row("10", account: "aa", appTransaction: "70")]),
            .rows([Row("20", account: "aa", appTransaction: "71")]),
            .handedIn("u-1", CustomerKey(.subscription, "10")), .handedIn("u-1", CustomerKey(.subscription, "20")),
        ]
        try await CustomerLog.with { log in
            for (number, order) in permutations(of: told).enumerated() {
                try await log.tell(order, app: "app-\(number)", inBatches: number.isMultiple(of: 2))
            }
            let found = try await log.lines(
                """
                select concat_ws(' ', id, customer_kind, customer_id, count(*))
                from subledger.customer_identity
                where kind = 'account'
                group by id, customer_kind, customer_id
                """)
            #expect(found == ["aa link u-1 24"])

            // Somebody else has bought with the token, and has not handed it in yet.
            try await log.tell([.rows([Row("30", account: "aa", appTransaction: "72")])], app: "app-0", on: 2)
            let other = try await log.lines(
                """
                select concat_ws(' ', kind, id, customer_kind, customer_id)
                from subledger.customer_identity
                join subledger.stream using (stream_id)
                where app = 'app-0'
                  and kind in ('account', 'subscription')
                order by kind, id
                """)
            #expect(
                other == [
                    "account aa account aa", "subscription 10 link u-1", "subscription 20 link u-1",
                    "subscription 30 account aa",
                ])
            try await log.isConfirmed(log.identities)
        }
    }

    @Test("a family member with the buyer's account token is a separate customer")
    func family() async throws {
        let buyer = Row("10", account: "aa", appTransaction: "70", ownership: "PURCHASED")
        let member = Row("20", account: "aa", appTransaction: "71", ownership: "FAMILY_SHARED")
        let found = try await Self.identities([.rows([buyer]), .rows([member])])

        #expect(
            found == [
                "account aa → account aa", "app_transaction 70 → account aa", "app_transaction 71 → subscription 20",
                "subscription 10 → account aa", "subscription 20 → subscription 20",
            ])
    }

    @Test("a row later marked as family shared is removed from the buyer's customer")
    func familyLater() async throws {
        let unsaid = Row("20", account: "aa")
        let said = Row("20", account: "aa", ownership: "FAMILY_SHARED")
        let found = try await Self.identities([.rows([Row("10", account: "aa")]), .rows([unsaid])], [.rows([said])])

        #expect(
            found == [
                "account aa → account aa", "subscription 10 → account aa", "subscription 20 → subscription 20",
            ])
    }

    @Test("customers of different apps and environments are separate even with equal ids")
    func streams() async throws {
        try await CustomerLog.with { log in
            let told: [CustomerLog.Told] = [
                .rows([Row("20", account: "aa")]), .rows([Row("10", account: "aa")]),
                .links("u-1", [CustomerKey(.account, "aa")]),
            ]
            try await log.tell(told)
            try await log.tell([told[0], told[2]], environment: .sandbox)
            try await log.tell([told[0]], app: "com.example.other")

            #expect(
                try await log.identities() == [
                    "account aa → link u-1", "com.example.other account aa → account aa",
                    "com.example.other subscription 20 → account aa", "link u-1 → link u-1",
                    "sandbox account aa → link u-1", "sandbox link u-1 → link u-1",
                    "sandbox subscription 20 → link u-1", "subscription 10 → link u-1", "subscription 20 → link u-1",
                ])
        }
    }

    @Test("every order of the same events gives the same rows, folded one by one and in one batch")
    func order() async throws {
        let story: [CustomerLog.Told] = [
            .rows([Row("40", account: "aa")]),
            .rows([Row("30", account: "aa", ownership: "FAMILY_SHARED")]),
            .rows([Row("20", appTransaction: "70"), Row("40", account: "aa")]),
            .rows([Row("10", account: "bb"), Row("30", transaction: "31")]),
            .links("u-1", [CustomerKey(.account, "bb"), CustomerKey(.appTransaction, "70")]),
        ]
        try await CustomerLog.with { log in
            var apps = 0
            for order in permutations(of: story) {
                apps += 1
                try await log.tell(
                    order, app: "app-\(apps)", inBatches: apps.isMultiple(of: 2), folding: apps % 10 == 1)
            }
            await log.projector.foldAllStreams()

            let rows = try await log.lines(
                """
                select count(distinct stream_id) || ' ' || string_agg(distinct rows, E'\\n')
                from (
                  select stream_id, string_agg(row, ', ' order by row collate "C") as rows
                  from (
                    select stream_id, concat_ws(' ', kind, id, '→', customer_kind, customer_id) as row
                    from subledger.customer_identity
                    union all
                    select stream_id, concat_ws(' ', original_transaction_id, '–', kind, id)
                    from subledger.customer_edge
                    union all
                    select stream_id, concat_ws(' ', backend_customer_id, '–', kind, id, replaced_position)
                    from subledger.customer_link
                  ) as rows
                  group by stream_id
                ) as streams
                """)

            #expect(apps == 120)
            #expect(
                rows == [
                    """
                    120 10 – account bb, 20 – app_transaction 70, 30 – subscription 10, 40 – account aa, \
                    40 – subscription 20, account aa → account aa, account bb → link u-1, \
                    app_transaction 70 → link u-1, link u-1 → link u-1, subscription 10 → link u-1, \
                    subscription 20 → link u-1, subscription 30 → link u-1, subscription 40 → account aa, \
                    u-1 – account bb, u-1 – app_transaction 70
                    """
                ])
        }
    }

    @Test("a purchase moves the subscription to its app user and publishes a change for both app users")
    func sharedDevice() async throws {
        try await CustomerLog.with { log in
            try await log.tell([
                .rows([Row("10", 1..<8, account: "aa", appTransaction: "70")]),
                .rows([Row("10", 20..<32, account: "bb", appTransaction: "70", transaction: "11")]),
            ])

            #expect(
                try await log.identities() == [
                    "account aa → account aa", "account bb → account bb",
                    "app_transaction 70 → account aa –2024-01-20", "app_transaction 70 → account bb 2024-01-20–",
                    "subscription 10 → account aa –2024-01-20", "subscription 10 → account bb 2024-01-20–",
                ])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', kind, original_transaction_id, cause, position, customer_kind, customer_id)
                    from subledger.change
                    where kind = 'customer_changed'
                    order by number
                    """)
                    == ["customer_changed 10 event 2 account aa", "customer_changed 10 event 2 account bb"])
        }
    }

    @Test("a change of policy recomputes past owners and publishes a change for each customer")
    func policyChange() async throws {
        try await CustomerLog.with { log in
            try await log.tell([
                .rows([Row("10", 1..<8, account: "aa")]), .rows([Row("10", 20..<32, account: "bb", transaction: "11")]),
                .links("u-1", [CustomerKey(.account, "cc")]), .links("u-2", [CustomerKey(.account, "cc")]),
            ])
            try await log.script(
                "insert into subledger.app_ownership (app, policy) values ('\(CustomerLog.app)', 'first-buyer')")
            await log.projector.foldAllStreams()
            let first = try await log.identities()
            try await log.script("update subledger.app_ownership set policy = 'shared'")
            await log.projector.foldAllStreams()
            let owners = try await log.lines(
                "select concat_ws(' ', customer_kind, customer_id, reason, position) from subledger.ownership order by 1"
            )

            #expect(
                first == [
                    "account aa → account aa", "account bb → account bb", "account cc → link u-1",
                    "link u-1 → link u-1", "link u-2 → link u-2", "subscription 10 → account aa",
                ])
            #expect(owners == ["account aa account 1", "account bb account 2"])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', kind, cause, customer_id)
                    from subledger.change
                    where cause = 'ownership'
                    order by number
                    """)
                    == [
                        "customer_changed ownership bb", "customer_changed ownership aa",
                        "customer_changed ownership bb",
                    ])
        }
    }

    @Test("random events give the same owners one by one, in a batch and computed all at once", arguments: 0..<6)
    func random(_ run: UInt64) async throws {
        var random = SeededGenerator(seed: TestSeed.value &+ run)
        let policy = OwnershipPolicy.allCases[Int(run) % OwnershipPolicy.allCases.count]
        var told: [CustomerLog.Told] = []
        for index in 0..<60 {
            let subscription = "\(Int.random(in: 10..<24, using: &random))"
            let account = "a\(Int.random(in: 0..<6, using: &random))"
            let store = "7\(subscription.suffix(1))"
            if Int.random(in: 0..<4, using: &random) > 0 {
                let start = Int.random(in: 1..<30, using: &random)
                let (hasAccount, hasStore) = (Bool.random(using: &random), Bool.random(using: &random))
                told.append(
                    .rows([
                        Row(
                            subscription, start..<start + 3, account: hasAccount ? account : nil,
                            appTransaction: hasStore ? store : nil, transaction: "t\(index)")
                    ]))
            } else {
                let keys = [
                    CustomerKey(.subscription, subscription), CustomerKey(.account, account),
                    CustomerKey(.appTransaction, store),
                ]
                let customer = "u\(Int.random(in: 0..<5, using: &random))"
                told.append(
                    Bool.random(using: &random)
                        ? .handedIn(customer, CustomerKey(.subscription, subscription))
                        : .links(customer, keys.filter { _ in Bool.random(using: &random) }))
            }
        }

        try await CustomerLog.with { [told] log in
            try await log.script(
                "insert into subledger.app_ownership (app, policy) values ('\(CustomerLog.app)', '\(policy.rawValue)')")
            try await log.tell(told, inBatches: run >= 3)

            let expected = Self.customers(told, policy)
            let found = try await log.identities()
            #expect(Set(found) == Set(expected.identities.map(Self.line)), "seed \(TestSeed.value)")
            #expect(found.count == expected.identities.count)
            #expect(
                try await log.lines("select count(*)::text from subledger.ownership")
                    == ["\(expected.ownership.count)"])
        }
    }

    private static func customers(_ told: [CustomerLog.Told], _ policy: OwnershipPolicy) -> Customers {
        var facts: [String: SubscriptionFacts] = [:]
        var statements: [Int64: LinkStatement] = [:]
        for (index, told) in told.enumerated() {
            switch told {
            case .rows(let rows):
                for row in rows {
                    facts[row.subscription, default: SubscriptionFacts(originalTransactionId: row.subscription)].fold(
                        Facts(transactions: [row.stated], renewals: []), occurredAt: nil,
                        receivedAt: day(1, milliseconds: 43_200_000 + Int64(index) * 1000), position: Int64(index + 1))
                }
            case .links(let customer, let keys):
                statements[Int64(index + 1)] = LinkStatement(
                    backendCustomerId: customer, links: keys, basis: .statement)
            case .handedIn(let customer, let key):
                statements[Int64(index + 1)] = LinkStatement(
                    backendCustomerId: customer, links: [key], isComplete: false, basis: .purchase)
            case .purchase: preconditionFailure("these stories have purchases of the App Store only")
            }
        }
        return Customers(
            of: facts.values.map { $0.ownershipEvidence() }, links: CustomerLinks(statements), policy: policy)
    }

    /// As ``CustomerLog/identities()`` writes it.
    private static func line(_ identity: CustomerIdentity) -> String {
        let (key, customer) = (identity.key, identity.customer)
        let line = "\(key.kind.rawValue) \(key.id) → \(customer.kind.rawValue) \(customer.id)"
        guard identity.from > .earliest || identity.until < .latest else { return line }
        let from = identity.from > .earliest ? String(identity.from.description.prefix(10)) : ""
        let until = identity.until < .latest ? String(identity.until.description.prefix(10)) : ""
        return "\(line) \(from)–\(until)"
    }
}
