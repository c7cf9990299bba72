import Encoding
import Subscriptions
import Testing

/// What Apple said about an end of access is kept with the period that ended, once access has begun again.
@Suite("Why access ended, where it began again")
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

    @Test("a renewal failed and was charged later: a billing error, at the end of what had given access")
    func recovered() {
        for (setting, end) in [(GraceSetting.none, "2018-04-20"), (.days3, "2018-04-23")] {
            for arrival in Arrival.allCases {
                let told = arrival.arrange(BillingIssueExample(setting: setting).recovered)

                #expect(Self.lapses(told) == [Lapse(at: day(end), intent: 2)])
            }
        }
    }

    @Test("switched off, expired and bought again: by the customer")
    func boughtAgain() {
        let example = MagazineExample()
        var told = example.told
        told.insert(Told("2018-04-20", [example.rowA, example.rowB], [expired]), at: 3)

        for arrival in Arrival.allCases {
            #expect(Self.lapses(arrival.arrange(told)) == [Lapse(at: day("2018-04-20"), intent: 1)])
        }
    }

    @Test("nothing was said, or only when it had begun again: no reason")
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
        // Nothing was said about renewal when it was bought again, nor later.
        told[4].facts.renewals = []
        told.append(Told("2018-09-01", [rowD], []))

        #expect(
            Self.lapses(told) == [
                Lapse(at: day("2018-04-20"), intent: 1), Lapse(at: day("2018-07-17"), intent: nil),
            ])
    }

    @Test("of the last end only what was said since that stretch of access began")
    func lastEnd() {
        let example = MagazineExample()
        var told = example.told
        told.insert(Told("2018-04-20", [example.rowA, example.rowB], [expired]), at: 3)
        let churnedOnce = Subscription(arriving: Array(told[..<4])).lastReportingPeriod
        #expect(churnedOnce?.expirationIntent == 1)
        #expect(churnedOnce?.firstStart == example.rowA.purchaseDate)

        // Nothing was said about renewal when it was bought again.
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
