import Encoding
import Subscriptions
import TestSupport
import Testing

@Suite("Whose purchase it is")
struct OwnershipTests {
    @Test(
        "each customer has access while it owns the purchase", arguments: OwnershipStory.stories,
        OwnershipPolicy.allCases)
    func stories(_ story: OwnershipStory, _ policy: OwnershipPolicy) throws {
        let expected = try #require(story.access[policy])
        let run = OwnershipRun(story, policy)

        #expect(run.access == expected)
        // Every day, asked as an entitlement. A product that is not configured grants its own id.
        let days = (0..<820).map { day("2024-12-30").advanced(byMilliseconds: Int64($0) * 86_400_000) }
        for customer in Set(expected.keys).union([.a, .b, .u1, .u2]) {
            let owned = run.owned(by: customer)
            let active = days.filter { today in
                Entitlement.all(of: owned, entitlements: [:], at: today).contains { $0.isActive(at: today) }
            }
            let entitled = days.filter { today in
                expected[customer, default: []].contains { $0.start <= today && today < $0.end }
            }
            #expect(active == entitled, "\(customer)")
        }
    }

    @Test("the order of arrival and repeats change nothing", arguments: OwnershipStory.stories)
    func arrival(_ story: OwnershipStory) throws {
        for policy in OwnershipPolicy.allCases {
            let expected = try #require(story.access[policy])
            let statements = story.statements
            for number in 0..<300 {
                var random = TestSeed.generator(number)
                // The backend's statements keep their order, since the later one counts, but arrive at any time.
                let reports = (story.reports + story.reports.filter { _ in random.chance(50) }).shuffled(using: &random)
                var positions: Set<Int64> = []
                while positions.count < statements.count {
                    positions.insert(Int64.random(in: 1...Int64(reports.count + statements.count), using: &random))
                }
                let placed = Dictionary(uniqueKeysWithValues: zip(positions.sorted(), statements))

                let run = OwnershipRun(reports, placed, policy)

                #expect(run.access == expected, "\(policy) \(number)")
            }
        }
    }

    @Test("the owner changes with the purchase, not before and not with its report")
    func instantOfChange() {
        let run = OwnershipRun(.sharedDevice, .latestBuyer)

        #expect(run.owners(of: testSubscription, at: day("1999-01-01")) == [.a])
        #expect(run.owners(of: testSubscription, at: day("2026-05-10").advanced(byMilliseconds: -1)) == [.a])
        #expect(run.owners(of: testSubscription, at: day("2026-05-10")) == [.b])
        #expect(run.customers.ownership.map(\.position) == [1, 4])
        #expect(run.customers.ownership.map(\.reason) == [.account, .account])
    }

    @Test("the customer that linked first had it as known before the second link")
    func knownBefore() {
        let story = OwnershipStory.linkedTwice

        let run = OwnershipRun(story.reports, [2: story.statements[0]], .latestBuyer)

        #expect(run.access == [.u1: [Span("2026-01-01", "2026-02-01")]])
    }

    @Test("a transfer under first-buyer is as under latest-buyer")
    func transfer() {
        for story in [OwnershipStory.linkedTwice, .linkedPastTheToken] {
            let last = story.statements[1]
            let transfer = LinkStatement(
                backendCustomerId: last.backendCustomerId.text, links: last.links, basis: .transfer)

            let run = OwnershipRun(story.reports, [8: story.statements[0], 9: transfer], .firstBuyer)

            #expect(run.access == story.access[.latestBuyer])
        }
    }

