import Subscriptions
import TestSupport
import Testing

@Suite("Free days that a developer adds to a period")
struct FreeDaysTests {
    private static let bought = signed(row("11", "2026-01-01", "2026-02-01"), "2026-01-01")

    /// A report of the purchase with another end.
    private static func moved(_ at: String, to end: String) -> Told {
        Told(at, [changed(signed(bought, at)) { $0.expiresDate = day(end) }])
    }

    @Test("the end that was paid for stays the first one, in any order of arrival", arguments: Arrival.allCases)
    func paidUntil(_ arrival: Arrival) {
        let reports = [
            Told("2026-01-01", [Self.bought]), Self.moved("2026-01-15", to: "2026-02-08"),
            Self.moved("2026-02-03", to: "2026-03-01"),
        ]

        let subscription = Subscription(arriving: arrival.arrange(reports))

        #expect(subscription.transactions.map(\.transaction.expiresDate) == [day("2026-03-01")])
        #expect(subscription.transactions.map(\.transaction.paidUntil) == [day("2026-02-01")])
    }

    @Test(
        "an end that moves by less than a day, or back, has no free days",
        arguments: ["2026-02-01T23:59:59Z", "2026-01-20"])
    func otherMoves(_ end: String) {
        let subscription = Subscription(
            arriving: [Told("2026-01-01", [Self.bought]), Self.moved("2026-01-15", to: end)])

        #expect(subscription.transactions.map(\.transaction.expiresDate) == [day(end)])
        #expect(subscription.transactions.map(\.transaction.paidUntil) == [nil])
    }
}
