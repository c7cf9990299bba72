import Encoding
import Subscriptions
import TestSupport
import Testing

/// In early 2025 the App Store gave lapsed customers a new `originalTransactionId`, and from 17 March on it reported the
/// same transactions under the old one: <https://developer.apple.com/forums/thread/777433> and `778301`.
@Suite("A transaction is one purchase, whatever subscription it is reported under")
struct MovedTransactionTests {
    private static let old = "320000000000100"
    private static let new = "320000000000900"

    private static func signed(
        _ id: String, in subscription: String, _ date: String, _ change: (inout Transaction) -> Void = { _ in }
    ) -> Transaction {
        let bought = id == "100" ? ("2024-02-01", "2024-03-01") : ("2025-02-20", "2025-03-20")
        return row(id, bought.0, bought.1, subscription: subscription) {
            $0.signedDate = day(date)
            $0.price = 9990
            change(&$0)
        }
    }

    private static func renewal(_ subscription: String, on: Bool, _ date: String) -> RenewalInfo {
        intention(autoRenew: on, subscription: subscription) { $0.signedDate = day(date) }
    }

    /// Lapsed, bought again under a new id, and reported under the old one from 17 March on.
    private static let story = [
        Told("2024-02-01", [signed("100", in: old, "2024-02-01")], [renewal(old, on: true, "2024-02-01")]),
        Told("2024-03-01", [signed("100", in: old, "2024-03-01")], [renewal(old, on: false, "2024-03-01")]),
        Told("2025-02-20", [signed("900", in: new, "2025-02-20")], [renewal(new, on: true, "2025-02-20")]),
        Told("2025-03-17", [signed("900", in: old, "2025-03-17")], [renewal(old, on: false, "2025-03-17")]),
    ]

    private static func refund(under subscription: String, _ date: String = "2025-03-18") -> Told {
        Told(
            date,
            [
                signed("900", in: subscription, date) {
                    $0.revocationDate = day(date)
                    $0.revocationType = "REFUND_FULL"
                }
            ])
    }

    private static func fold(_ told: [Told]) -> [String: Subscription] {
        [String: SubscriptionFacts](arriving: told).mapValues { Subscription($0) }
    }

    @Test("the subscription that had it keeps no period, no money and no renewal info that was stated with it")
    func moved() throws {
        let subscriptions = Self.fold(Self.story)
        let old = try #require(subscriptions[Self.old])
        let new = try #require(subscriptions[Self.new])

        #expect(old.transactions.map(\.transaction.transactionId) == ["100", "900"])
        #expect(old.spans == [Span(day("2024-02-01"), day("2024-03-01")), Span(day("2025-02-20"), day("2025-03-20"))])
        #expect(old.renewal(at: .latest).autoRenewStatus == false)
        #expect(new.transactions.isEmpty && new.access.isEmpty && new.renewals.isEmpty)
        #expect(new.status(at: day("2025-03-18")) == .never)
    }

