import Encoding
import Subscriptions
import TestSupport
import Testing

/// Receipts say less than signed notifications: folding one must not take away what was signed.
@Suite("What receipts do not contain remains known")
struct ReceiptFoldTests {
    private let period = row("1000000000000001", "2018-02-20", "2018-03-20")

    /// Renewal info as Apple signs it.
    private var signed: RenewalInfo {
        intention(autoRenew: true) {
            $0.renewalPrice = 4990
            $0.currency = "EUR"
            $0.offerType = 2
            $0.offerIdentifier = "spring"
            $0.offerDiscountType = "PAY_AS_YOU_GO"
            $0.offerPeriod = "P1M"
            $0.renewalDate = day("2018-03-20")
            $0.recentSubscriptionStartDate = day("2018-02-20")
            $0.eligibleWinBackOfferIds = ["a"]
            $0.appAccountToken = "00000000-0000-4000-8000-000000000001"
            $0.appTransactionId = "704000000000000001"
            $0.renewalBillingPlanType = "BILLED_UPFRONT"
            $0.priceIncreaseStatus = 0
            $0.signedDate = day("2018-02-20")
        }
    }

    @Test("price, offer and dates of a signed report remain after a receipt", arguments: Arrival.allCases)
    func kept(_ arrival: Arrival) {
        let told = [
            Told("2018-02-20", [period], [signed]), Told("2018-03-01", [period], [intention(autoRenew: false)]),
        ]

        let renewal = Subscription(arriving: arrival.arrange(told)).renewal(at: day("2018-03-02"))

        var expected = signed
        expected.signedDate = nil
        expected.autoRenewStatus = false
        // Receipts contain it, so its absence withdraws it.
        expected.priceIncreaseStatus = nil
        #expect(renewal == expected)
    }

    @Test("a prorated refund stays one after a receipt, which has its date only", arguments: Arrival.allCases)
    func proratedRefund(_ arrival: Arrival) {
        var refunded = period.refunded("2018-03-01")
        refunded.revocationType = "REFUND_PRORATED"
        refunded.revocationPercentage = 50_000
        let told = [
            Told("2018-02-20", [period]), Told("2018-03-01", [refunded]),
            Told("2018-03-05", [period.refunded("2018-03-01")]),
        ]

        let subscription = Subscription(arriving: arrival.arrange(told))

        #expect(subscription.spans == [Span("2018-02-20", "2018-03-01")])
        #expect(subscription.transactions.map(\.transaction.revocationPercentage) == [50_000])
    }

    @Test("a receipt with a later refund of the same period is about another refund")
    func laterRefund() {
        var refunded = period.refunded("2018-03-01")
        refunded.revocationType = "REFUND_PRORATED"
        let told = [Told("2018-03-01", [refunded]), Told("2018-03-10", [period.refunded("2018-03-09")])]

        #expect(Subscription(arriving: told).spans == [])
    }

    @Test("a receipt with another next product withdraws price and offer of the former one")
    func otherProduct() {
        let told = [
            Told("2018-02-20", [period], [signed]),
            Told("2018-03-01", [period], [intention(autoRenew: true, next: premium)]),
        ]

        let renewal = Subscription(arriving: told).renewal(at: day("2018-03-02"))

        #expect(renewal.autoRenewProductId == premium)
        #expect(renewal.renewalPrice == nil && renewal.currency == nil && renewal.offerIdentifier == nil)
        #expect(renewal.renewalDate == nil)
        #expect(renewal.appTransactionId == "704000000000000001")
        #expect(renewal.recentSubscriptionStartDate == day("2018-02-20"))
    }

    @Test("a receipt with the renewal withdraws the date of that renewal, and keeps the price")
    func renewed() {
        let next = row("1000000000000002", "2018-03-20", "2018-04-20")
        let told = [
            Told("2018-02-20", [period], [signed]), Told("2018-03-21", [period, next], [intention(autoRenew: true)]),
        ]

        let subscription = Subscription(arriving: told)

        #expect(subscription.renewal(at: day("2018-03-19")).renewalDate == day("2018-03-20"))
        #expect(subscription.renewal(at: day("2018-03-21")).renewalDate == nil)
        #expect(subscription.renewal(at: day("2018-03-21")).renewalPrice == 4990)
    }

