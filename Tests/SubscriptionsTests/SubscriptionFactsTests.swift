import Encoding
import Subscriptions
import Testing

@Suite("Stored facts")
struct SubscriptionFactsTests {
    private func full() -> Transaction {
        row("1000000000000001", "2018-02-20", "2018-03-20") {
            $0.originalPurchaseDate = day("2018-02-20T00:00:01Z")
            $0.revocationDate = day("2018-03-01T01:02:03.004Z")
            $0.revocationReason = 1
            $0.isUpgraded = true
            $0.isTrialPeriod = true
            $0.isInIntroOfferPeriod = false
            $0.inAppOwnershipType = "PURCHASED"
            $0.promotionalOfferId = "offer \"1\""
            $0.offerCodeRefName = "é\n"
            $0.appAccountToken = "00000000-0000-4000-8000-000000000001"
        }
    }

    private func fullRenewal() -> RenewalInfo {
        intention(autoRenew: false, next: premium) {
            $0.autoRenewStatusChangeDate = day("2018-03-01")
            $0.expirationIntent = 2
            $0.isInBillingRetryPeriod = true
            $0.gracePeriodExpiresDate = day("2018-04-01")
            $0.priceIncreaseStatus = 1
            $0.promotionalOfferId = "offer"
            $0.offerCodeRefName = "code"
        }
    }

    @Test("every field is unchanged after it is stored and read")
    func everyField() throws {
        let facts = SubscriptionFacts(arriving: [Told("2018-03-01", [full()], [fullRenewal()])])

        let read = try SubscriptionFacts(
            originalTransactionId: testSubscription, json: JSONDocument(facts.canonicalBytes).root)

        #expect(read == facts)
        #expect(Subscription(read).transactions.map(\.transaction) == [full()])
        #expect(Subscription(read).renewals.map(\.renewal) == [fullRenewal()])
    }

    @Test(
        "a migrated subscription has the key of its previous subscription, and never its own key")
    func migrated() {
        let told = Told(
            "2018-03-01",
            [
                row("1000000000000002", "2018-03-20", "2018-04-20") {
                    $0.previousOriginalTransactionId = "900000000000001"
                },
                row("1000000000000001", "2018-02-20", "2018-03-20") {
                    $0.previousOriginalTransactionId = testSubscription
                },
            ])

        #expect(
            SubscriptionFacts(arriving: [told]).ownershipEvidence().ties
                == [CustomerKey(.subscription, "900000000000001"): 1])
    }

    @Test("the nil UUID as account token ties nothing, and another token of the subscription does")
    func nilAccountToken() {
        let none = row("1000000000000001", "2018-02-20", "2018-03-20") {
            $0.appAccountToken = "00000000-0000-0000-0000-000000000000"
        }
        let own = row("1000000000000002", "2018-03-20", "2018-04-20") {
            $0.appAccountToken = "00000000-0000-4000-8000-000000000001"
        }

        #expect(SubscriptionFacts(arriving: [Told("2018-03-01", [none])]).ownershipEvidence().edges == [:])
        #expect(
            SubscriptionFacts(arriving: [Told("2018-03-01", [none]), Told("2018-04-01", [own])]).ownershipEvidence()
                .edges
                == [CustomerKey(.account, "00000000-0000-4000-8000-000000000001"): 2])
    }

    @Test("a subscription without facts is unchanged after it is stored and read")
    func empty() throws {
        let facts = SubscriptionFacts(originalTransactionId: testSubscription)

        let read = try SubscriptionFacts(
            originalTransactionId: testSubscription, json: JSONDocument(facts.canonicalBytes).root)

        #expect(read == facts)
        #expect(Subscription(read).access == [])
        #expect(Subscription(read).status(at: day("2018-02-20")) == .never)
    }

    @Test("reading a stored transaction that cannot be decoded fails")
    func unreadable() throws {
        let root = try JSONDocument(Array(#"{"transactions": [1], "renewals": []}"#.utf8)).root

        #expect(throws: FactsError.self) { try SubscriptionFacts(originalTransactionId: testSubscription, json: root) }
    }

    @Test("facts of other subscriptions are skipped")
    func otherSubscriptions() {
        var facts = SubscriptionFacts(originalTransactionId: "3000000000000001")
        let empty = facts

        facts.add(
            Delivery(told: Told("2018-03-01", [full()], [fullRenewal()]), receivedAt: day("2018-03-01"), position: 1))

        #expect(facts == empty)
    }

    @Test("the evidence of a period is the first event that stated it, even if it is stated again")
    func evidence() {
        let rowA = row("1000000000000001", "2018-02-20", "2018-03-20")
        let told = [Told("2018-02-20", [rowA]), Told("2018-02-25", [rowA]), Told("2018-02-20", [rowA])]

        let subscription = Subscription(arriving: told)

        #expect(subscription.access.map(\.position) == [1])
    }

    @Test("facts of a purchase remain if a later statement omits them")
    func laterStatementSaysLess() {
        let bare = row("1000000000000001", "2018-02-20", "2018-03-20") {
            $0.webOrderLineItemId = nil
            $0.subscriptionGroupIdentifier = nil
        }
        var refunded = bare
        refunded.revocationDate = day("2018-03-05")

        let subscription = Subscription(arriving: [
            Told("2018-02-20", [row("1000000000000001", "2018-02-20", "2018-03-20") { $0.isTrialPeriod = true }]),
            Told("2018-03-05", [refunded]),
        ])

        #expect(subscription.transactions.first?.transaction.isTrialPeriod == true)
        #expect(subscription.transactions.first?.transaction.subscriptionGroupIdentifier == "20000001")
        #expect(subscription.access == [])
    }

    @Test("an event without a date is ordered by its time of receipt")
    func noTime() {
        let rowA = row("1000000000000001", "2018-02-20", "2018-03-20")
        var facts = SubscriptionFacts(originalTransactionId: testSubscription)

        facts.fold(
            Facts(transactions: [rowA.refunded("2018-03-01")], renewals: []), occurredAt: nil,
            receivedAt: day("2018-03-02"), position: 2)
        facts.fold(
            Facts(transactions: [rowA], renewals: []), occurredAt: day("2018-02-20"), receivedAt: day("2018-02-20"),
            position: 1)

        #expect(Subscription(facts).access == [])
    }
}