    @Test("in any order of arrival and repeated, all reports of it count in both, and a refund takes it back")
    func orders() throws {
        let told = Self.story + [Self.refund(under: Self.old)]
        let expected = [String: SubscriptionFacts](arriving: told)
        for order in permutations(of: Array(told.indices)) {
            for arrival in [order, order + order.reversed()] {
                let subscriptions = Self.fold(arrival.map { told[$0] })
                let old = try #require(subscriptions[Self.old])

                #expect(old.spans == [Span(day("2024-02-01"), day("2024-03-01"))], "\(arrival)")
                #expect(old.status(at: day("2025-03-19")) == .refunded, "\(arrival)")
                #expect(subscriptions[Self.new]?.transactions.isEmpty == true, "\(arrival)")
                #expect(
                    old.refunded.map(\.transactionId)
                        == expected[Self.old].map { Subscription($0).refunded.map(\.transactionId) }, "\(arrival)")
            }
        }
    }

    @Test("a transaction that moves twice and back is where the latest statement has it, with a refund in between")
    func back() throws {
        for refunded in [nil, "2025-03-18", "2025-03-20"] as [String?] {
            for (last, others) in [
                (Self.new, [Self.old, "3"]), (Self.old, [Self.new, "3"]), ("3", [Self.old, Self.new]),
            ] {
                var told = [
                    Told("2025-02-20", [Self.signed("900", in: Self.new, "2025-02-20")]),
                    Told("2025-03-17", [Self.signed("900", in: Self.old, "2025-03-17")]),
                    Told("2025-03-19", [Self.signed("900", in: "3", "2025-03-19")]),
                ]
                if let refunded { told.append(Self.refund(under: Self.old, refunded)) }
                told.append(
                    Told(
                        "2025-03-21",
                        [
                            Self.signed("900", in: last, "2025-03-21") {
                                $0.revocationDate = refunded.map { day($0) }
                                $0.revocationType = refunded.map { _ in "REFUND_FULL" }
                            }
                        ]))
                for order in permutations(of: Array(told.indices)) {
                    let subscriptions = Self.fold(order.map { told[$0] })
                    let holder = try #require(subscriptions[last])

                    #expect(holder.transactions.count == 1, "\(last) \(order)")
                    #expect(holder.access.isEmpty == (refunded != nil), "\(last) \(order)")
                    for other in others {
                        #expect(subscriptions[other]?.transactions.isEmpty == true, "\(other) \(order)")
                    }
                }
            }
        }
    }

    @Test("a link on the subscription that had all of it, and its app user, lead to the one that has it now")
    func owner() {
        for policy in OwnershipPolicy.allCases {
            for handed in [Self.new, Self.old] {
                let facts = [String: SubscriptionFacts](arriving: Array(Self.story.dropFirst(2)))
                let statement = handedIn("u-1", CustomerKey(.subscription, handed))
                let customers = Customers(
                    of: facts.values.map { $0.ownershipEvidence() }, links: CustomerLinks([9: statement]),
                    policy: policy)

                for id in [Self.old, Self.new] {
                    let owners = Set(customers.ownership.filter { $0.originalTransactionId.text == id }.map(\.owner))
                    #expect(owners == [CustomerKey(.link, "u-1")], "\(policy) \(handed) \(id)")
                }
            }
        }
    }

    @Test("the history says where it moved, when, and by which event")
    func history() throws {
        let explained = ExplainedCustomers(
            [String: SubscriptionFacts](arriving: Self.story).values, links: CustomerLinks([Int64: LinkStatement]()),
            policy: .standard)
        let entries = explained.lines(of: CustomerKey(.subscription, Self.old))
            .flatMap { $0.chronicle(through: day("2026-01-01")) }
        let moved = try #require(entries.first { $0.what.contains("moved") })

        #expect(moved.what == "transaction 900 moved to subscription \(Self.old)")
        #expect(moved.at == day("2025-03-17") && moved.position == 4)
    }

    @Test("the move has the date and the event of the statement that made it, whatever is stated there later")
    func date() throws {
        let told = Self.story + [Self.refund(under: Self.old)]
        for order in permutations(of: Array(told.indices)) {
            let explained = ExplainedCustomers(
                [String: SubscriptionFacts](arriving: order.map { told[$0] }).values,
                links: CustomerLinks([Int64: LinkStatement]()), policy: .standard)
            let entries = explained.lines(of: CustomerKey(.subscription, Self.old))
                .flatMap { $0.chronicle(through: day("2026-01-01")) }
            let moved = try #require(entries.first { $0.what.contains("moved") })

            #expect(moved.at == day("2025-03-17"), "\(order)")
            #expect(moved.position == order.firstIndex(of: 3).map { Int64($0) + 1 }, "\(order)")
        }
    }

    @Test("a purchase that moves, moves back and moves again has moved when it moved last")
    func again() throws {
        let told = [
            Told("2025-02-20", [Self.signed("900", in: Self.new, "2025-02-20")]),
            Told("2025-03-17", [Self.signed("900", in: Self.old, "2025-03-17")]),
            Told("2025-03-18", [Self.signed("900", in: Self.new, "2025-03-18")]),
            Self.refund(under: Self.old, "2025-03-19"), Self.refund(under: Self.old, "2025-03-19"),
        ]
        let explained = ExplainedCustomers(
            [String: SubscriptionFacts](arriving: told).values, links: CustomerLinks([Int64: LinkStatement]()),
            policy: .standard)
        let entries = explained.lines(of: CustomerKey(.subscription, Self.old))
            .flatMap { $0.chronicle(through: day("2026-01-01")) }
        let moved = try #require(entries.first { $0.what.contains("moved") })

        #expect(moved.at == day("2025-03-19") && moved.position == 4)
    }

    @Test("facts that were written and read again move as before")
    func stored() throws {
        for facts in [String: SubscriptionFacts](arriving: Self.story).values {
            let read = try SubscriptionFacts(
                originalTransactionId: facts.originalTransactionId, json: JSONDocument(facts.canonicalBytes).root)

            #expect(read == facts)
            #expect(Subscription(read) == Subscription(facts))
        }
    }
}