    @Test("a later signed report withdraws what it omits")
    func signedAgain() {
        let bare = intention(autoRenew: true) { $0.signedDate = day("2018-03-02") }
        let told = [
            Told("2018-02-20", [period], [signed]), Told("2018-03-01", [period], [intention(autoRenew: true)]),
            Told("2018-03-02", [period], [bare]),
        ]

        let renewal = Subscription(arriving: told).renewal(at: day("2018-03-03"))

        #expect(renewal.renewalPrice == nil && renewal.offerType == nil && renewal.renewalDate == nil)
    }
}

@Suite("An answer is stored only if it changes what is known")
struct ChangedFactsTests {
    private let rowA = row("1000000000000001", "2018-02-20", "2018-03-20")
    private let rowB = row("1000000000000002", "2018-03-20", "2018-04-20")
    private var known: SubscriptionFacts {
        SubscriptionFacts(arriving: [Told("2018-02-20", [rowA], [intention(autoRenew: true)])])
    }

    private func answer(
        _ transactions: [Transaction], _ renewals: [RenewalInfo] = [], deletions: [String] = [],
        at date: String = "2018-03-21"
    ) -> Event {
        var event = Event(
            source: .appleReceipt, environment: .production, app: "com.example.magazine", type: nil, subtype: nil,
            kind: .receipt, dedupeKey: DedupeKey(bytes: []), occurredAt: day(date), transactions: transactions,
            renewals: renewals, defects: [])
        event.accountDeletions = deletions
        return event
    }

    private func isChanged(_ event: Event) -> Bool {
        known.isChanged(by: event, receivedAt: day("2018-03-21"))
    }

    @Test("the same statements at a later time change nothing")
    func same() {
        #expect(!isChanged(answer([rowA], [intention(autoRenew: true)])))
        #expect(!isChanged(answer([rowA])))
        #expect(!isChanged(answer([])))
    }

    @Test("a new transaction, a new expiry, a refund or its reversal is a change")
    func transactions() {
        var refundedFacts = known
        refundedFacts.add(
            Delivery(
                told: Told("2018-03-01", [rowA.refunded("2018-03-01")]), receivedAt: day("2018-03-01"), position: 2))

        #expect(isChanged(answer([rowA, rowB])))
        #expect(isChanged(answer([row("1000000000000001", "2018-02-20", "2018-03-27")])))
        #expect(isChanged(answer([rowA.refunded("2018-03-01")])))
        #expect(refundedFacts.isChanged(by: answer([rowA]), receivedAt: day("2018-03-21")))
        #expect(!refundedFacts.isChanged(by: answer([rowA.refunded("2018-03-01")]), receivedAt: day("2018-03-21")))
    }

    @Test("other renewal info is a change")
    func renewals() {
        #expect(isChanged(answer([rowA], [intention(autoRenew: false)])))
        #expect(isChanged(answer([rowA], [intention(autoRenew: true, next: premium)])))
        #expect(isChanged(answer([rowA], [intention(autoRenew: true) { $0.isInBillingRetryPeriod = true }])))
    }

    @Test("a row that does not state the absence of a revocation is no change")
    func inApp() {
        var own = rowA
        own.statesRevocation = false

        #expect(!isChanged(answer([own])))
    }

    @Test("an answer that is older than what is known is no change, unless it has another transaction")
    func older() {
        #expect(!isChanged(answer([rowA.refunded("2018-02-19")], [intention(autoRenew: false)], at: "2018-02-19")))
        #expect(isChanged(answer([rowB], at: "2018-02-19")))
    }

    @Test("the first deletion of the account is a change, the second is not")
    func deletion() {
        let event = answer([], deletions: [testSubscription])
        var deleted = known
        deleted.fold(event.facts, occurredAt: day("2018-03-01"), receivedAt: day("2018-03-01"), position: 2)

        #expect(isChanged(event))
        #expect(!deleted.isChanged(by: event, receivedAt: day("2018-03-21")))
        #expect(!isChanged(answer([], deletions: ["1000000000000777"])))
    }

    @Test("anything about an unknown subscription is a change")
    func unknown() {
        let nothing = SubscriptionFacts(originalTransactionId: testSubscription)

        #expect(nothing.isChanged(by: answer([rowA]), receivedAt: day("2018-03-21")))
        #expect(!nothing.isChanged(by: answer([]), receivedAt: day("2018-03-21")))
    }
}
