import Encoding
import Subscriptions
import TestSupport
import Testing

/// The rule is B3 of what the field taught: of two parts of one answer that contradict each other, the one that ends access
/// counts from the time of the answer on. What was before stays.
@Suite("A status that says that access is over counts from then on, whatever end is stated with it")
struct EndedByStatusTests {
    private static let bought = row("1000000000000001", "2026-10-01", "2026-11-01")

    private static func renewal(
        _ date: String, grace: String? = nil, ended: Int? = nil, intent: Int? = nil
    ) -> RenewalInfo {
        intention(autoRenew: true) {
            $0.signedDate = day(date)
            $0.isInBillingRetryPeriod = grace != nil || ended == 3
            $0.gracePeriodExpiresDate = grace.map { day($0) }
            $0.endedStatus = ended
            $0.expirationIntent = intent
        }
    }

    private static func told(_ date: String, _ renewal: RenewalInfo, _ bought: Transaction = bought) -> Told {
        Told(date, [signed(bought, date)], [renewal])
    }

    private static let failed = told("2026-11-01", renewal("2026-11-01", grace: "2026-11-17"))
    /// `GRACE_PERIOD_EXPIRED`, which repeats the end of grace.
    private static let over = told("2026-11-05", renewal("2026-11-05", grace: "2026-11-17", ended: 3))

    // MARK: - Grace

    @Test("grace ends with the report that it is over, in any order and repeated", arguments: Arrival.allCases)
    func grace(_ arrival: Arrival) {
        let told = [Self.told("2026-10-01", Self.renewal("2026-10-01")), Self.failed, Self.over]
        let subscription = Subscription(arriving: arrival.arrange(told))

        #expect(subscription.spans == [Span("2026-10-01", "2026-11-05")])
        #expect(subscription.access.map(\.cut) == [nil, .endedByStatus])
        #expect(subscription.status(at: day("2026-11-04")) == .grace)
        #expect(subscription.status(at: day("2026-11-05")) == .retry)
    }

    @Test("what was before stays if nothing else is known of grace")
    func onlyReport() {
        let subscription = Subscription(arriving: [Self.over])

        #expect(subscription.spans == [Span("2026-10-01", "2026-11-05")])
    }

    @Test("the same end of grace, stated later, takes nothing back; a later end does", arguments: Arrival.allCases)
    func laterGrace(_ arrival: Arrival) {
        let same = Self.told("2026-11-06", Self.renewal("2026-11-06", grace: "2026-11-17"))
        let later = Self.told("2026-11-07", Self.renewal("2026-11-07", grace: "2026-11-20"))

        let repeated = Subscription(arriving: arrival.arrange([Self.failed, Self.over, same]))
        let extended = Subscription(arriving: arrival.arrange([Self.failed, Self.over, same, later]))

        #expect(repeated.spans == [Span("2026-10-01", "2026-11-05")])
        #expect(extended.spans == [Span("2026-10-01", "2026-11-20")])
    }

    @Test("a recovery gives its own period, and no time between the end of grace and the payment")
    func recovery() {
        let paid = row("1000000000000002", "2026-11-08", "2026-12-01")
        let recovered = Self.told("2026-11-08", Self.renewal("2026-11-08"), paid)
        let subscription = Subscription(arriving: [Self.failed, Self.over, recovered])

        #expect(subscription.spans == [Span("2026-10-01", "2026-11-05"), Span("2026-11-08", "2026-12-01")])
    }

    @Test("a recovery that is dated back to the failed renewal leaves no gap")
    func recoveryDatedBack() {
        let paid = row("1000000000000002", "2026-11-01", "2026-12-01")
        let recovered = Self.told("2026-11-08", Self.renewal("2026-11-08"), paid)
        let subscription = Subscription(arriving: [Self.failed, Self.over, recovered])

        #expect(subscription.spans == [Span("2026-10-01", "2026-12-01")])
    }

    // MARK: - Paid periods

    private static func expired(_ date: String, _ status: Int = 2, intent: Int? = 2) -> Told {
        told(date, renewal(date, ended: status, intent: intent))
    }

    @Test("a paid period ends with the report that the subscription has expired or was revoked", arguments: [2, 5])
    func paid(_ status: Int) {
        for arrival in Arrival.allCases {
            let told = [
                Self.told("2026-10-01", Self.renewal("2026-10-01")), Self.expired("2026-10-10", status),
            ]
            let subscription = Subscription(arriving: arrival.arrange(told))

            #expect(subscription.spans == [Span("2026-10-01", "2026-10-10")])
            #expect(subscription.access.map(\.cut) == [.endedByStatus])
            #expect(subscription.status(at: day("2026-10-09")) == .active)
            #expect(subscription.status(at: day("2026-10-10")) == .expired)
            #expect(subscription.transactions.allSatisfy { !$0.settled.isRefunded })
        }
    }

    @Test("a status of retry leaves what was paid for")
    func retry() {
        let subscription = Subscription(arriving: [Self.expired("2026-10-10", 3)])

        #expect(subscription.spans == [Span("2026-10-01", "2026-11-01")])
    }

