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

    @Test("proceeds: rates by day and country, what has no rate, and no tenth of a percent lost")
    func proceeds() {
        var life = newLife()
        life.subscribe(to: monthly, at: day("2025-07-15"))
        for _ in 0..<5 { life.renew() }

        let proceeds = figures("proceeds", of: life)

        // 670 yen. In Japan no tax is known before August; it is 17 percent until December and 8.1 percent then.
        func columns(_ date: String) -> [Int64?] {
            ["paid", "unestimated", "tax", "commission", "proceeds"].map {
                proceeds["\(date) \(monthly.id) JPN JPY estimated \($0)"]
            }
        }
        #expect(columns("2025-07-15") == [670_000, 670_000, nil, nil, nil])
        #expect(columns("2025-08-15") == [670_000, nil, 97_350, 171_795, 400_855])
        #expect(columns("2025-11-15") == [670_000, nil, 97_350, 143_162, 429_488])
        #expect(columns("2025-12-15") == [670_000, nil, 50_204, 154_949, 464_847])
    }

    @Test("free days are no paid service: the share of later years begins with the thirteenth month that was paid for")
    func freeDays() {
        var life = newLife()
        life.subscribe(to: monthly, at: day("2025-01-01"))
        life.extend(byDays: 35, at: day("2025-01-20"))
        for _ in 0..<12 { life.renew() }

        let detail = figures("proceeds_detail", of: life)

        #expect(life.purchases.suffix(2).map(\.purchaseDate) == [day("2026-01-08"), day("2026-02-08")])
        #expect(detail["2026-01-01 \(monthly.id) JPN JPY first_year 81 250"] == 670_000)
        #expect(detail["2026-02-01 \(monthly.id) JPN JPY later 81 125"] == 670_000)
    }

    @Test("on Google Play: proceeds as the order states them, less what is paid back, else estimated")
    func statedProceeds() {
        var life = newPlayLife()
        life.buy(PlayPlan(.plus, .monthly), at: day("2025-02-10T12:00:00Z"))
        life.renew()
        life.refund(amount: 1000, of: life.orders[1].orderId, at: day("2025-03-12"))
        life.renew()

        #expect(life.orders.map(\.statesShares) == [true, true, false])
        #expect(
            figures("proceeds", of: life) == [
                "proceeds 2025-02-10 plus:monthly USA USD stated commission 605",
                "proceeds 2025-02-10 plus:monthly USA USD stated paid 4480",
                "proceeds 2025-02-10 plus:monthly USA USD stated proceeds 3427",
                "proceeds 2025-02-10 plus:monthly USA USD stated tax 448",
                "proceeds 2025-03-10 plus:monthly USA USD stated commission 470",
                "proceeds 2025-03-10 plus:monthly USA USD stated paid 3480",
                "proceeds 2025-03-10 plus:monthly USA USD stated proceeds 2662",
                "proceeds 2025-03-10 plus:monthly USA USD stated tax 348",
                "proceeds 2025-04-10 plus:monthly USA USD estimated commission 672",
                "proceeds 2025-04-10 plus:monthly USA USD estimated paid 4480",
                "proceeds 2025-04-10 plus:monthly USA USD estimated proceeds 3808",
            ])
    }

    @Test("a price increase is asked, agreed to or not accepted, and none once it is paid")
    func priceIncrease() {
        var life = newLife()
        func increases(_ life: SubscriptionLife, _ instant: String) -> Set<String> {
            var figures = Figures(asOf: day(instant))
            figures.add(SimulatedSubscription(life))
            let prefix = "price_cohorts \(monthly.id) JPN JPY "
            return Set(
                figures.values.filter { $0.key.hasPrefix(prefix) && !$0.key.hasSuffix("subscriptions") }
                    .map { "\($0.key.dropFirst(prefix.count)) \($0.value)" })
        }

        life.subscribe(to: monthly, at: day("2025-01-10"))
        #expect(increases(life, "2025-01-14") == ["670000 active 1", "670000 mrr 670000"])
        life.announcePriceIncrease(at: day("2025-01-15"))
        let active: Set = ["670000 active 1", "670000 mrr 670000", "670000 increase_asked 1"]
        #expect(increases(life, "2025-01-16") == active.union(["670000 increase_silent 1"]))
        life.acceptPriceIncrease(at: day("2025-01-18"))
        #expect(increases(life, "2025-01-20") == active.union(["670000 increase_agreed 1"]))
        life.renew()
        #expect(increases(life, "2025-02-12") == ["670000 moved 1", "804000 active 1", "804000 mrr 804000"])
        life.announcePriceIncrease(at: day("2025-02-15"))
        life.endForPrice()
        #expect(
            increases(life, "2025-03-12") == [
                "670000 moved 1", "804000 churned 1", "804000 increase_asked 1", "804000 increase_left 1",
            ])
    }

    @Test(
        "what customers have of each product adds up: opening, movements and what moved are closing, over all moves none"
    )
    func valueParts() throws {
        var settings = Simulation.Settings(app: testApp)
        settings.subscriptions = 2 * Story.allCases.count
        let values = try #require(Simulation(settings)).figures.values

        var balance: [String: Int64] = [:]
        var moved: [String: Int64] = [:]
        for (name, value) in values {
            let words = name.split(separator: " ").map(String.init)
            guard words[0] == "mrr_movement_parts", let column = words.last else { continue }
            let sign: Int64 = ["closing", "contraction", "churn"].contains(column) ? -1 : 1
            balance[words.dropLast().joined(separator: " "), default: 0] += sign * value
            // By month and currency.
            if column == "moved" { moved["\(words[1]) \(words[5])", default: 0] += value }
        }

        #expect(balance.count > 100 && balance.values.allSatisfy { $0 == 0 })
        // Shares are rounded to thousandths.
        #expect(!moved.isEmpty && moved.values.allSatisfy { abs($0) <= 1 })
    }
}
