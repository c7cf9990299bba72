import Encoding
import Subscriptions
import Testing

/// How long access continues when a renewal fails: the app's grace setting, as in table 6-2.
enum GraceSetting: CaseIterable, Sendable {
    case none, days3, days16, days28

    var end: Instant? {
        switch self {
        case .none: nil
        case .days3: day("2018-04-23")
        case .days16: day("2018-05-06")
        case .days28: day("2018-05-18")
        }
    }

    var coversRecovery: Bool { self == .days16 || self == .days28 }
}

/// Whether the row paid on May 5, inside grace, has the payment or the end of the failed period as its purchase date.
enum RecoveryPurchase: CaseIterable, Sendable {
    case atPayment, atFailedExpiry
}

/// The subscriber of Apple's table 6-2: a renewal fails on Apr 20 and is paid on May 5. Notional year 2018.
struct BillingIssueExample {
    let setting: GraceSetting
    var purchase = RecoveryPurchase.atPayment

    let rowA = row("1000000000000001", "2018-02-20", "2018-03-20")
    let rowB = row("1000000000000002", "2018-03-20", "2018-04-20")
    let rowD = row("1000000000000004", "2018-06-05", "2018-07-05")

    var rowC: Transaction {
        guard setting.coversRecovery else { return row("1000000000000003", "2018-05-05", "2018-06-05") }
        let start = purchase == .atPayment ? "2018-05-05" : "2018-04-20"
        return row("1000000000000003", start, "2018-05-20")
    }

    var failed: RenewalInfo {
        intention(autoRenew: true) {
            $0.isInBillingRetryPeriod = true
            $0.expirationIntent = 2
            $0.gracePeriodExpiresDate = setting.end
        }
    }

    var untilFailure: [Told] {
        let on = intention(autoRenew: true)
        return [
            Told("2018-02-20", [rowA], [on]),
            Told("2018-03-20", [rowA, rowB], [on]),
            Told("2018-04-20", [rowA, rowB], [failed]),
        ]
    }

    var recovered: [Told] {
        let on = intention(autoRenew: true)
        let recovery = Told("2018-05-05", [rowA, rowB, rowC], [on])
        let renewal = Told("2018-06-05", [rowA, rowB, rowC, rowD], [on])
        return untilFailure + [recovery] + (setting.coversRecovery ? [] : [renewal])
    }

    /// After 60 days without payment. The last statement may still have the old grace date.
    func exhausted(graceStays: Bool) -> [Told] {
        let givenUp = intention(autoRenew: false) {
            $0.autoRenewStatusChangeDate = day("2018-06-19")
            $0.isInBillingRetryPeriod = false
            $0.expirationIntent = 2
            $0.gracePeriodExpiresDate = graceStays ? setting.end : nil
        }
        return untilFailure + [Told("2018-06-19", [rowA, rowB], [givenUp])]
    }
}

@Suite("Worked example 2: the billing issue")
struct BillingIssueExampleTests {
    @Test(
        "access matches the table for every grace setting and order of arrival",
        arguments: GraceSetting.allCases, Arrival.allCases)
    func access(setting: GraceSetting, arrival: Arrival) {
        for purchase in RecoveryPurchase.allCases {
            let told = BillingIssueExample(setting: setting, purchase: purchase).recovered

            let subscription = Subscription(arriving: arrival.arrange(told))

            let expected: [Span] =
                switch setting {
                case .none: [Span("2018-02-20", "2018-04-20"), Span("2018-05-05", "2018-07-05")]
                case .days3: [Span("2018-02-20", "2018-04-23"), Span("2018-05-05", "2018-07-05")]
                case .days16, .days28: [Span("2018-02-20", "2018-05-20")]
                }
            #expect(subscription.spans == expected, "recovery shown \(purchase)")
        }
    }

    @Test(
        "access on each date of the table matches the table",
        arguments: [
            ("2018-04-19", [true, true, true, true]),
            ("2018-04-20", [false, true, true, true]),
            ("2018-04-22", [false, true, true, true]),
            ("2018-04-23", [false, false, true, true]),
            ("2018-05-04", [false, false, true, true]),
            ("2018-05-05", [true, true, true, true]),
            ("2018-05-19", [true, true, true, true]),
            ("2018-05-20", [true, true, false, false]),
            ("2018-06-04T23:59:59.999Z", [true, true, false, false]),
        ])
    func questions(date: String, answers: [Bool]) {
        for (setting, answer) in zip(GraceSetting.allCases, answers) {
            for purchase in RecoveryPurchase.allCases {
                let subscription = Subscription(
                    arriving: BillingIssueExample(setting: setting, purchase: purchase).recovered)

                #expect(subscription.isActive(at: day(date)) == answer, "\(setting), \(purchase)")
            }
        }
    }

    @Test(
        "the status changes from active through grace to retry, and back to active after the payment",
        arguments: [
            ("2018-04-19", [SubscriptionStatus.active, .active, .active, .active]),
            ("2018-04-20", [.retry, .grace, .grace, .grace]),
            ("2018-04-22", [.retry, .grace, .grace, .grace]),
            ("2018-04-23", [.retry, .retry, .grace, .grace]),
            ("2018-05-04", [.retry, .retry, .grace, .grace]),
            ("2018-05-05", [.active, .active, .active, .active]),
            ("2018-05-19", [.active, .active, .active, .active]),
        ])
    func status(date: String, statuses: [SubscriptionStatus]) {
        for (setting, status) in zip(GraceSetting.allCases, statuses) {
            let subscription = Subscription(arriving: BillingIssueExample(setting: setting).recovered)

            #expect(subscription.status(at: day(date)) == status, "\(setting)")
        }
    }