    @Test("a later report of the same purchase that runs takes it back", arguments: Arrival.allCases)
    func running(_ arrival: Arrival) {
        let told = [Self.expired("2026-10-10"), Self.told("2026-10-11", Self.renewal("2026-10-11"))]
        let subscription = Subscription(arriving: arrival.arrange(told))

        #expect(subscription.spans == [Span("2026-10-01", "2026-11-01")])
        #expect(subscription.access.map(\.cut) == [nil])
    }

    /// A notification without renewal info, which has a status.
    private static func alone(_ date: String, ended: Int? = nil) -> Told {
        var status = RenewalInfo(originalTransactionId: testSubscription)
        (status.signedDate, status.endedStatus) = (day(date), ended)
        return told(date, status)
    }

    @Test("of statuses without renewal info the last one counts, in any order", arguments: Arrival.allCases)
    func aloneInAnyOrder(_ arrival: Arrival) {
        let statuses = [Self.alone("2026-10-10", ended: 2), Self.alone("2026-10-11")]
        let taken = Subscription(arriving: arrival.arrange(statuses))
        let ended = Subscription(arriving: arrival.arrange(statuses + [Self.alone("2026-10-12", ended: 5)]))

        #expect(taken.spans == [Span("2026-10-01", "2026-11-01")])
        #expect(taken.status(at: day("2026-10-12")) == .active)
        #expect(ended.spans == [Span("2026-10-01", "2026-10-12")])
        #expect(ended.status(at: day("2026-10-12")) == .expired)
    }

    @Test("a status alone says nothing of the renewal, and ends a retry that it contradicts")
    func aloneAndRenewal() {
        let failed = intention(autoRenew: true) {
            $0.signedDate = day("2026-10-02")
            $0.isInBillingRetryPeriod = true
            $0.renewalPrice = 9990
            $0.priceIncreaseStatus = 0
        }
        let subscription = Subscription(arriving: [Self.told("2026-10-02", failed), Self.alone("2026-10-11")])

        let renewal = subscription.renewal(at: day("2026-10-12"))

        #expect(renewal.renewalPrice == 9990 && renewal.priceIncreaseStatus == 0 && renewal.autoRenewStatus == true)
        #expect(renewal.isInBillingRetryPeriod == nil)
        #expect(subscription.renewal(at: day("2026-10-10")).isInBillingRetryPeriod == true)
        #expect(subscription.isRenewing(at: day("2026-10-12")) == true)
    }

    @Test("a later report with a reason for the end takes nothing back, and neither does one of a new purchase")
    func stillOver() {
        let repeated = Self.told("2026-10-11", Self.renewal("2026-10-11", intent: 2))
        let again = row("1000000000000002", "2026-10-20", "2026-11-20")
        let bought = Self.told("2026-10-20", Self.renewal("2026-10-20"), again)
        let subscription = Subscription(arriving: [Self.expired("2026-10-10"), repeated, bought])

        #expect(subscription.spans == [Span("2026-10-01", "2026-10-10"), Span("2026-10-20", "2026-11-20")])
    }

    @Test("a one-time purchase is never ended by a status")
    func owned() {
        let unlock = row("1000000000000001", "2026-10-01", "2026-11-01") {
            $0.expiresDate = nil
            $0.type = Transaction.ProductType.nonConsumable.rawValue
        }
        let subscription = Subscription(
            arriving: [Self.told("2026-10-10", Self.renewal("2026-10-10", ended: 2), unlock)])

        #expect(subscription.access.map(\.end) == [.latest])
    }

    // MARK: - Checks and explanations

    @Test("it is checked after five minutes, an hour and a day, until a report does not contradict itself")
    func checks() {
        let facts = SubscriptionFacts(arriving: [Self.expired("2026-10-10")])
        let received = SubscriptionFacts.arrival(0)
        let subscription = Subscription(facts)
        func next(_ last: Instant) -> Int64? {
            subscription.nextCheck(after: last, policy: .standard).map { $0.dueAt.milliseconds - received.milliseconds }
        }

        let first = next(received)
        let second = next(received.advanced(by: .seconds(300)))
        let third = next(received.advanced(by: .seconds(3600)))
        #expect(first == 300_000 && second == 3_600_000 && third == 86_400_000)
        #expect(next(received.advanced(by: .seconds(86_400))) == nil)

        let settled = Subscription(
            arriving: [Self.expired("2026-10-10"), Self.told("2026-10-11", Self.renewal("2026-10-11"))])
        #expect(settled.reports.latestAt == day("2026-10-11"))
        #expect(settled.nextCheck(after: day("2026-10-11"), policy: .standard)?.dueAt == day("2026-11-01T01:00:00Z"))
    }

    @Test("the explanation names the report, and the day of the end")
    func explanation() {
        let facts = SubscriptionFacts(arriving: [Self.failed, Self.over])
        let explained = ExplainedCustomers(
            [facts], links: CustomerLinks([Int64: LinkStatement]()), policy: .standard)

        let explanation = explained.explanation(
            of: monthly, for: CustomerKey(.subscription, testSubscription), at: day("2026-11-10"))

        #expect(!explanation.active)
        #expect(explanation.because.first?.rule == .endedByStatus, "\(explanation.sentence)")
        #expect(explanation.because.first?.positions == [2])
        #expect(explanation.sentence.contains("said on 5 Nov 2026"), "\(explanation.sentence)")
    }
}
