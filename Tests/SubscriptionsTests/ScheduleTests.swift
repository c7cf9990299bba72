import Encoding
import Subscriptions
import TestSupport
import Testing

extension Subscription {
    /// The next check if nothing has been asked yet.
    fileprivate func nextCheck(_ policy: CheckPolicy = .standard) -> StoreCheck? {
        nextCheck(after: reports.latestAt, policy: policy)
    }

    /// All checks that follow, if each finds what is known already.
    fileprivate func checks(after last: Instant?, policy: CheckPolicy = .standard) -> [StoreCheck] {
        var checks: [StoreCheck] = []
        var last = last
        while checks.count < 5000, let next = nextCheck(after: last, policy: policy) {
            checks.append(next)
            last = next.dueAt
        }
        return checks
    }
}

private func check(_ date: String, _ reason: StoreCheck.Reason) -> StoreCheck {
    StoreCheck(dueAt: day(date), reason: reason)
}

@Suite("The schedule of checks")
struct ScheduleTests {
    private let sixHours = CheckPolicy(lead: "PT6H")!
    private let on = intention(autoRenew: true)
    private let rowA = row("1000000000000001", "2018-02-20", "2018-03-20")
    private let rowB = row("1000000000000002", "2018-03-20", "2018-04-20")

    @Test("a renewal is looked for an hour after each expiry (case 1)")
    func renewal() {
        let bought = Subscription(arriving: [Told("2018-02-20", [rowA], [on])])
        let renewed = Subscription(
            arriving: [Told("2018-02-20", [rowA], [on]), Told("2018-03-20T01:00:00Z", [rowA, rowB], [on])])

        #expect(bought.nextCheck() == check("2018-03-20T01:00:00Z", .renewal))
        #expect(renewed.nextCheck() == check("2018-04-20T01:00:00Z", .renewal))
    }