    @Test("a link that another customer took does not come back when that one ends it")
    func takenLink() {
        let subscription = CustomerKey(.subscription, testSubscription)
        let other = CustomerKey(.subscription, OwnershipStory.otherSubscription)
        let reports = [
            bought("81", "2026-01-01", "2026-02-01"),
            bought("82", "2026-03-01", "2026-04-01", subscription: OwnershipStory.otherSubscription),
        ]
        let statements: [Int64: LinkStatement] = [
            3: linked("u-1", subscription, other), 4: linked("u-2", subscription), 5: linked("u-2"),
        ]

        let run = OwnershipRun(reports, statements, .latestBuyer)

        #expect(
            run.access == [
                subscription: [Span("2026-01-01", "2026-02-01")], .u1: [Span("2026-03-01", "2026-04-01")],
            ])
        // Under shared it was never taken.
        #expect(
            OwnershipRun(reports, statements, .shared).access == [
                .u1: [Span("2026-01-01", "2026-02-01"), Span("2026-03-01", "2026-04-01")]
            ])
        // Who states it again has it again.
        let again = OwnershipRun(reports, statements.merging([6: linked("u-1", subscription)]) { $1 }, .latestBuyer)
        #expect(
            again.access == [.u1: [Span("2026-01-01", "2026-02-01")], other: [Span("2026-03-01", "2026-04-01")]])
    }
}

@Suite("Evidence of ownership")
struct OwnershipEvidenceTests {
    private let nilToken = "00000000-0000-0000-0000-000000000000"

