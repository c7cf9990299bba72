import Encoding
import Subscriptions
import Testing

@Suite("The end of a period is explained by why it was not renewed")
struct LapseTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let words: String
        /// The events that say it; empty if none does.
        let positions: [Int64]
        let reports: [Told]
        /// Whether the clock ends more than the period.
        var canEnd = false

        var testDescription: String { words }
    }

    private static let rowA = row("11", "2026-01-01", "2026-02-01")
    private static let bought = Told("2026-01-01", [rowA], [intention(autoRenew: true)])

    private static func told(
        _ date: String, autoRenew: Bool? = true, _ change: (inout RenewalInfo) -> Void = { _ in }
    ) -> Told {
        Told(date, [rowA], [intention(autoRenew: autoRenew, change: change)])
    }

    private static let cases = [
        Case(words: "and nothing follows it", positions: [], reports: [bought]),
        Case(
            words: "renewal was switched off", positions: [2],
            reports: [
                bought, told("2026-01-20", autoRenew: false),
                told("2026-02-01", autoRenew: false) { $0.expirationIntent = 1 },
            ]),
        Case(
            words: "renewal was switched off", positions: [4],
            reports: [
                bought, told("2026-01-10", autoRenew: false), told("2026-01-11"), told("2026-01-20", autoRenew: false),
            ]),
        Case(
            words: "the renewal failed, and the store retries the payment", positions: [2],
            reports: [bought, told("2026-02-01") { $0.isInBillingRetryPeriod = true }], canEnd: true),
        Case(
            words: "the renewal failed, and the store retries the payment", positions: [2],
            reports: [
                bought,
                told("2026-02-01") {
                    $0.isInBillingRetryPeriod = true
                    $0.gracePeriodExpiresDate = day("2026-02-07")
                }, told("2026-02-07") { $0.isInBillingRetryPeriod = true },
            ], canEnd: true),
        Case(
            words: "the renewal failed, and the store has stopped retrying the payment", positions: [2, 3],
            reports: [
                bought, told("2026-02-01") { $0.isInBillingRetryPeriod = true },
                told("2026-02-05", autoRenew: false) { $0.expirationIntent = 2 },
            ]),
        Case(
            words: "the customer did not accept a price increase", positions: [2],
            reports: [bought, told("2026-02-01", autoRenew: false) { $0.expirationIntent = 3 }]),
        Case(
            words: "the product was not for sale at the renewal", positions: [2],
            reports: [bought, told("2026-02-01", autoRenew: false) { $0.expirationIntent = 4 }]),
        Case(
            words: "the store ended the subscription without naming a reason", positions: [2],
            reports: [bought, told("2026-02-01", autoRenew: false) { $0.expirationIntent = 5 }]),
        // Without a reason, the renewal in force at the end counts, not a later one.
        Case(
            words: "the renewal failed, and no later payment is known", positions: [2],
            reports: [
                bought, told("2026-02-01") { $0.isInBillingRetryPeriod = true }, told("2026-02-08", autoRenew: false),
            ]),
        Case(
            words: "and nothing follows it", positions: [],
            reports: [bought, told("2026-02-08", autoRenew: false)]),
        Case(
            words: "renewal was switched off", positions: [2],
            reports: [bought, told("2026-01-20", autoRenew: false), told("2026-02-08", autoRenew: true)]),
    ]

    @Test("with the reports that say it", arguments: cases)
    func reasons(_ each: Case) throws {
        let example = ExplanationExample(
            rule: .clock, reports: each.reports, at: "2026-02-10", active: false,
            positions: each.positions)
        let explanation = example.explanation

        let decisive = try #require(explanation.because.first)
        #expect(!explanation.active && decisive.rule == .clock)
        #expect(decisive.text.hasSuffix(each.words), "\(decisive.text)")
        #expect(decisive.positions == example.positions)
        #expect(explanation.couldChange.isEmpty == !each.canEnd, "\(explanation.sentence)")
    }
}
