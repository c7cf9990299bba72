import Subscriptions
import Testing

@Suite("Stories of one subscription")
struct SubscriptionStoryTests {
    private let rowA = row("1000000000000001", "2018-02-20", "2018-03-20")
    private let rowB = row("1000000000000002", "2018-03-20", "2018-04-20")
    private let on = intention(autoRenew: true)

    @Test("a refund of one product does not affect another subscription")
    func otherProduct() {
        let other = row(
            "3000000000000001", "2018-02-20", "2018-03-20", product: premium, subscription: "3000000000000001")
        let told = [
            Told("2018-02-20", [rowA, other], [on]),
            Told("2018-03-01", [rowA.refunded("2018-03-01"), other], [on]),
        ]

        let refunded = Subscription(arriving: told)
        let untouched = Subscription(arriving: told, subscription: "3000000000000001")

        #expect(refunded.spans == [])
        #expect(untouched.spans == [Span("2018-02-20", "2018-03-20")])
        #expect(untouched.status(at: day("2018-03-01")) == .active)
        #expect(untouched.transactions.map(\.transaction) == [other])
    }

    @Test("a subscription reads only its own rows and renewal info from a mixed receipt")
    func twoSubscriptions() {
        let other = row("3000000000000001", "2018-01-01", "2019-01-01", subscription: "3000000000000001")
        let otherOff = intention(autoRenew: false, subscription: "3000000000000001")
        let told = [Told("2018-02-20", [other, rowA], [otherOff, on])]

        let subscription = Subscription(arriving: told)

        #expect(subscription.transactions.map(\.transaction.transactionId) == ["1000000000000001"])
        #expect(subscription.renewal(at: day("2018-02-20")).autoRenewStatus == true)
    }

    @Test(
        "a purchase that is refunded, reversed and refunded again with another date is refunded",
        arguments: Arrival.allCases)
    func refundedAgain(arrival: Arrival) {
        let told = [
            Told("2018-02-20", [rowA], [on]),
            Told("2018-03-01", [rowA.refunded("2018-03-01")], [on]),
            Told("2018-03-03", [rowA], [on]),
            Told("2018-03-05", [rowA.refunded("2018-03-05")], [on]),
        ]

        let subscription = Subscription(arriving: arrival.arrange(told))

        #expect(subscription.spans == [])
        #expect(subscription.status(at: day("2018-03-05")) == .refunded)
        #expect(subscription.transactions.first?.transaction.revocationDate == day("2018-03-05"))
    }

    @Test(
        "a purchase that is refunded, reversed and refunded again with the same date is refunded",
        arguments: Arrival.allCases)
    func refundedAgainSameDate(arrival: Arrival) {
        let told = [
            Told("2018-02-20", [rowA], [on]),
            Told("2018-03-01", [rowA.refunded("2018-03-01")], [on]),
            Told("2018-03-03", [rowA], [on]),
            Told("2018-03-05", [rowA.refunded("2018-03-01")], [on]),
        ]

        #expect(Subscription(arriving: arrival.arrange(told)).spans == [])
    }

    @Test("an upgraded row with a cancellation date ends there and is not a refund", arguments: Arrival.allCases)
    func upgradeIsNoRefund(arrival: Arrival) {
        var replaced = rowA.refunded("2018-03-01")
        replaced.isUpgraded = true
        let new = row("1000000000000002", "2018-03-01", "2018-04-01", product: premium)
        let told = [
            Told("2018-02-20", [rowA], [on]),
            Told("2018-03-01", [replaced]),
            Told("2018-03-01T00:00:01Z", [replaced, new], [on]),
        ]

        let subscription = Subscription(arriving: arrival.arrange(told))

        #expect(subscription.spans == [Span("2018-02-20", "2018-04-01")])
        #expect(subscription.status(at: day("2018-03-02")) == .active)
        #expect(subscription.transactions.allSatisfy { !$0.transaction.isRefunded })
    }

    @Test("a refund of the upgrade does not restore the replaced period")
    func refundOfUpgrade() {
        var replaced = rowA
        replaced.isUpgraded = true
        let new = row("1000000000000002", "2018-03-01", "2018-04-01", product: premium)

        let subscription = Subscription(arriving: [
            Told("2018-03-01", [replaced, new], [on]),
            Told("2018-03-05", [replaced, new.refunded("2018-03-05")], [on]),
        ])

        #expect(subscription.spans == [Span("2018-02-20", "2018-03-01")])
    }

    @Test("a refund of the replaced row, dated after the upgrade, does not extend it")
    func refundOfReplacedRow() {
        var replaced = rowA
        replaced.isUpgraded = true
        let gone = row("1000000000000002", "2018-03-01", "2018-04-01", product: premium).refunded("2018-03-05")

        let subscription = Subscription(arriving: [
            Told("2018-03-05", [replaced, gone], [on]),
            Told("2018-03-10", [replaced.refunded("2018-03-10"), gone], [on]),
        ])

        #expect(!subscription.isActive(at: day("2018-03-02")))
        #expect(!subscription.isActive(at: day("2018-03-09")))
    }

