import Subscriptions
import TestSupport
import Testing

@Suite("Subscriptions of one app and environment are grouped into customers")
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

    @Test("subscriptions with the same account token, in either case, are one customer")
    func account() async throws {
        let found = try await Self.identities([
            .rows([Row("20", account: "7E3FB20B-4CDB-47CC-936D-99D65F608138")]),
            .rows([Row("10", account: "7e3fb20b-4cdb-47cc-936d-99d65f608138")]), .rows([Row("30")]),
        ])

        #expect(
            found == [
                "account 7e3fb20b-4cdb-47cc-936d-99d65f608138 → 10", "subscription 10 → 10", "subscription 20 → 10",
                "subscription 30 → 30",
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
                "app_transaction 70 → 30", "subscription 10 → 10", "subscription 20 → 20", "subscription 30 → 30",
                "subscription 40 → 30",
            ])
    }

    @Test("subscriptions with the same appTransactionId are one customer")
    func appTransaction() async throws {
        let found = try await Self.identities([
            .rows([Row("20", appTransaction: "70")]), .rows([Row("10", appTransaction: "70")]),
        ])

        #expect(found == ["app_transaction 70 → 10", "subscription 10 → 10", "subscription 20 → 10"])
    }

    @Test(
        "a merge of customers publishes a change for each of their old subscriptions; a new token publishes one too"
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
                select concat_ws(' ', kind, original_transaction_id, position)
                from subledger.change
                order by number
                """)

            #expect(changes == ["customer_changed 10 3", "customer_changed 20 3", "customer_changed 40 5"])
        }
    }

    @Test("subscriptions in one receipt are one customer, even after a restore with a new original id")
    func restore() async throws {
        let found = try await Self.identities([
            .rows([Row("1000", 1..<10)]), .rows([Row("1000", 1..<10), Row("2000", 10..<20)]),
            .rows([Row("2000", 10..<20), Row("3000", 20..<30)]),
        ])

        #expect(found == ["subscription 1000 → 1000", "subscription 2000 → 1000", "subscription 3000 → 1000"])
    }

    @Test("links connect subscriptions and tokens, including ones that are not known yet")
    func links() async throws {
        let found = try await Self.identities(
            [.links("u-1", [CustomerKey(.subscription, "20"), CustomerKey(.account, "aa")])],
            [.rows([Row("20")]), .rows([Row("10", account: "aa")])])

        #expect(
            found == ["account aa → 10", "link u-1 → 10", "subscription 10 → 10", "subscription 20 → 10"])
    }

    @Test("a later link statement replaces the earlier one and keeps connections of other statements")
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
                "app_transaction 70 → 10", "link u-1 → 10", "link u-2 → 10", "subscription 10 → 10",
                "subscription 20 → 10", "subscription 30 → 10",
            ])
        #expect(
            apart == [
                "app_transaction 70 → 10", "link u-1 → 20", "link u-2 → 10", "subscription 10 → 10",
                "subscription 20 → 20", "subscription 30 → 10",
            ])
        #expect(
            none == [
                "app_transaction 70 → 10", "link u-2 → 10", "subscription 10 → 10", "subscription 20 → 20",
                "subscription 30 → 10",
            ])
    }

    @Test("a link without known subscriptions is a customer named by its account")
    func linkAlone() async throws {
        let found = try await Self.identities([.links("u-1", [CustomerKey(.account, "AA")])])

        #expect(found == ["account aa → :account:aa", "link u-1 → :account:aa"])
    }

    @Test("a family member with the buyer's account token is a separate customer")
    func family() async throws {
        let buyer = Row("10", account: "aa", appTransaction: "70", ownership: "PURCHASED")
        let member = Row("20", account: "aa", appTransaction: "71", ownership: "FAMILY_SHARED")
        let found = try await Self.identities([.rows([buyer]), .rows([member])])

        #expect(
            found == [
                "account aa → 10", "app_transaction 70 → 10", "app_transaction 71 → 20", "subscription 10 → 10",
                "subscription 20 → 20",
            ])
    }

    @Test("a row later marked as family shared is removed from the buyer's customer")
    func familyLater() async throws {
        let unsaid = Row("20", account: "aa")
        let said = Row("20", account: "aa", ownership: "FAMILY_SHARED")
        let found = try await Self.identities([.rows([Row("10", account: "aa")]), .rows([unsaid])], [.rows([said])])

        #expect(found == ["account aa → 10", "subscription 10 → 10", "subscription 20 → 20"])
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
                    "account aa → 10", "com.example.other account aa → 20", "com.example.other subscription 20 → 20",
                    "link u-1 → 10", "sandbox account aa → 20", "sandbox link u-1 → 20", "sandbox subscription 20 → 20",
                    "subscription 10 → 10", "subscription 20 → 10",
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
                    select stream_id, concat_ws(' ', kind, id, '→', customer_group_id) as row
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
                    40 – subscription 20, account aa → 10, account bb → 10, app_transaction 70 → 10, link u-1 → 10, \
                    subscription 10 → 10, subscription 20 → 10, subscription 30 → 10, subscription 40 → 10, \
                    u-1 – account bb, u-1 – app_transaction 70
                    """
                ])
        }
    }

    @Test("random events give the same customers as a search through all connections", arguments: 0..<4)
    func random(_ run: UInt64) async throws {
        var random = SeededGenerator(seed: TestSeed.value &+ run)
        var told: [CustomerLog.Told] = []
        var ties: [String: Set<Set<String>>] = [:]
        for index in 0..<60 {
            let subscription = "\(Int.random(in: 10..<30, using: &random))"
            switch Int.random(in: 0..<4, using: &random) {
            case 0:
                let account = "a\(Int.random(in: 0..<12, using: &random))"
                told.append(.rows([Row(subscription, account: account, transaction: "t\(index)")]))
                ties["\(index)"] = [["subscription \(subscription)", "account \(account)"]]
            case 1:
                told.append(.rows([Row(subscription, transaction: "t\(index)")]))
                ties["\(index)"] = [["subscription \(subscription)"]]
            default:
                let customer = "u\(Int.random(in: 0..<5, using: &random))"
                let account = "a\(Int.random(in: 0..<12, using: &random))"
                let links = Bool.random(using: &random) ? [CustomerKey(.subscription, subscription)] : []
                told.append(.links(customer, links + [CustomerKey(.account, account)]))
                ties[customer] = Set(
                    (links.isEmpty ? [] : [["link \(customer)", "subscription \(subscription)"]])
                        + [["link \(customer)", "account \(account)"]])
            }
        }
        let inBatches = run.isMultiple(of: 2)

        try await CustomerLog.with { log in
            try await log.tell(told, inBatches: inBatches)

            var groups: [Set<String>] = []
            for tie in ties.values.flatMap({ $0 }) {
                let touching = groups.filter { !$0.isDisjoint(with: tie) }
                groups.removeAll { !$0.isDisjoint(with: tie) }
                groups.append(touching.reduce(tie) { $0.union($1) })
            }
            let expected = groups.flatMap { group in
                let subscriptions = group.filter { $0.hasPrefix("subscription ") }.map { String($0.dropFirst(13)) }
                let name = subscriptions.min() ?? group.map { ":" + $0.replacing(" ", with: ":") }.min() ?? ""
                return group.map { "\($0) → \(name)" }
            }
            let found = try await log.identities()
            #expect(Set(found) == Set(expected), "seed \(TestSeed.value)")
            #expect(found.count == expected.count)
        }
    }
}

private func permutations<Element>(of elements: [Element]) -> [[Element]] {
    guard elements.count > 1 else { return [elements] }
    return elements.indices.flatMap { index in
        var rest = elements
        let first = rest.remove(at: index)
        return permutations(of: rest).map { [first] + $0 }
    }
}
