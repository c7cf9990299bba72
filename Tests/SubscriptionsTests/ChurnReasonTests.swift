import Encoding
import Subscriptions
import Testing

/// Apple's reason for an end of access is kept with the period that ended after access begins again.
@Suite("Reason of a past churn")
struct ChurnReasonTests {
    private struct Lapse: Equatable {
        let at: Instant
        let intent: Int?
    }

    private static func lapses(_ told: [Told]) -> [Lapse] {
        Subscription(arriving: told).reportingPeriods.compactMap { period in
            period.churnedAt.map { Lapse(at: $0, intent: period.expirationIntent) }
        }
    }

    private let expired = intention(autoRenew: false) { $0.expirationIntent = 1 }

    @Test("a failed renewal that is charged later has a billing error as the reason, at the end of access")
    func recovered() {
        for (setting, end) in [(GraceSetting.none, "2018-04-20"), (.days3, "2018-04-23")] {
            for arrival in Arrival.allCases {
                let told = arrival.arrange(BillingIssueExample(setting: setting).recovered)

                #expect(Self.lapses(told) == [Lapse(at: day(end), intent: 2)])
            }
        }
    }

    @Test("a switch-off followed by expiry and a new purchase has the customer as the reason")
    func boughtAgain() {
        let example = MagazineExample()
        var told = example.told
        told.insert(Told("2018-04-20", [example.rowA, example.rowB], [expired]), at: 3)

        for arrival in Arrival.allCases {
            #expect(Self.lapses(arrival.arrange(told)) == [Lapse(at: day("2018-04-20"), intent: 1)])
        }
    }

    @Test("the reason is null if none was reported before access began again")
    func unsaid() {
        let example = MagazineExample()
        let late = Told("2018-06-17T00:00:01Z", [example.rowA, example.rowB, example.rowC], [expired])

        #expect(Self.lapses(example.told) == [Lapse(at: day("2018-04-20"), intent: nil)])
        #expect(Self.lapses(example.told + [late]) == [Lapse(at: day("2018-04-20"), intent: nil)])
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
                Lapse(at: day("2018-04-20"), intent: 1), Lapse(at: day("2018-07-17"), intent: nil),
            ])
    }

    @Test("the reason of the latest end comes from statements made since that stretch of access began")
    func lastEnd() {
        let example = MagazineExample()
        var told = example.told
        told.insert(Told("2018-04-20", [example.rowA, example.rowB], [expired]), at: 3)
        let churnedOnce = Subscription(arriving: Array(told[..<4])).lastReportingPeriod
        #expect(churnedOnce?.expirationIntent == 1)
        #expect(churnedOnce?.firstStart == example.rowA.purchaseDate)

        // The new purchase has no renewal info.
        told[4].facts.renewals = []
        told = Array(told[..<5])
        #expect(Subscription(arriving: told).lastReportingPeriod?.period.start == day("2018-06-17"))
        for arrival in Arrival.allCases {
            let last = Subscription(arriving: arrival.arrange(told)).lastReportingPeriod
            #expect(last?.expirationIntent == nil)
            #expect(last?.firstStart == example.rowA.purchaseDate)
        }

        told.append(Told("2018-07-17", [example.rowC], [expired]))
        for arrival in Arrival.allCases {
            #expect(Subscription(arriving: arrival.arrange(told)).lastReportingPeriod?.expirationIntent == 1)
        }
    }
}
