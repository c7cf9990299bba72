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

    /// The figures of a subscription on Google Play without 0, as "name value".
    private func figures(_ views: String..., of life: PlayLife) -> [String] {
        var figures = Figures()
        figures.add(life)
        return figures.values.filter { figure in views.contains { figure.key.hasPrefix($0 + " ") } }
            .map { "\($0.key) \($0.value)" }.sorted()
    }

    @Test("on Google Play: a month at half the price of a weekly plan, what is paid back, and who ends it")
    func introductoryPrice() {
        var life = newPlayLife()
        var details = PlayLife.Details()
        details.offer = .introductoryPrice(.monthly)
        life.buy(PlayPlan(.plus, .weekly), at: day("2025-01-10"), details)
        life.renew()
        let order = life.orders[1].orderId
        life.refund(amount: 300, of: order, at: day("2025-02-11"))
        life.cancel(by: .developer, at: day("2025-02-12"))
        life.expire()

        // 1.48 dollars a week.
        #expect(life.charges.map(\.price) == [740, 1480])
        #expect(
            figures("revenue", "offers", "churn", "mrr", of: life) == [
                "churn 2025-02-01 plus:weekly other 1", "mrr 2025-02-01 USD mrr 740",
                "mrr 2025-02-01 USD subscriptions 1",
                "offers 2025-01-01 plus:weekly USA USD 1 welcome converted 1",
                "offers 2025-01-01 plus:weekly USA USD 1 welcome offer_revenue 740",
                "offers 2025-01-01 plus:weekly USA USD 1 welcome redeemed 1",
                "offers 2025-01-01 plus:weekly USA USD 1 welcome revenue 1180",
                "revenue 2025-01-01 plus:weekly USA USD gross 740", "revenue 2025-01-01 plus:weekly USA USD payments 1",
                "revenue 2025-02-01 plus:weekly USA USD gross 1480",
                "revenue 2025-02-01 plus:weekly USA USD payments 1",
                "revenue 2025-02-01 plus:weekly USA USD refunded 300",
                "revenue 2025-02-01 plus:weekly USA USD refunded_here 300",
            ])
    }

    @Test("on Google Play: two products of one order, of which one is removed, and a payment that failed")
    func addOn() {
        var life = newPlayLife()
        life.buy([premiumMonthly, PlayPlan(.audio, .monthly)], at: day("2025-01-10"))
        life.removeItem("audio", at: day("2025-01-20"))
        life.renew()
        life.failToRenew()
        life.enterHold()
        life.endHold()

        #expect(life.charges.map(\.price) == [7470, 2990, 7470])
        #expect(
            figures("mrr", "mrr_in_grace", "price_cohorts", "billing_retries", "plan_changes", of: life) == [
                "billing_retries 2025-03-01 premium:monthly lost 1", "mrr 2025-02-01 USD mrr 10460",
                "mrr 2025-02-01 USD subscriptions 1", "mrr 2025-03-01 USD mrr 7470",
                "mrr 2025-03-01 USD subscriptions 1",
                "price_cohorts premium:monthly USA USD 10460 moved 1",
                "price_cohorts premium:monthly USA USD 10460 subscriptions 1",
                "price_cohorts premium:monthly USA USD 7470 churned 1",
                "price_cohorts premium:monthly USA USD 7470 subscriptions 1",
            ])
    }
}
