import Encoding
import Subscriptions
import TestSupport
import Testing

@Suite("The rest of a period after a change of plan on Google Play")
struct ProratedPeriodTests {
    /// Silver from 1 March, replaced by gold on 11 March until the same end.
    ///
    /// - Parameters:
    ///   - phase: Of silver.
    ///   - charged: With the change of plan.
    private static func changed(from phase: String, charged: Int64) -> Subscription {
        func item(_ price: Int64, _ phase: String) -> (inout PurchaseSnapshot) -> Void {
            {
                $0.items[0].price = price
                $0.items[0].currency = "EUR"
                $0.items[0].phase = phase
            }
        }
        var story = PlayStory()
        story.answer(
            "2025-03-01T00:00:05Z", .active, start: "2025-03-01", until: "2025-04-01", order: "G1", product: "silver",
            change: item(9000, phase))
        story.answer(
            "2025-03-11T00:00:05Z", .active, token: "t2", start: "2025-03-11", until: "2025-04-01", order: "G2",
            product: "gold", linked: "t1", change: item(15_000, "PRORATION_PERIOD"))
        story.order(
            "2025-03-11T00:00:06Z", "G2", token: "t2", product: "gold", from: "2025-03-11", until: "2025-04-01",
            total: charged)
        story.answer(
            "2025-04-01T00:00:05Z", .active, token: "t2", start: "2025-03-11", until: "2025-05-01", order: "G2..0",
            product: "gold", linked: "t1", change: item(15_000, "BASE_PRICE"))
        return story.subscription
    }

    @Test("counts at the price of the plan, whether the difference was charged or nothing", arguments: [3000, 0])
    func paid(charged: Int64) {
        let subscription = Self.changed(from: "BASE_PRICE", charged: charged)
        let periods = subscription.reportingPeriods

        #expect(periods.map(\.price) == [9000, 15_000, 15_000])
        #expect(periods.map(\.payerState) == [.paying, .paying, .paying])
        #expect(subscription.transactions.map(\.transaction.price) == [9000, charged, 15_000])
    }

    @Test("of a free trial goes on with the trial, and the first charge is the conversion")
    func trial() {
        let subscription = Self.changed(from: "FREE_TRIAL", charged: 0)
        let periods = subscription.reportingPeriods

        #expect(periods.map(\.price) == [0, 0, 15_000])
        #expect(periods.map(\.payerState) == [.trial, .trial, .paying])
        #expect(periods.first?.movement == .trialStart && periods.last?.movement == .conversion)
    }

    @Test("of a free trial that is paid for is no trial")
    func trialPaid() {
        let periods = Self.changed(from: "FREE_TRIAL", charged: 3000).reportingPeriods

        #expect(periods.map(\.price) == [0, 15_000, 15_000])
        #expect(periods.map(\.payerState) == [.trial, .paying, .paying])
    }
}
