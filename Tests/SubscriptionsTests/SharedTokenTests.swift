import Encoding
import Subscriptions
import Testing

@Suite("A token that many store accounts share says nothing about who owns a subscription")
struct SharedTokenTests {
    private static let second = OwnershipStory.otherSubscription

    /// A buys on two Apple Accounts. On the first one, B upgrades on March 15.
    private static let evidence: [OwnershipEvidence] = {
        let reports = [
            bought("11", "2026-02-01", "2026-03-01", token: tokenA, store: "7001"),
            bought("12", "2026-03-15", "2027-03-15", token: tokenB, product: yearly, store: "7001"),
            bought("21", "2026-02-01", "2026-03-01", token: tokenA, subscription: second, store: "7002"),
        ]
        let facts = [String: SubscriptionFacts](arriving: reports)
        return facts.values.map { $0.ownershipEvidence() }
    }()

    private static func customers(
        _ policy: OwnershipPolicy, _ statements: [Int64: LinkStatement] = [:], sharing tokens: Set<CustomerKey>
    ) -> Customers {
        Customers(of: evidence, links: CustomerLinks(statements), policy: policy, sharedTokens: tokens)
    }

    private static func owners(_ subscription: String, _ customers: Customers) -> Set<CustomerKey> {
        Set(customers.ownership.filter { $0.originalTransactionId.text == subscription }.map(\.owner))
    }

    @Test("without its purchases the next token counts, and otherwise each store account is a customer")
    func purchases() {
        for policy in OwnershipPolicy.allCases {
            let customers = Self.customers(policy, sharing: [.a])

            #expect(Self.owners(testSubscription, customers) == [.b], "\(policy)")
            #expect(Self.owners(Self.second, customers) == [CustomerKey(.subscription, Self.second)], "\(policy)")
            #expect(customers.customer(.a, at: day("2026-02-10")) == nil, "\(policy)")
            #expect(customers.customer(.b, at: day("2026-02-10")) == .b, "\(policy)")
        }
        #expect(Self.owners(testSubscription, Self.customers(.latestBuyer, sharing: [])) == [.a, .b])
    }

    @Test("a link on it has no effect, and links on subscriptions still count")
    func links() {
        let statements: [Int64: LinkStatement] = [
            8: linked("u-1", .a), 9: linked("u-2", CustomerKey(.subscription, Self.second)),
        ]
        for policy in OwnershipPolicy.allCases {
            let customers = Self.customers(policy, statements, sharing: [.a, .b])

            #expect(
                Self.owners(testSubscription, customers) == [CustomerKey(.subscription, testSubscription)], "\(policy)")
            #expect(Self.owners(Self.second, customers) == [.u2], "\(policy)")
            #expect(customers.customer(.a, at: day("2026-02-10")) == nil, "\(policy)")
            #expect(customers.customer(.u1, at: day("2026-02-10")) == .u1, "\(policy)")
        }
    }

    @Test("a subscription counts as its smallest appTransactionId, and not without one")
    func storeAccount() {
        let (one, two) = (CustomerKey(.appTransaction, "7002"), CustomerKey(.appTransaction, "7001"))
        let (before, after) = (
            CustomerKey(.subscription, "1000000000000000"), CustomerKey(.subscription, "1000000000000009")
        )
        func storeAccount(_ ties: [CustomerKey: Int64]) -> ByteString? {
            OwnershipEvidence(subscription: CustomerKey(.subscription, testSubscription), purchases: [], ties: ties)
                .storeAccount
        }

        #expect(storeAccount([one: 1, two: 2, before: 3])?.text == "7001")
        #expect(storeAccount([before: 3, after: 4]) == nil)
        #expect(storeAccount([:]) == nil)
    }

    @Test("rules are read from the text that they write, and from no other")
    func text() {
        let rules = OwnershipRules(policy: .firstBuyer, storeAccountsPerTokenMax: 25)

        #expect(rules.text == "first-buyer 25")
        #expect(OwnershipRules(text: "first-buyer 25") == rules)
        #expect(OwnershipRules.standard.text == "latest-buyer 10")
        for wrong in [
            "first-buyer", "first-buyer 0", "first-buyer 1001", "first-buyer  25", "nobody 25", "shared 025", "",
        ] {
            #expect(OwnershipRules(text: wrong) == nil, "\(wrong)")
        }
    }
}
