import Simulation
import Subscriptions
import Testing

@Suite("The simulator's figures are those of its books")
struct FiguresTests {
    /// The figures whose names begin with the prefix, without it.
    private func figures(_ prefix: String, of lives: SubscriptionLife...) -> [String: Int64] {
        var figures = Figures()
        for life in lives { figures.add(SimulatedSubscription(life)) }
        return Dictionary(
            uniqueKeysWithValues: figures.values.filter { $0.key.hasPrefix(prefix + " ") }
                .map { (String($0.key.dropFirst(prefix.count + 1)), $0.value) })
    }

    @Test("a year billed monthly counts as twelve charges, and a year billed at once as one")
    func billingPlans() {
        let yearly = Product.subscription(.premium, .yearly, of: testApp.bundleId)
        var monthly = newLife()
        monthly.billingPlan = .monthly
        monthly.subscribe(to: yearly, at: day("2025-01-15"))
        for _ in 1..<12 { monthly.renew() }
        var upFront = newLife(subscription: 1)
        upFront.billingPlan = .upFront
        upFront.subscribe(to: yearly, at: day("2025-12-15"))

        let mrr = figures("mrr", of: monthly, upFront)

        // 24.99 * 5 / 2 dollars at 150 yen, in thousandths of a yen and whole tens of yen; a tenth of it each month.
        #expect(upFront.purchases.map(\.price) == [9_370_000])
        #expect(monthly.purchases.map(\.price) == Array(repeating: 930_000, count: 12))
        #expect(monthly.expiry == day("2026-01-15"))
        #expect(monthly.purchases.last?.commitment?.billingPeriodNumber == 12)
        #expect(mrr["2025-12-01 JPY mrr"] == 930_000)
        #expect(mrr["2026-01-01 JPY mrr"] == 1_710_833)
        #expect(mrr["2026-02-01 JPY mrr"] == 780_833)
        #expect(mrr["2026-01-01 JPY subscriptions"] == 2)
    }
}
