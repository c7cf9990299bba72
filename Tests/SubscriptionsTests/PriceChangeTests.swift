import Subscriptions
import TestSupport
import Testing

@Suite("The price of the next renewal on Google Play")
struct PriceChangeTests {
    /// A price change as Google states it, of a plan for 4.99 whose period ends on March 20.
    struct Change: Sendable, CustomTestStringConvertible {
        let state: String
        let mode: String?
        /// When the new price is charged first.
        let at: String?
        let expected: Int64

        init(_ state: String, mode: String? = "PRICE_INCREASE", at: String? = nil, costs expected: Int64) {
            (self.state, self.mode, self.at, self.expected) = (state, mode, at, expected)
        }

        var testDescription: String { "\(state) \(mode ?? "") \(at ?? "")" }
    }

    /// - Source: developer.android.com, "Change subscription prices": a customer who does not consent is not charged when the
    ///   new price is due.
    @Test(
        "a new price counts from the renewal at which Google expects to charge it",
        arguments: [
            Change("OUTSTANDING", at: "2025-03-20", costs: 5990), Change("OUTSTANDING", at: "2025-04-20", costs: 4990),
            Change("OUTSTANDING", costs: 4990), Change("CONFIRMED", at: "2025-03-20", costs: 5990),
            Change("CONFIRMED", at: "2025-04-20", costs: 4990), Change("CONFIRMED", mode: nil, costs: 5990),
            Change("OUTSTANDING", mode: "OPT_OUT_PRICE_INCREASE", at: "2025-04-20", costs: 4990),
            Change("OUTSTANDING", mode: "PRICE_DECREASE", costs: 5990),
            Change("OUTSTANDING", mode: "NEWER", at: "2025-03-20", costs: 4990),
            Change("APPLIED", at: "2025-02-20", costs: 4990), Change("CANCELED", at: "2025-03-20", costs: 4990),
        ])
    func renewalPrice(_ change: Change) {
        var story = PlayStory()
        story.answer("2025-02-25", .active, start: "2025-02-20", until: "2025-03-20", order: "G") {
            ($0.items[0].price, $0.items[0].currency) = (4990, "EUR")
            ($0.items[0].newPrice, $0.items[0].newPriceState) = (5990, change.state)
            $0.items[0].newPriceMode = change.mode
            $0.items[0].newPriceTime = change.at.map(day)
        }

        #expect(story.subscription.renewal(at: day("2025-03-01")).renewalPrice == change.expected)
    }
}
