import Encoding
import Subscriptions
import TestSupport
import Testing

@Suite("A commitment of twelve months that is billed monthly")
struct CommitmentTests {
    private static func info(_ members: String) -> CanonicalJSON? {
        (try? JSONDocument(Array("{\"commitmentInfo\":{\(members)}}".utf8)).root).map { CanonicalJSON($0) }
    }

    /// A month of the commitment, signed.
    private static func month(
        _ number: Int, _ start: String, _ end: String, commitmentEnd: String? = "2027-10-01",
        change: (inout Transaction) -> Void = { _ in }
    ) -> Transaction {
        row("100000000000000\(number)", start, end) {
            $0.billingPlanType = "MONTHLY"
            $0.transactionReason = number == 1 ? "PURCHASE" : "RENEWAL"
            $0.signedDate = $0.purchaseDate
            $0.additional = commitmentEnd.flatMap { info("\"commitmentExpiresDate\":\(day($0).milliseconds)") }
            change(&$0)
        }
    }

    /// Signed renewal info.
    private static func renewal(
        _ at: String, commitment: String?, autoRenew: Bool = true, end: String? = "2027-10-01",
        change: (inout RenewalInfo) -> Void = { _ in }
    ) -> RenewalInfo {
        intention(autoRenew: autoRenew) {
            var members: [String] = []
            if let commitment { members.append("\"commitmentAutoRenewStatus\":\(commitment)") }
            if let end { members.append("\"commitmentRenewalDate\":\(day(end).milliseconds)") }
            $0.additional = info(members.joined(separator: ","))
            $0.signedDate = day(at)
            change(&$0)
        }
    }

    private static func told(_ at: String, _ transactions: [Transaction], _ renewals: [RenewalInfo] = []) -> Told {
        Told(at, transactions, renewals)
    }

    private static let first = month(1, "2026-10-01", "2026-11-01")
    private static let second = month(2, "2026-11-01", "2026-12-01")
    private static let bought = told("2026-10-01", [first], [renewal("2026-10-01", commitment: "1")])
    private static let cancelled = told("2026-10-05", [first], [renewal("2026-10-05", commitment: "0")])
    private static let renewed = told("2026-11-01", [second], [renewal("2026-11-01", commitment: "0")])

    // MARK: Cancellation

    @Test(
        "that is cancelled is active and will end, in any order of arrival, and its months go on",
        arguments: Arrival.allCases)
    func cancelled(_ arrival: Arrival) {
        let subscription = Subscription(arriving: arrival.arrange([Self.bought, Self.cancelled, Self.renewed]))

        #expect(subscription.status(at: day("2026-10-04")) == .active)
        #expect(subscription.status(at: day("2026-10-05")) == .activeWillEnd)
        #expect(subscription.status(at: day("2026-11-15")) == .activeWillEnd)
        #expect(subscription.isRenewing(at: .latest) == false)
        #expect(subscription.renewal(at: .latest).autoRenewStatus == true)
        #expect(subscription.reportingPeriods.allSatisfy { $0.churnedAt == nil })
    }

    @Test("that is cancelled remains so after a status without renewal info")
    func statusAlone() {
        var status = RenewalInfo(originalTransactionId: testSubscription)
        status.signedDate = day("2026-10-06")
        let alone = Self.told("2026-10-06", [Self.first], [status])
        let subscription = Subscription(arriving: [Self.bought, Self.cancelled, alone])

        #expect(subscription.status(at: day("2026-10-07")) == .activeWillEnd)
    }

    @Test("that is cancelled and taken up again goes on, whichever report arrives last", arguments: Arrival.allCases)
    func takenUpAgain(_ arrival: Arrival) {
        let again = Self.told("2026-10-07", [Self.first], [Self.renewal("2026-10-07", commitment: "1")])
        let subscription = Subscription(arriving: arrival.arrange([Self.bought, Self.cancelled, again]))

        #expect(subscription.status(at: day("2026-10-06")) == .activeWillEnd)
        #expect(subscription.status(at: day("2026-10-08")) == .active)
    }

    @Test(
        "is not cancelled by what does not say so",
        arguments: [nil, "1", "2", "null", "\"soon\"", "{}"] as [String?])
    func notCancelled(_ status: String?) {
        let other = Self.told("2026-10-05", [Self.first], [Self.renewal("2026-10-05", commitment: status)])

        #expect(Subscription(arriving: [Self.bought, other]).status(at: day("2026-10-06")) == .active)
    }

