import Encoding
import Subscriptions
import Testing

/// Apple's reason for an end of access is kept with the period that ended after access begins again.
@Suite("Reason of a past churn")
struct ChurnReasonTests {
    private struct Lapse: Equatable {
        let at: Instant
        let reason: ChurnReason?
    }

    private static func lapses(_ told: [Told]) -> [Lapse] {
        Subscription(arriving: told).reportingPeriods.compactMap { period in
            period.churnedAt.map { Lapse(at: $0, reason: period.churnReason) }
        }
    }

    private let expired = intention(autoRenew: false) { $0.expirationIntent = 1 }

    @Test("a failed renewal that is charged later has a billing error as the reason, at the end of access")
    func recovered() {
        for (setting, end) in [(GraceSetting.none, "2018-04-20"), (.days3, "2018-04-23")] {
            for arrival in Arrival.allCases {
                let told = arrival.arrange(BillingIssueExample(setting: setting).recovered)

                #expect(Self.lapses(told) == [Lapse(at: day(end), reason: .stated(.billing))])
            }
        }
    }

    @Test("a switch-off followed by expiry and a new purchase has the customer as the reason")
    func boughtAgain() {
        let example = MagazineExample()
        var told = example.told
        told.insert(Told("2018-04-20", [example.rowA, example.rowB], [expired]), at: 3)

        for arrival in Arrival.allCases {
            #expect(Self.lapses(arrival.arrange(told)) == [Lapse(at: day("2018-04-20"), reason: .stated(.voluntary))])
        }
    }

    @Test("without an intent, a switch-off in force at the end is the reason; later reports do not count")
    func inferred() {
        let example = MagazineExample()
        let late = Told("2018-06-17T00:00:01Z", [example.rowA, example.rowB, example.rowC], [expired])

        #expect(Self.lapses(example.told) == [Lapse(at: day("2018-04-20"), reason: .inferred(.voluntary))])
        #expect(Self.lapses(example.told + [late]) == [Lapse(at: day("2018-04-20"), reason: .inferred(.voluntary))])
    }

    @Test("each intent has a reason, and one that Apple adds later is another reason")
    func intents() {
        let kinds: [ChurnReason.Kind] = [.voluntary, .billing, .price, .unavailable, .other, .other]
        for (intent, kind) in zip(1..., kinds) {
            let expired = intention(autoRenew: false) { $0.expirationIntent = intent }
            let example = MagazineExample()
            let told = Array(example.told[..<3]) + [Told("2018-04-20", [example.rowB], [expired])]

            #expect(Subscription(arriving: told).lastReportingPeriod?.churnReason == .stated(kind))
        }
    }

    @Test("without an intent, a failed renewal is the reason, also when grace ended")
    func failed() {
        for setting in [GraceSetting.none, .days3] {
            let example = BillingIssueExample(setting: setting)
            let failed = intention(autoRenew: true) {
                $0.isInBillingRetryPeriod = true
                $0.gracePeriodExpiresDate = setting.end
            }
            let failure = Told("2018-04-20", [example.rowA, example.rowB], [failed])
            let told = Array(example.untilFailure[..<2]) + [failure]

            for arrival in Arrival.allCases {
                let recovered = arrival.arrange(told + example.recovered[3...])
                let last = Subscription(arriving: arrival.arrange(told)).lastReportingPeriod
                #expect(Self.lapses(recovered).map(\.reason) == [.inferred(.billing)])
                #expect(last?.churnReason == .inferred(.billing))
            }
        }
    }

    @Test("a failure that was recovered is not the reason of a later end")
    func recoveredBefore() {
        let told = BillingIssueExample(setting: .days16).recovered

        #expect(Self.lapses(told) == [])
        #expect(Subscription(arriving: told).lastReportingPeriod?.churnReason == .inferred(.unknown))
    }

    @Test("a failure that was recovered is not the reason either if grace ends with the payment")
    func recoveredInFebruary() {
        let on = intention(autoRenew: true)
        let failed = intention(autoRenew: true) {
            $0.isInBillingRetryPeriod = true
            $0.gracePeriodExpiresDate = day("2018-03-08")
        }
        let rows = [
            row("1000000000000001", "2018-01-08", "2018-02-08"), row("1000000000000002", "2018-02-08", "2018-03-08"),
            row("1000000000000003", "2018-04-08", "2018-05-08"),
        ]
        let told = [
            Told("2018-01-08", [rows[0]], [on]), Told("2018-02-08", [rows[0]], [failed]),
            Told("2018-02-13", Array(rows[..<2]), [on]),
        ]

        for arrival in Arrival.allCases {
            let last = Subscription(arriving: arrival.arrange(told)).lastReportingPeriod
            let again = arrival.arrange(told + [Told("2018-04-08", rows, [on])])
            #expect(last?.churnReason == .inferred(.unknown))
            #expect(last?.payerState == .paying)
            #expect(Self.lapses(again) == [Lapse(at: day("2018-03-08"), reason: .inferred(.unknown))])
        }
    }

    @Test("a refund of the rest of a period is the reason, whatever the intent")
    func refundedInPart() {
        let example = MagazineExample()
        var refunded = example.rowB.refunded("2018-04-05")
        refunded.revocationType = "REFUND_PRORATED"
        var told = example.told
        told.insert(Told("2018-04-21", [example.rowA, refunded], [expired]), at: 3)
        told[4].facts.transactions = [example.rowC]

        #expect(Self.lapses(told) == [Lapse(at: day("2018-04-05"), reason: .stated(.refund))])
    }

    @Test("the reason of one churn does not become the reason of the next")
    func twoLapses() {
        let example = MagazineExample()
        let rowD = row("1000000000000004", "2018-09-01", "2018-10-01")
        var told = example.told
        told.insert(Told("2018-04-20", [example.rowA, example.rowB], [expired]), at: 3)
        // The new purchase has no renewal info, nor does any later event.
        told[4].facts.renewals = []
        told.append(Told("2018-09-01", [rowD], []))

        #expect(
            Self.lapses(told) == [
                Lapse(at: day("2018-04-20"), reason: .stated(.voluntary)),
                Lapse(at: day("2018-07-17"), reason: .inferred(.unknown)),
            ])
    }

    @Test("the reason of the latest end comes from statements made since that stretch of access began")
    func lastEnd() {
        let example = MagazineExample()
        var told = example.told
        told.insert(Told("2018-04-20", [example.rowA, example.rowB], [expired]), at: 3)
        let churnedOnce = Subscription(arriving: Array(told[..<4])).lastReportingPeriod
        #expect(churnedOnce?.churnReason == .stated(.voluntary))
        #expect(churnedOnce?.firstStart == example.rowA.purchaseDate)

        // The new purchase has no renewal info.
        told[4].facts.renewals = []
        told = Array(told[..<5])
        #expect(Subscription(arriving: told).lastReportingPeriod?.period.start == day("2018-06-17"))
        for arrival in Arrival.allCases {
            let last = Subscription(arriving: arrival.arrange(told)).lastReportingPeriod
            #expect(last?.churnReason == .inferred(.unknown))
            #expect(last?.firstStart == example.rowA.purchaseDate)
        }

        told.append(Told("2018-07-17", [example.rowC], [expired]))
        for arrival in Arrival.allCases {
            let last = Subscription(arriving: arrival.arrange(told)).lastReportingPeriod
            #expect(last?.churnReason == .stated(.voluntary))
        }
    }
}
