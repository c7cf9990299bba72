import Encoding
import Subscriptions
import Testing

@Suite("Customers of two joined apps")
struct JoinedCustomersTests {
    typealias Part = JoinedCustomers.Part

    private static let instant = day("2026-02-10")

    /// The customers of an app in which purchases carry some tokens, each of another store account.
    private static func app(_ tokens: [String?], links: [LinkStatement] = []) -> Customers {
        var facts: [String: SubscriptionFacts] = [:]
        for (index, token) in tokens.enumerated() {
            let told = bought(
                "\(index)1", "2026-02-01", "2026-03-01", token: token, subscription: "\(index)", store: "700\(index)")
            facts["\(index)", default: SubscriptionFacts(originalTransactionId: "\(index)")].add(
                Delivery(told: told, receivedAt: SubscriptionFacts.arrival(index), position: Int64(index + 1)))
        }
        let statements = links.enumerated().map { (Int64($0.offset + 10), $0.element) }
        return Customers(
            of: facts.values.map { $0.ownershipEvidence() },
            links: CustomerLinks(Dictionary(uniqueKeysWithValues: statements)), policy: .latestBuyer)
    }

    private static func parts(_ customer: CustomerKey, of app: Int, _ apps: [Customers]) -> [Part] {
        JoinedCustomers(apps, at: instant).parts(with: Part(app: app, customer: customer))
    }

    @Test("the same token in both apps is one customer, and another one is not")
    func token() {
        let apps = [Self.app([tokenA, tokenB]), Self.app([tokenA])]

        for app in [0, 1] {
            #expect(Self.parts(.a, of: app, apps) == [Part(app: 0, customer: .a), Part(app: 1, customer: .a)])
        }
        #expect(Self.parts(.b, of: 0, apps) == [Part(app: 0, customer: .b)])
        #expect(Self.parts(.a, of: 0, [apps[0]]) == [Part(app: 0, customer: .a)])
    }

    @Test("a link of one app gives the token in the other one to the backend's customer, who names the whole")
    func link() {
        let backend = CustomerKey(.link, "u-1")
        let apps = [Self.app([tokenA], links: [linked("u-1", .a)]), Self.app([tokenA])]
        let whole = [Part(app: 0, customer: backend), Part(app: 1, customer: .a)]

        #expect(Self.parts(backend, of: 0, apps) == whole)
        #expect(Self.parts(.a, of: 1, apps) == whole)
        #expect(JoinedCustomers(apps, at: Self.instant).name(of: whole[1]) == backend)
    }

    @Test("a backend's customer who has linked two tokens has the purchases with both in the other app")
    func twoTokens() {
        let backend = CustomerKey(.link, "u-1")
        let apps = [Self.app([tokenA], links: [linked("u-1", .a, .b)]), Self.app([tokenA, tokenB])]
        let whole = [Part(app: 0, customer: backend), Part(app: 1, customer: .a), Part(app: 1, customer: .b)]

        for part in whole { #expect(Self.parts(part.customer, of: part.app, apps) == whole) }
    }

    @Test("a token that each app's links give to another customer joins nothing")
    func contested() {
        let (one, two) = (CustomerKey(.link, "u-1"), CustomerKey(.link, "u-2"))
        let apps = [
            Self.app([tokenA], links: [linked("u-1", .a)]), Self.app([tokenA], links: [linked("u-2", .a)]),
        ]

        #expect(Self.parts(one, of: 0, apps) == [Part(app: 0, customer: one)])
        #expect(Self.parts(two, of: 1, apps) == [Part(app: 1, customer: two)])
    }

    @Test("a store account without an app user is a customer of its own")
    func storeAccount() {
        let apps = [Self.app([nil]), Self.app([nil])]
        let account = CustomerKey(.subscription, "0")

        #expect(Self.parts(account, of: 0, apps) == [Part(app: 0, customer: account)])
    }
}