    @Test("a refund of the conversion leaves only the trial")
    func trialThenConversion() {
        let trial = row("1000000000000001", "2018-02-20", "2018-02-27") { $0.isTrialPeriod = true }
        let paid = row("1000000000000002", "2018-02-27", "2018-03-27") { $0.isTrialPeriod = false }
        let told = [Told("2018-02-20", [trial], [on]), Told("2018-02-27", [trial, paid], [on])]

        let converted = Subscription(arriving: told)
        let refunded = Subscription(
            arriving: told + [Told("2018-03-01", [trial, paid.refunded("2018-03-01")], [on])])

        #expect(converted.spans == [Span("2018-02-20", "2018-03-27")])
        #expect(converted.period(at: day("2018-02-27"))?.transactionId == "1000000000000002")
        #expect(refunded.spans == [Span("2018-02-20", "2018-02-27")])
    }

    @Test("an early charge changes no access before the expiry, and the running period stays current")
    func earlyCharge() {
        let subscription = Subscription(arriving: [
            Told("2018-02-20", [rowA], [on]), Told("2018-03-19T06:00:00Z", [rowA, rowB], [on]),
        ])

        #expect(subscription.period(at: day("2018-03-19T12:00:00Z"))?.transactionId == "1000000000000001")
        #expect(subscription.spans == [Span("2018-02-20", "2018-04-20")])
        #expect(subscription.nextChange(after: day("2018-03-19T12:00:00Z"))?.at == day("2018-04-20"))
    }

    @Test("the later purchase of two overlapping periods is current")
    func overlap() {
        let later = row("1000000000000002", "2018-03-01", "2018-04-01", product: premium)

        let subscription = Subscription(arriving: [Told("2018-03-01", [later, rowA], [on])])

        #expect(subscription.period(at: day("2018-02-28"))?.productId == monthly)
        #expect(subscription.period(at: day("2018-03-02"))?.productId == premium)
    }

    @Test("a shorter plan bought inside grace does not shorten the grace", arguments: Arrival.allCases)
    func shortPlanInsideGrace(arrival: Arrival) {
        let failed = intention(autoRenew: true) {
            $0.isInBillingRetryPeriod = true
            $0.gracePeriodExpiresDate = day("2018-04-17")
        }
        let weekly = row("1000000000000002", "2018-03-25", "2018-04-01", product: premium)
        let told = [
            Told("2018-02-20", [rowA], [on]),
            Told("2018-03-20", [rowA], [failed]),
            Told("2018-03-25", [rowA, weekly], [on]),
        ]

        let subscription = Subscription(arriving: arrival.arrange(told))

        #expect(subscription.isActive(at: day("2018-03-22")))
        #expect(subscription.isActive(at: day("2018-03-31")))
    }

    @Test(
        "grace follows the period that failed to renew, not a longer one that was upgraded",
        arguments: Arrival.allCases)
    func graceAfterUpgrade(_ arrival: Arrival) {
        let yearly = row("1000000000000001", "2018-01-01", "2019-01-01") {
            $0.isUpgraded = true
            $0.revocationDate = day("2018-11-26")
        }
        let upgraded = row("1000000000000002", "2018-11-26", "2018-12-26", product: premium)
        let failed = intention(autoRenew: true) {
            $0.isInBillingRetryPeriod = true
            $0.gracePeriodExpiresDate = day("2019-01-11")
        }
        let told = [Told("2018-11-26", [yearly, upgraded]), Told("2018-12-26", [yearly, upgraded], [failed])]

        let subscription = Subscription(SubscriptionFacts(arriving: arrival.arrange(told)))

        #expect(subscription.status(at: day("2018-12-27")) == .grace)
        #expect(subscription.status(at: day("2019-01-10")) == .grace)
        #expect(subscription.status(at: day("2019-01-11")) == .retry)
    }

    @Test("a refund revokes the restored copy of its row", arguments: Arrival.allCases)
    func refundOfRestored(_ arrival: Arrival) {
        let bought = row("1000000000000001", "2018-01-01", "2018-02-01")
        let restored = row("1000000000000009", "2018-01-01", "2018-02-01") {
            $0.webOrderLineItemId = bought.webOrderLineItemId
        }
        let told = [
            Told("2018-01-01", [bought]), Told("2018-01-05", [bought, restored]),
            Told("2018-01-10", [bought.refunded("2018-01-10"), restored]),
        ]

        let subscription = Subscription(SubscriptionFacts(arriving: arrival.arrange(told)))

        #expect(subscription.access.isEmpty)
    }