    @Test("retry ends by the clock 60 days after the failed expiry", arguments: GraceSetting.allCases)
    func retryEndsByTheClock(setting: GraceSetting) throws {
        let subscription = Subscription(arriving: BillingIssueExample(setting: setting).untilFailure)

        #expect(subscription.status(at: day("2018-06-18T23:59:59.999Z")) == .retry)
        #expect(subscription.status(at: day("2018-06-19")) == .expired)
        #expect(subscription.status(at: day("2018-08-08")) == .expired)
        let change = try #require(subscription.nextChange(after: day("2018-05-20")))
        #expect(change.at == day("2018-06-19"))
        #expect(change.to == .expired)
        #expect(subscription.nextChange(after: day("2018-06-19"))?.at == nil)
    }

    @Test(
        "a switch-off after the recovery, within the grace dates, does not shorten the grace",
        arguments: [GraceSetting.days16, .days28], RecoveryPurchase.allCases)
    func switchOffAfterRecovery(setting: GraceSetting, purchase: RecoveryPurchase) throws {
        let example = BillingIssueExample(setting: setting, purchase: purchase)
        let off = intention(autoRenew: false) { $0.autoRenewStatusChangeDate = day("2018-05-05T12:00:00Z") }
        let told = example.recovered + [Told("2018-05-05T12:00:00Z", [example.rowC], [off])]

        for arrival in Arrival.allCases {
            let subscription = Subscription(arriving: arrival.arrange(told))

            let grace = try #require(subscription.access.first { $0.cause == .grace })
            #expect(grace.cut == nil)
            #expect(grace.end == setting.end)
            #expect(subscription.spans == [Span("2018-02-20", "2018-05-20")])
            #expect(subscription.status(at: day("2018-05-06")) == .activeWillEnd)
        }
    }

    @Test("a switch-off within grace ends it at once")
    func switchOffInGrace() throws {
        let example = BillingIssueExample(setting: .days16)
        let off = intention(autoRenew: false) { $0.autoRenewStatusChangeDate = day("2018-04-25") }

        let subscription = Subscription(arriving: example.untilFailure + [Told("2018-04-25", [example.rowB], [off])])

        let grace = try #require(subscription.access.first { $0.cause == .grace })
        #expect(grace.cut == .switchedOff)
        #expect(grace.end == day("2018-04-25"))
    }

    @Test("a switch-off ends the grace if the payment that recovered it was refunded")
    func recoveryRefunded() throws {
        let example = BillingIssueExample(setting: .days28)
        let off = intention(autoRenew: false) { $0.autoRenewStatusChangeDate = day("2018-05-08") }
        let told = example.recovered + [Told("2018-05-08", [example.rowC.refunded("2018-05-08")], [off])]

        #expect(Subscription(arriving: told).spans == [Span("2018-02-20", "2018-05-08")])
    }

    @Test("the expiry of the payment method on Apr 19 has no effect")
    func paymentMethodExpires() {
        let subscription = Subscription(arriving: BillingIssueExample(setting: .none).untilFailure)

        #expect(subscription.isActive(at: day("2018-04-19T23:59:59.999Z")))
    }

    @Test("the next change is the end of grace, to retry")
    func graceEndIsNextChange() throws {
        let subscription = Subscription(arriving: BillingIssueExample(setting: .days3).untilFailure)

        let change = try #require(subscription.nextChange(after: day("2018-04-21")))

        #expect(change.at == day("2018-04-23"))
        #expect(change.to == .retry)
    }

    @Test("a grace period remains after a recovery that does not mention it")
    func graceIsNeverForgotten() throws {
        let subscription = Subscription(arriving: BillingIssueExample(setting: .days3).recovered)

        let period = try #require(subscription.period(at: day("2018-04-21")))

        #expect(period.cause == .grace)
        #expect(period.start == day("2018-04-20"))
        #expect(period.end == day("2018-04-23"))
        #expect(period.transactionId == "1000000000000002")
    }

    @Test(
        "sixty days of retry give no access beyond grace and end in expired",
        arguments: GraceSetting.allCases, [true, false])
    func neverRecovered(setting: GraceSetting, graceStays: Bool) {
        for arrival in Arrival.allCases {
            let told = BillingIssueExample(setting: setting).exhausted(graceStays: graceStays)

            let subscription = Subscription(arriving: arrival.arrange(told))

            #expect(subscription.spans == [Span(day("2018-02-20"), setting.end ?? day("2018-04-20"))])
            #expect(subscription.status(at: day("2018-05-18")) == .retry)
            #expect(subscription.status(at: day("2018-06-18T23:59:59.999Z")) == .retry)
            #expect(subscription.renewal(at: day("2018-06-18")).autoRenewStatus == true)
            #expect(subscription.status(at: day("2018-06-19")) == .expired)
            #expect(subscription.renewal(at: day("2018-06-19")).expirationIntent == 2)
        }
    }
}
