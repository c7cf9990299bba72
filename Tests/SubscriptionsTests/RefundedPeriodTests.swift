import Encoding
import Subscriptions
import Testing

/// A purchase refunded in full gives no access. Reports of numbers count it until the refund.
@Suite("Periods of refunded purchases")
struct RefundedPeriodTests {
    private struct Held: Equatable {
        let span: Span
        let cut: AccessPeriod.Cut?
        let isRefunded: Bool

        init(_ start: String, _ end: String, cut: AccessPeriod.Cut? = nil, isRefunded: Bool = false) {
            span = Span(start, end)
            self.cut = cut
            self.isRefunded = isRefunded
        }

        init(_ reported: ReportingPeriod) {
            span = Span(reported.period.start, reported.period.end)
            cut = reported.period.cut
            isRefunded = reported.isRefunded
        }
    }

    private let a = row("1000000000000001", "2026-01-01", "2026-02-01")
    private let b = row("1000000000000002", "2026-02-01", "2026-03-01")
    private let on = intention(autoRenew: true)

    private func held(_ told: [Told]) -> [Held] {
        Subscription(arriving: told).reportingPeriods.map(Held.init)
    }

    @Test("a refund of the current period ends it; that is a churn by refund", arguments: Arrival.allCases)
    func current(_ arrival: Arrival) {
        let told = arrival.arrange([
            Told("2026-01-01", [a], [on]), Told("2026-02-01", [b], [on]),
            Told("2026-02-10", [b.refunded("2026-02-10")], [on]),
        ])

        let subscription = Subscription(arriving: told)

        #expect(subscription.spans == [Span("2026-01-01", "2026-02-01")])
        #expect(
            held(told) == [
                Held("2026-01-01", "2026-02-01"), Held("2026-02-01", "2026-02-10", cut: .refunded, isRefunded: true),
            ])
        #expect(subscription.reportingPeriods.map(\.movement) == [.new, .renewal])
        #expect(subscription.reportingPeriods.map(\.churnedAt) == [nil, nil])
        #expect(subscription.lastReportingPeriod?.isRefunded == true)
        #expect(subscription.lastReportingPeriod?.period.end == day("2026-02-10"))
        #expect(subscription.lastReportingPeriod?.churnReason == .stated(.refund))
        #expect(subscription.hasChurned == false)
    }

    @Test("a refund of the only period leaves a period and no access")
    func only() {
        let subscription = Subscription(
            arriving: [Told("2026-01-01", [a], [on]), Told("2026-01-05", [a.refunded("2026-01-05")], [on])])

        #expect(subscription.access.isEmpty)
        #expect(
            subscription.reportingPeriods.map(Held.init) == [
                Held("2026-01-01", "2026-01-05", cut: .refunded, isRefunded: true)
            ])
        #expect(subscription.lastReportingPeriod?.firstStart == day("2026-01-01"))
    }

    @Test("a refund of a period that is over changes no number: the period was held to its end")
    func over() {
        let told = [
            Told("2026-01-01", [a], [on]), Told("2026-02-01", [b], [on]),
            Told("2026-02-10", [a.refunded("2026-02-10")], [on]),
        ]

        let periods = Subscription(arriving: told).reportingPeriods

        #expect(
            periods.map(Held.init) == [
                Held("2026-01-01", "2026-02-01", isRefunded: true), Held("2026-02-01", "2026-03-01"),
            ])
        #expect(periods.map(\.movement) == [.new, .renewal])
        #expect(periods.map(\.firstStart) == [day("2026-01-01"), day("2026-01-01")])
        #expect(Subscription(arriving: told).spans == [Span("2026-02-01", "2026-03-01")])
    }

    @Test("a renewal that was refunded before its period began was never held")
    func early() {
        let told = [
            Told("2026-01-01", [a], [on]), Told("2026-01-31", [b], [on]),
            Told("2026-01-31T12:00:00Z", [b.refunded("2026-01-31T12:00:00Z")], [on]),
        ]

        #expect(held(told) == [Held("2026-01-01", "2026-02-01")])
    }

    @Test("a reversed refund gives the period back")
    func reversed() {
        let told = [
            Told("2026-01-01", [a], [on]), Told("2026-01-05", [a.refunded("2026-01-05")], [on]),
            Told("2026-01-20", [a], [on]),
        ]

        #expect(held(told) == [Held("2026-01-01", "2026-02-01")])
    }

    @Test("a refunded upgrade ends at the refund, and the plan before it at the upgrade")
    func upgrade() {
        func signed(_ transaction: Transaction, at date: String) -> Transaction {
            var signed = transaction
            signed.signedDate = day(date)
            signed.transactionReason = "PURCHASE"
            return signed
        }
        let better = row("1000000000000002", "2026-01-10", "2026-02-10", product: premium)
        let told = [
            Told("2026-01-01", [signed(a, at: "2026-01-01")]), Told("2026-01-10", [signed(better, at: "2026-01-10")]),
            Told("2026-01-15", [signed(better.refunded("2026-01-15"), at: "2026-01-15")]),
        ]

        #expect(
            held(told) == [
                Held("2026-01-01", "2026-01-10", cut: .upgraded),
                Held("2026-01-10", "2026-01-15", cut: .refunded, isRefunded: true),
            ])
    }

    @Test("access bought after the refund begins again; the refund is the reason of the gap")
    func boughtAgain() {
        let again = row("1000000000000003", "2026-01-20", "2026-02-20") { $0.transactionReason = "PURCHASE" }
        let told = [
            Told("2026-01-01", [a], [on]), Told("2026-01-05", [a.refunded("2026-01-05")], [on]),
            Told("2026-01-20", [again], [on]),
        ]

        let periods = Subscription(arriving: told).reportingPeriods

        #expect(periods.map(\.churnedAt) == [day("2026-01-05"), nil])
        #expect(periods.map(\.churnReason) == [.stated(.refund), nil])
        #expect(periods.map(\.movement) == [.new, .resubscribed])
        #expect(periods.map(\.previousCut) == [nil, .refunded])
    }

    @Test("a later purchase takes over from a refunded one that it overlaps: no instant counts twice")
    func overlap() {
        let other = row("1000000000000003", "2026-01-10", "2026-02-10")
        let told = [
            Told("2026-01-01", [a], [on]), Told("2026-01-10", [other], [on]),
            Told("2026-01-20", [a.refunded("2026-01-20")], [on]),
        ]

        let periods = Subscription(arriving: told).reportingPeriods

        #expect(periods.map(\.effectiveEnd) == [day("2026-01-10"), nil])
        #expect(periods.map(\.effectiveStart) == [nil, nil])
    }
}