    @Test(
        "a refund ends the grace even if a restored copy expires with the row", arguments: Arrival.allCases)
    func graceOfRestored(_ arrival: Arrival) {
        let bought = row("1000000000000001", "2018-01-01", "2018-02-01")
        let restored = row("1000000000000009", "2018-01-01", "2018-02-01") {
            $0.webOrderLineItemId = bought.webOrderLineItemId
        }
        let failed = intention(autoRenew: true) {
            $0.isInBillingRetryPeriod = true
            $0.gracePeriodExpiresDate = day("2018-02-17")
        }
        let told = [
            Told("2018-01-05", [bought, restored]), Told("2018-02-01", [bought, restored], [failed]),
            Told("2018-02-05", [bought.refunded("2018-02-05"), restored]),
        ]

        let subscription = Subscription(SubscriptionFacts(arriving: arrival.arrange(told)))

        #expect(subscription.access.isEmpty)
    }

    @Test("a row without a statement about revocation does not reverse a refund", arguments: Arrival.allCases)
    func unstatedRevocation(_ arrival: Arrival) {
        let bought = row("1000000000000001", "2018-01-01", "2018-02-01") { $0.statesRevocation = false }
        let told = [
            Told("2018-01-01", [bought]), Told("2018-01-10", [bought.refunded("2018-01-10")]),
            Told("2018-01-11", [bought]),
        ]

        let subscription = Subscription(SubscriptionFacts(arriving: arrival.arrange(told)))

        #expect(subscription.access.isEmpty)
        #expect(subscription.status(at: day("2018-01-12")) == .refunded)
    }

    @Test("a later grace end for the same failed period replaces the earlier one", arguments: Arrival.allCases)
    func laterGraceEnd(arrival: Arrival) {
        func failed(_ end: String) -> RenewalInfo {
            intention(autoRenew: true) {
                $0.isInBillingRetryPeriod = true
                $0.gracePeriodExpiresDate = day(end)
            }
        }
        let told = [
            Told("2018-02-20", [rowA], [on]),
            Told("2018-03-20", [rowA], [failed("2018-03-23")]),
            Told("2018-03-21", [rowA], [failed("2018-04-05")]),
        ]

        #expect(Subscription(arriving: arrival.arrange(told)).spans == [Span("2018-02-20", "2018-04-05")])
    }

    @Test("a recovery reported twice is one period")
    func recoveryToldTwice() {
        let told = [
            Told("2018-02-20", [rowA], [on]),
            Told("2018-03-30", [row("1000000000000002", "2018-03-30", "2018-04-30")], [on]),
            Told("2018-03-30", [row("1000000000000002", "2018-03-30", "2018-04-30")], [on]),
        ]

        let subscription = Subscription(arriving: told)

        #expect(subscription.access.count == 2)
        #expect(subscription.transactions.count == 2)
    }

    @Test("copies of a row whose dates differ by milliseconds are one period")
    func milliseconds() {
        let exact = row("1000000000000001", "2020-03-20T11:27:07.636Z", "2020-04-20T11:27:07.636Z")
        let rounded = row("1000000000000001", "2020-03-20T11:27:07Z", "2020-04-20T11:27:07Z")

        let subscription = Subscription(arriving: [
            Told("2020-03-20T11:27:07.636Z", [exact], [on]), Told("2020-03-20T11:27:08Z", [rounded], [on]),
        ])

        #expect(subscription.access.count == 1)
    }

    @Test("the switch and the next product come from the latest statement, even if an older one arrives later")
    func olderRenewal() {
        let off = intention(autoRenew: false, next: premium) { $0.autoRenewStatusChangeDate = day("2018-03-25") }
        let late = Told("2018-03-20", [rowA, rowB], [on])

        let subscription = Subscription(arriving: [Told("2018-03-25", [rowA], [off]), late])

        #expect(subscription.renewal(at: day("2018-04-01")).autoRenewStatus == false)
        #expect(subscription.renewal(at: day("2018-04-01")).autoRenewProductId == premium)
        #expect(subscription.spans == [Span("2018-02-20", "2018-04-20")])
    }

    @Test("access does not depend on the renewal switch, the retry flag or the intent", arguments: [true, false])
    func flagsDecideNothing(flag: Bool) {
        let flags = intention(autoRenew: flag) {
            $0.isInBillingRetryPeriod = flag
            $0.expirationIntent = flag ? nil : 1
        }

        let subscription = Subscription(arriving: [Told("2018-02-20", [rowA], [flags])])

        #expect(subscription.spans == [Span("2018-02-20", "2018-03-20")])
    }

    @Test("a row without dates is kept and gives no access")
    func noDates() {
        let bare = Transaction(transactionId: "1000000000000001", originalTransactionId: testSubscription)

        let subscription = Subscription(arriving: [Told("2018-02-20", [bare], [on])])

        #expect(subscription.access == [])
        #expect(subscription.transactions.count == 1)
        #expect(subscription.status(at: day("2018-02-21")) == .never)
    }
}
