import Encoding
import Subscriptions
import TestSupport
import Testing

@Suite("Grace ends where another plan of the group begins")
struct OtherPlanTests {
    private func failing(_ end: String, change: (inout RenewalInfo) -> Void = { _ in }) -> RenewalInfo {
        intention(autoRenew: true) {
            $0.isInBillingRetryPeriod = true
            $0.gracePeriodExpiresDate = day(end)
            change(&$0)
        }
    }

    @Test("grace ends where another plan begins, however it is reported", arguments: ["PURCHASE", "RENEWAL", nil])
    func otherPlan(_ reason: String?) {
        let old = row("1000000000000001", "2026-10-01", "2026-11-01", product: premium)
        let new = row("1000000000000002", "2026-11-04", "2026-12-04") {
            $0.transactionReason = reason
            $0.signedDate = reason == nil ? nil : day("2026-11-04")
        }
        let subscription = Subscription(
            arriving: [
                Told("2026-10-01", [old]), Told("2026-11-01", [old], [failing("2026-11-17")]),
                Told("2026-11-04", [new], [intention(autoRenew: true)]),
            ])

        #expect(subscription.period(at: day("2026-11-03"))?.productId == premium)
        #expect(
            subscription.access.filter { $0.contains(day("2026-11-05")) }.map(\.productId) == [monthly])
        #expect(subscription.access.map(\.cut) == [nil, .upgraded, nil])
    }

    @Test("a recovery of the same plan cuts no grace")
    func recovery() {
        let old = row("1000000000000001", "2026-10-01", "2026-11-01")
        let new = row("1000000000000002", "2026-11-04", "2026-12-04")
        let subscription = Subscription(
            arriving: [Told("2026-11-01", [old], [failing("2026-11-17")]), Told("2026-11-04", [new])])

        #expect(subscription.access.allSatisfy { $0.cut == nil })
    }
}