    @Test("without renewal info, a renewal is looked for, too")
    func unknownRenewal() {
        let subscription = Subscription(arriving: [Told("2018-02-20", [rowA])])

        #expect(subscription.nextCheck() == check("2018-03-20T01:00:00Z", .renewal))
        #expect(
            subscription.nextCheck(after: day("2018-03-20T01:00:00Z"), policy: .standard)
                == check("2018-03-20T01:15:00Z", .retry))
    }

    @Test("an answer without a renewal, a failure or an end is late: it is asked for again soon, and then less often")
    func late() {
        let bought = Subscription(arriving: [Told("2018-02-20", [rowA], [on])])
        let told = Subscription(
            arriving: [Told("2018-02-20", [rowA], [on]), Told("2018-03-20T00:20:00Z", [rowA], [on])])

        #expect(
            bought.checks(after: bought.reports.latestAt).prefix(7) == [
                check("2018-03-20T01:00:00Z", .renewal), check("2018-03-20T01:15:00Z", .retry),
                check("2018-03-20T02:15:00Z", .retry), check("2018-03-20T08:15:00Z", .retry),
                check("2018-03-20T14:15:00Z", .retry), check("2018-03-20T20:15:00Z", .retry),
                check("2018-03-21T02:15:00Z", .retry),
            ])
        #expect(told.nextCheck() == check("2018-03-20T01:00:00Z", .retry))
    }

    @Test("a failed renewal is checked less and less often, for 60 days (case 2)")
    func retry() {
        let failed = Subscription(arriving: BillingIssueExample(setting: .none).untilFailure)

        let checks = failed.checks(after: failed.reports.latestAt)

        #expect(checks.allSatisfy { $0.reason == .retry })
        #expect(checks.first?.dueAt == day("2018-04-20T03:00:00Z"))
        #expect(checks[7].dueAt == day("2018-04-21T00:00:00Z"))
        #expect(checks[8].dueAt == day("2018-04-21T12:00:00Z"))
        #expect(checks[19].dueAt == day("2018-04-27T00:00:00Z"))
        #expect(checks[20].dueAt == day("2018-04-28T00:00:00Z"))
        // The App Store gives up on Jun 19.
        #expect(checks.last?.dueAt == day("2018-06-19"))
        #expect(checks.count == 73)
        #expect(failed.nextCheck(after: day("2018-06-18T00:00:00.001Z"), policy: .standard) == nil)
    }

    @Test("without signed reports, grace changes nothing: access ends by the clock", arguments: GraceSetting.allCases)
    func grace(_ setting: GraceSetting) {
        let failed = Subscription(arriving: BillingIssueExample(setting: setting).untilFailure)
        let plain = Subscription(arriving: BillingIssueExample(setting: .none).untilFailure)

        #expect(failed.checks(after: failed.reports.latestAt) == plain.checks(after: plain.reports.latestAt))
    }

    @Test("of signed reports, a failed payment is looked at an hour after grace, then every six hours, and daily")
    func signedRetry() {
        let signedRow = row("1000000000000001", "2018-02-20", "2018-03-20") {
            $0.signedDate = day("2018-03-20T00:01:00Z")
        }
        func failed(graceUntil: Instant?) -> Subscription {
            let renewal = intention(autoRenew: true) {
                $0.isInBillingRetryPeriod = true
                $0.gracePeriodExpiresDate = graceUntil
                $0.signedDate = day("2018-03-20T00:01:00Z")
            }
            return Subscription(arriving: [Told("2018-03-20T00:01:00Z", [signedRow], [renewal])])
        }
        let plain = failed(graceUntil: nil)
        let graced = failed(graceUntil: day("2018-04-05"))

        let checks = plain.checks(after: plain.reports.latestAt)
        #expect(
            checks.prefix(2) == [
                check("2018-03-20T06:01:00Z", .retry), check("2018-03-20T12:01:00Z", .retry),
            ])
        #expect(checks[11].dueAt == day("2018-03-23T00:01:00Z"))
        #expect(checks[12].dueAt == day("2018-03-24T00:01:00Z"))
        #expect(checks.count == 68)
        let later = graced.checks(after: graced.reports.latestAt)
        #expect(
            later.prefix(2) == [check("2018-04-05T01:00:00Z", .retry), check("2018-04-05T07:00:00Z", .retry)])
        #expect(later.last.map { $0.dueAt <= day("2018-05-19") } == true)
    }

    @Test("a subscription that was switched off is looked at once more, at its end (case 3)")
    func switchedOff() {
        let off = intention(autoRenew: false) { $0.autoRenewStatusChangeDate = day("2018-04-10") }
        let told = [Told("2018-03-20", [rowA, rowB], [on]), Told("2018-04-10", [rowA, rowB], [off])]
        let expired = intention(autoRenew: false) {
            $0.expirationIntent = 1
            $0.isInBillingRetryPeriod = false
        }

        let before = Subscription(arriving: told)
        let after = Subscription(arriving: told + [Told("2018-04-20T01:00:00Z", [rowA, rowB], [expired])])

        #expect(before.checks(after: before.reports.latestAt) == [check("2018-04-20T01:00:00Z", .end)])
        #expect(after.nextCheck() == nil)
    }

    @Test("a retry that Apple gave up, or that ended because renewal was switched off, is not checked again")
    func retryOver() {
        let example = BillingIssueExample(setting: .days16)
        let off = intention(autoRenew: false) {
            $0.isInBillingRetryPeriod = true
            $0.expirationIntent = 2
        }
        let refused = intention(autoRenew: nil) { $0.expirationIntent = 3 }

        #expect(Subscription(arriving: example.exhausted(graceStays: true)).nextCheck() == nil)
        for ended in [off, refused] {
            let told = example.untilFailure + [Told("2018-04-25", [example.rowB], [ended])]
            #expect(Subscription(arriving: told).nextCheck() == nil)
        }
    }

    @Test("an early charge moves the check to the end of the new period")
    func earlyCharge() {
        let told = [Told("2018-02-20", [rowA], [on]), Told("2018-03-19T14:00:00Z", [rowA, rowB], [on])]

        #expect(Subscription(arriving: told).nextCheck() == check("2018-04-20T01:00:00Z", .renewal))
    }

    @Test("a later report of the renewal or its failure replaces the check")
    func reportReplacesCheck() {
        let started = [Told("2018-02-20", [rowA], [on])]
        let failed = BillingIssueExample(setting: .none).failed

        let renewed = Subscription(arriving: started + [Told("2018-03-20T00:10:00Z", [rowA, rowB], [on])])
        let retried = Subscription(arriving: started + [Told("2018-03-20T00:10:00Z", [rowA], [failed])])

        #expect(renewed.nextCheck() == check("2018-04-20T01:00:00Z", .renewal))
        #expect(retried.nextCheck() == check("2018-03-20T03:10:00Z", .retry))
    }

    @Test("a lead adds one check before the end, unless renewal is off or something signed is known")
    func lead() {
        let bought = Subscription(arriving: [Told("2018-02-20", [rowA], [on])])
        let off = Subscription(arriving: [Told("2018-02-20", [rowA], [intention(autoRenew: false)])])
        let signed = Subscription(
            arriving: [Told("2018-02-20", [rowA], [on]), Told("2018-02-21", [], [signedOn])])
        let late = Subscription(arriving: [Told("2018-03-19T18:00:00Z", [rowA], [on])])

        #expect(
            bought.checks(after: bought.reports.latestAt, policy: sixHours).prefix(3) == [
                check("2018-03-19T18:00:00Z", .renewal), check("2018-03-20T01:00:00Z", .renewal),
                check("2018-03-20T01:15:00Z", .retry),
            ])
        #expect(off.nextCheck(sixHours) == check("2018-03-20T01:00:00Z", .end))
        #expect(signed.nextCheck(sixHours) == check("2018-03-20T01:00:00Z", .renewal))
        #expect(late.nextCheck(sixHours) == check("2018-03-20T01:00:00Z", .renewal))
    }

    private var signedOn: RenewalInfo {
        intention(autoRenew: true) { $0.signedDate = day("2018-02-21") }
    }

    @Test("refunded, revoked and replaced periods do not count")
    func takenBack() {
        let shared = row("1000000000000001", "2018-02-20", "2018-03-20") {
            $0.inAppOwnershipType = "FAMILY_SHARED"
            $0.revocationDate = day("2018-03-01")
        }
        let replaced = row("1000000000000001", "2018-02-20", "2019-02-20") {
            $0.isUpgraded = true
            $0.revocationDate = day("2018-03-01")
        }
        let upgrade = row("1000000000000002", "2018-03-01", "2018-04-01", product: premium)

        #expect(Subscription(arriving: [Told("2018-03-01", [rowA.refunded("2018-03-01")], [on])]).nextCheck() == nil)
        #expect(Subscription(arriving: [Told("2018-03-01", [shared], [on])]).nextCheck() == nil)
        #expect(
            Subscription(arriving: [Told("2018-03-01", [replaced, upgrade], [on])]).nextCheck()
                == check("2018-04-01T01:00:00Z", .renewal))
        #expect(Subscription(arriving: []).nextCheck() == nil)
    }

    @Test("a reversed refund is checked again")
    func reversal() {
        let refunded = Told("2018-03-01", [rowA.refunded("2018-03-01")], [on])

        #expect(
            Subscription(arriving: [refunded, Told("2018-03-05", [rowA], [on])]).nextCheck()
                == check("2018-03-20T01:00:00Z", .renewal))
    }

    @Test("one-time purchases and non-renewing subscriptions are not checked")
    func oneTime() {
        let owned = row("1000000000000001", "2018-02-20", "2018-03-20") {
            $0.expiresDate = nil
            $0.type = Transaction.ProductType.nonConsumable.rawValue
        }
        let season = row("1000000000000001", "2018-02-20", "2018-03-20") {
            $0.type = Transaction.ProductType.nonRenewing.rawValue
        }

        for transaction in [owned, season] {
            #expect(Subscription(arriving: [Told("2018-02-20", [transaction])]).nextCheck() == nil)
        }
    }

    @Test("months of the sandbox last five minutes, and their checks end after a day")
    func sandbox() {
        let short = row("1000000000000001", day("2018-02-20T12:00:00Z"), day("2018-02-20T12:05:00Z"))
        let subscription = Subscription(arriving: [Told("2018-02-20T12:00:00Z", [short], [on])])

        let checks = subscription.checks(after: subscription.reports.latestAt, policy: sixHours)

        #expect(checks.prefix(2) == [check("2018-02-20T12:07:00Z", .renewal), check("2018-02-20T12:08:15Z", .retry)])
        #expect(checks.allSatisfy { $0.dueAt <= day("2018-02-21T12:05:00Z") })
        // A week lasts three minutes, and a quarter of it less than the shortest step.
        let week = row("1000000000000001", day("2018-02-20T12:00:00Z"), day("2018-02-20T12:03:00Z"))
        let weekly = Subscription(arriving: [Told("2018-02-20T12:03:00Z", [week], [on])])
        #expect(weekly.nextCheck() == check("2018-02-20T12:04:00Z", .retry))
    }

    @Test("of two copies of the last period, the restored one does not shorten it")
    func restored() {
        let copy = row("2000000000000001", day("2018-03-19T23:00:00Z"), day("2018-03-20")) {
            $0.webOrderLineItemId = rowA.webOrderLineItemId
        }

        #expect(
            Subscription(arriving: [Told("2018-03-19T23:00:00Z", [rowA, copy], [on])]).nextCheck()
                == check("2018-03-20T01:00:00Z", .renewal))
    }

    // MARK: Generated subscriptions

    private func stories(_ count: Int, from first: Int, _ check: (Story, inout SeededGenerator) -> String?) {
        var failures: [String] = []
        for number in first..<first + count {
            var generator = TestSeed.generator(-number & 0xFFFF_FFFF)
            if let failure = check(Story(TestSeed.generator(number)), &generator) {
                failures.append("story \(number): \(failure)")
            }
        }
        let message = "seed \(TestSeed.value), \(failures.count) of \(count): \(failures.prefix(3))"
        #expect(failures.isEmpty, "\(message)")
    }

    @Test("neither the order nor the repetition of reports changes the schedule")
    func orderAndRepeats() {
        stories(1000, from: 50_000) { story, generator in
            let deliveries = story.told.enumerated().map { index, told in
                Delivery(told: told, receivedAt: SubscriptionFacts.arrival(index), position: Int64(index + 1))
            }
            var inOrder = SubscriptionFacts(originalTransactionId: testSubscription)
            var shuffled = inOrder
            deliveries.forEach { inOrder.add($0) }
            (deliveries + deliveries).shuffled(using: &generator).forEach { shuffled.add($0) }
            for policy in [CheckPolicy.standard, sixHours] {
                let (one, other) = (Subscription(inOrder).nextCheck(policy), Subscription(shuffled).nextCheck(policy))
                if one != other { return "\(String(describing: one)) or \(String(describing: other))" }
            }
            return nil
        }
    }

    @Test("a check is later than the last report or check, and a period has at most 74")
    func boundedChecks() {
        stories(1000, from: 60_000) { story, generator in
            let subscription = Subscription(arriving: story.told)
            let policy: CheckPolicy = generator.chance(50) ? sixHours : .standard
            for last in [subscription.reports.latestAt, nil, story.probes.randomElement(using: &generator)] {
                let checks = subscription.checks(after: last, policy: policy)
                let dates = [last ?? .earliest] + checks.map(\.dueAt)
                if zip(dates, dates.dropFirst()).contains(where: { $0 >= $1 }) { return "\(dates) is not ascending" }
                // A lead, the end, and 72 retries.
                if checks.count > 74 { return "\(checks.count) checks after \(String(describing: last))" }
            }
            return nil
        }
    }

    @Test("a subscription that renews on time is never checked before its end, nor daily")
    func renewing() {
        var told: [Told] = []
        var start = day("2018-01-01")
        for number in 1...24 {
            let end = start.advanced(byMilliseconds: 30 * 86_400_000)
            told.append(Told(start, [row(String(1_000_000_000_000_000 + number), start, end)], [on]))

            let next = Subscription(arriving: told).nextCheck()

            #expect(next == StoreCheck(dueAt: end.advanced(byMilliseconds: 3_600_000), reason: .renewal))
            start = end
        }
    }
}

@Suite("Check policy")
struct CheckPolicyTests {
    @Test("a lead is a duration of at most 24 hours")
    func lead() {
        #expect(CheckPolicy(lead: "PT6H")?.leadMinutes == 360)
        #expect(CheckPolicy(lead: "PT90M")?.leadMinutes == 90)
        #expect(CheckPolicy(lead: "PT1H30M")?.leadMinutes == 90)
        #expect(CheckPolicy(lead: "PT24H")?.leadMinutes == 1440)
        for wrong in ["", "PT", "PT0H", "PT24H1M", "PT25H", "P1D", "6H", "PT6", "PT-6H", "PT6H ", "PT1M1H", "pt6h"] {
            #expect(CheckPolicy(lead: wrong) == nil, "\(wrong)")
        }
    }

    @Test("a recorded lead is read back, and none is recorded as an empty text")
    func recorded() {
        #expect(CheckPolicy(recorded: CheckPolicy.standard.lead) == .standard)
        #expect(CheckPolicy(recorded: "PT6H")?.lead == "PT6H")
        #expect(CheckPolicy(recorded: "soon") == nil)
    }
}