    @Test("is cancelled by each form of the value", arguments: ["0", "\"0\"", "false"])
    func forms(_ status: String) {
        let other = Self.told("2026-10-05", [Self.first], [Self.renewal("2026-10-05", commitment: status)])

        #expect(Subscription(arriving: [Self.bought, other]).status(at: day("2026-10-06")) == .activeWillEnd)
    }

    @Test("publishes that renewal was switched off, once")
    func change() {
        let before = SubscriptionSnapshot(Subscription(arriving: [Self.bought]))
        let after = SubscriptionSnapshot(Subscription(arriving: [Self.bought, Self.cancelled]))
        let later = SubscriptionSnapshot(Subscription(arriving: [Self.bought, Self.cancelled, Self.cancelled]))

        let changes = after.changes(from: before, at: day("2026-10-05"), cause: .event(position: 2))
        #expect(changes.map(\.kind) == [.renewalSwitched])
        #expect(changes.first?.autoRenewStatus == false)
        #expect(later.changes(from: after, at: day("2026-10-06"), cause: .event(position: 3)).isEmpty)
    }

    @Test("stays cancelled when a receipt, which says nothing about it, is the last report")
    func receipt() {
        let unsigned = row(Self.first.transactionId, "2026-10-01", "2026-11-01")
        let received = Told("2026-10-20", [unsigned], [intention(autoRenew: true)])
        let subscription = Subscription(arriving: [Self.bought, Self.cancelled, received])

        #expect(subscription.status(at: day("2026-10-25")) == .activeWillEnd)
        // After the commitment, a receipt is about what was bought since.
        let again = row("1000000000000009", "2027-11-01", "2027-12-01")
        let bought = Told("2027-11-01", [again], [intention(autoRenew: true)])
        #expect(
            Subscription(arriving: [Self.bought, Self.cancelled, bought]).status(at: day("2027-11-15")) == .active)
    }

    @Test("is checked at the end of each month, and ends with the last")
    func checks() {
        let subscription = Subscription(arriving: [Self.bought, Self.cancelled])
        let last = Self.month(2, "2026-11-01", "2026-12-01", commitmentEnd: "2026-12-01")
        let ending = Subscription(
            arriving: [
                Self.bought, Self.cancelled,
                Self.told("2026-11-01", [last], [Self.renewal("2026-11-01", commitment: "0", end: "2026-12-01")]),
            ])

        #expect(subscription.nextCheck(after: day("2026-10-05"), policy: .standard)?.reason == .renewal)
        #expect(ending.nextCheck(after: day("2026-11-05"), policy: .standard)?.reason == .end)
        #expect(ending.nextCheck(after: day("2026-12-02"), policy: .standard) == nil)
        #expect(ending.lastReportingPeriod?.churnReason == .inferred(.voluntary))
    }

    @Test("whose end is nowhere stated is still charged, as far as anybody knows")
    func unknownEnd() {
        let month = Self.month(1, "2026-10-01", "2026-11-01", commitmentEnd: nil)
        let subscription = Subscription(
            arriving: [Self.told("2026-10-05", [month], [Self.renewal("2026-10-05", commitment: "0", end: nil)])])

        #expect(subscription.status(at: day("2026-10-06")) == .activeWillEnd)
        #expect(subscription.nextCheck(after: day("2026-10-05"), policy: .standard)?.reason == .renewal)
        #expect(subscription.nextChange(after: day("2026-10-06"))?.renews == true)
        #expect(subscription.plannedEnd(at: day("2026-10-06")) == nil)
        #expect(subscription.commitmentEnd(after: day("2026-11-01")) == .latest)
        #expect(subscription.lastReportingPeriod?.churnReason == .inferred(.unknown))
    }

    @Test(
        "that is cancelled is charged at the end of the month, and ends with its last one",
        arguments: Arrival.allCases)
    func lastMonth(_ arrival: Arrival) throws {
        let last = Self.told(
            "2027-09-01", [Self.month(9, "2027-09-01", "2027-10-01")], [Self.renewal("2027-09-01", commitment: "0")])
        let subscription = Subscription(arriving: arrival.arrange([Self.bought, Self.cancelled, last]))

        let before = try #require(subscription.nextChange(after: day("2026-10-04")))
        #expect(before.renews)
        #expect(subscription.plannedEnd(at: day("2026-10-04")) == nil)
        let charged = try #require(subscription.nextChange(after: day("2026-10-05")))
        #expect(charged.at == day("2026-11-01"))
        #expect(charged.to == .expired)
        #expect(charged.renews)
        #expect(subscription.plannedEnd(at: day("2026-10-05")) == day("2027-10-01"))
        #expect(subscription.commitmentEnd(after: day("2026-11-01")) == day("2027-10-01"))
        let end = try #require(subscription.nextChange(after: day("2027-09-02")))
        #expect(end.at == day("2027-10-01"))
        #expect(!end.renews)
        #expect(subscription.plannedEnd(at: day("2027-09-02")) == day("2027-10-01"))
        #expect(subscription.commitmentEnd(after: day("2027-10-01")) == nil)
        #expect(subscription.plannedEnd(at: day("2027-10-01")) == nil)
    }

    @Test("is explained as renewed by its months, with its end")
    func explanation() {
        let explained = ExplainedCustomers(
            [SubscriptionFacts(arriving: [Self.bought, Self.cancelled])],
            links: CustomerLinks([Int64: LinkStatement]()), policy: .standard)
        let customer = CustomerKey(.subscription, testSubscription)
        let explanation = explained.explanation(of: monthly, for: customer, at: day("2026-10-10"))

        #expect(
            explanation.couldChange.map(\.text) == [
                "Renews; access ends if it is not renewed, and at the latest with the commitment on "
                    + "1 Oct 2027 00:00:00 UTC"
            ])
        let history = explained.lines(of: customer).flatMap { $0.chronicle(through: .latest) }
        #expect(
            history.map(\.what).contains("renewal switched off, with effect from the end of the commitment"))
    }

    // MARK: Retry

    private static let retrying = renewal("2026-12-01", commitment: "1") { $0.isInBillingRetryPeriod = true }
    private static let failed = told("2026-12-01", [second], [retrying])

    @Test(
        "is retried for 90 days, and any other plan for 60", arguments: [("MONTHLY", true), ("BILLED_UPFRONT", false)])
    func retries(_ plan: String, _ isLong: Bool) {
        let month = Self.month(2, "2026-11-01", "2026-12-01") { $0.billingPlanType = plan }
        let recovered = Self.month(3, "2027-02-15", "2027-03-15") { $0.billingPlanType = plan }
        let failed = Self.told("2026-12-01", [month], [Self.retrying])
        for told in [[failed], [failed, failed], [Self.bought, failed], [failed, Self.bought]] {
            let subscription = Subscription(arriving: told)
            #expect(subscription.status(at: day("2027-01-29")) == .retry)
            #expect(subscription.status(at: day("2027-01-30")) == (isLong ? .retry : .expired))
            #expect(subscription.status(at: day("2027-02-28")) == (isLong ? .retry : .expired))
            #expect(subscription.status(at: day("2027-03-01")) == .expired)
            #expect((subscription.nextCheck(after: day("2027-02-15"), policy: .standard) != nil) == isLong)
        }
        let late = Self.told("2027-02-15", [recovered])
        for told in [[failed, late], [late, failed], [late, failed, late]] {
            let periods = Subscription(arriving: told).reportingPeriods
            #expect(periods.last?.movement == (isLong ? .recovered : .resubscribed))
            #expect(periods.last?.previousEnd == day("2026-12-01"))
        }
    }

    @Test("is retried for 60 days if only receipts are known, which do not name the plan")
    func unknownPlan() {
        let month = row("1000000000000002", "2026-11-01", "2026-12-01")
        let subscription = Subscription(
            arriving: [
                Told("2026-12-01", [month], [intention(autoRenew: true) { $0.isInBillingRetryPeriod = true }])
            ])

        #expect(subscription.status(at: day("2027-01-29")) == .retry)
        #expect(subscription.status(at: day("2027-01-30")) == .expired)
    }

    @Test("that was cancelled is retried within the commitment, and not after its last month")
    func cancelledAndRetried() {
        let retrying = Self.renewal("2026-12-01", commitment: "0") { $0.isInBillingRetryPeriod = true }
        let last = Self.month(2, "2026-11-01", "2026-12-01", commitmentEnd: "2026-12-01")

        #expect(
            Subscription(arriving: [Self.told("2026-12-01", [Self.second], [retrying])])
                .status(at: day("2027-02-20")) == .retry)
        #expect(
            Subscription(arriving: [Self.told("2026-12-01", [last], [retrying])]).status(at: day("2026-12-20"))
                == .expired)
    }
}