    @Test("the nil UUID is no token")
    func nilUUID() {
        let run = OwnershipRun(
            [
                bought("91", "2026-01-01", "2026-02-01", token: nilToken),
                bought(
                    "92", "2026-03-01", "2026-04-01", token: nilToken,
                    subscription: OwnershipStory.otherSubscription),
            ], [:], .latestBuyer)

        #expect(
            run.access == [
                CustomerKey(.subscription, testSubscription): [Span("2026-01-01", "2026-02-01")],
                CustomerKey(.subscription, OwnershipStory.otherSubscription): [Span("2026-03-01", "2026-04-01")],
            ])
        #expect(run.customers.identities.allSatisfy { $0.key.kind == .subscription })
    }

    @Test("a token that the server sets later is that of the whole purchase", arguments: Arrival.allCases)
    func tokenSetLater(_ arrival: Arrival) {
        var signedAgain = row("93", "2026-01-01", "2026-02-01")
        signedAgain.appAccountToken = tokenB.uppercased()
        signedAgain.signedDate = day("2026-01-20")
        let reports = [
            bought("93", "2026-01-01", "2026-02-01", token: tokenA), Told("2026-01-20", [signedAgain]),
        ]

        let run = OwnershipRun(arrival.arrange(reports), [:], .latestBuyer)

        #expect(run.access == [.b: [Span("2026-01-01", "2026-02-01")]])
    }

    @Test("what carries no token goes with the app user of the store account at the time")
    func storeAccount() {
        let (second, third) = ("1000000000000002", "1000000000000003")
        let reports = [
            bought("94", "2026-01-01", "2026-07-01", store: "7001"),
            bought("95", "2026-02-01", "2026-03-01", token: tokenA, subscription: second, store: "7001"),
            bought("96", "2026-04-01", "2026-05-01", token: tokenB, subscription: third, store: "7001"),
        ]

        let latest = OwnershipRun(reports, [:], .latestBuyer)
        let first = OwnershipRun(reports, [:], .firstBuyer)
        let withLink = OwnershipRun(
            reports, [4: linked("u-1", CustomerKey(.appTransaction, "7001"))], .latestBuyer)

        #expect(
            latest.access == [.a: [Span("2026-01-01", "2026-04-01")], .b: [Span("2026-04-01", "2026-07-01")]])
        #expect(latest.customers.customer(CustomerKey(.appTransaction, "7001"), at: day("2026-03-15")) == .a)
        #expect(latest.customers.customer(CustomerKey(.appTransaction, "7001"), at: day("2026-06-15")) == .b)
        #expect(
            first.access == [.a: [Span("2026-01-01", "2026-07-01")], .b: [Span("2026-04-01", "2026-05-01")]])
        // The link on the store account is weaker than the tokens of the purchases.
        #expect(
            withLink.access == [
                .u1: [Span("2026-01-01", "2026-07-01")], .a: [Span("2026-02-01", "2026-03-01")],
                .b: [Span("2026-04-01", "2026-05-01")],
            ])
    }

    @Test("a renewal with the token of its purchase does not take over the store account")
    func renewal() {
        let reports = [
            bought("94", "2026-01-01", "2026-07-01", store: "7001"),
            bought(
                "95", "2026-02-01", "2026-03-01", token: tokenA, subscription: OwnershipStory.otherSubscription,
                store: "7001"),
            bought("96", "2026-02-10", "2026-03-10", token: tokenB, subscription: "1000000000000003", store: "7001"),
            bought(
                "97", "2026-03-01", "2026-04-01", token: tokenA, subscription: OwnershipStory.otherSubscription,
                store: "7001", reason: "RENEWAL"),
        ]

        let run = OwnershipRun(reports, [:], .latestBuyer)

        #expect(run.owners(of: testSubscription, at: day("2026-02-05")) == [.a])
        #expect(run.owners(of: testSubscription, at: day("2026-03-05")) == [.b])
    }

    @Test("a store account without tokens goes with the latest link on one of its subscriptions")
    func linkedStoreAccount() {
        let second = "1000000000000002"
        let receipt = Told(
            "2026-03-01",
            [
                row("97", "2026-01-01", "2026-02-01"),
                row("98", "2026-03-01", "2026-04-01", product: premium, subscription: second),
            ])
        var facts: [SubscriptionFacts] = []
        for id in [testSubscription, second] {
            var folded = SubscriptionFacts(originalTransactionId: id)
            folded.fold(
                receipt.facts, occurredAt: receipt.occurredAt, receivedAt: receipt.occurredAt, position: 1,
                companion: receipt.facts.companion)
            facts.append(folded)
        }
        func owners(_ statements: [Int64: LinkStatement]) -> [CustomerKey] {
            Customers(of: facts.map { $0.ownershipEvidence() }, links: CustomerLinks(statements), policy: .latestBuyer)
                .ownership.map(\.owner)
        }
        let own = CustomerKey(.subscription, testSubscription)

        #expect(owners([:]) == [own, own])
        #expect(owners([2: linked("u-1", own)]) == [.u1, .u1])
        #expect(owners([2: linked("u-1", own), 3: linked("u-2", CustomerKey(.subscription, second))]) == [.u1, .u2])
    }

    @Test("under first-buyer a statement on what another customer owns counts for nothing")
    func contested() {
        let subscription = CustomerKey(.subscription, testSubscription)
        /// The keys that a later statement gives to its customer.
        func taken(_ story: OwnershipStory, _ statement: LinkStatement) -> [CustomerKey] {
            var statements = [Int64: LinkStatement]()
            for (index, earlier) in story.statements.enumerated() { statements[Int64(50 + index)] = earlier }
            statements[90] = statement
            let customers = OwnershipRun(story.reports, statements, .firstBuyer).customers
            let customer = CustomerKey(.link, statement.backendCustomerId.text)
            return statement.links.filter { customers.customer($0, at: day("2026-12-01")) == customer }
        }

        #expect(taken(.linkedPastTheToken, linked("u-2", .b, subscription)) == [.b])
        #expect(taken(.linkedPastTheToken, linked("u-2", .a)) == [])
        #expect(taken(.linkedPastTheToken, linked("u-1", .a, subscription)) == [.a, subscription])
        let unknown = CustomerKey(.subscription, "1000000000000009")
        #expect(taken(.linkedPastTheToken, linked("u-2", unknown)) == [unknown])
        // Nobody linked this token: who names it is its app user.
        #expect(taken(.upgradeByAnother, linked("u-2", subscription)) == [])
        #expect(taken(.upgradeByAnother, linked("u-1", .a, subscription)) == [.a, subscription])
        #expect(taken(.upgradeByAnother, linked("u-2", .b, subscription, basis: .transfer)) == [.b, subscription])
    }
}
