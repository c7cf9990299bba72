import Subscriptions
import TestSupport
import Testing

/// The expected numbers were computed by hand.
@Suite("Offers, prices and the mix of plans")
struct OfferFigureTests {
    private static func charge(
        _ id: String, _ start: String, _ end: String, _ price: Int64?, _ currency: String?, _ storefront: String?,
        offer: Int? = nil, name: String? = nil, discount: String? = nil,
        change: (inout Transaction) -> Void = { _ in }
    ) -> Transaction {
        AnalystLog.charge(id, "\(start)T12:00:00Z", "\(end)T12:00:00Z") {
            $0.price = price.map { $0 * 1000 }
            ($0.currency, $0.storefront) = (currency, storefront)
            ($0.offerType, $0.offerIdentifier, $0.offerDiscountType) = (offer, name, discount)
            change(&$0)
        }
    }

    private static func refund(_ row: inout Transaction, percentage: Int? = nil) {
        row.revocationDate = row.purchaseDate?.advanced(by: .seconds(2 * 86_400))
        row.revocationType = percentage == nil ? "REFUND_FULL" : "REFUND_PRORATED"
        row.revocationPercentage = percentage
    }

    /// 900: a trial, three standard payments of which the last was refunded, then two months of a promotional offer.
    /// 910: three months up front, refunded. 920: a trial that runs, by V1. 930: a win-back offer, then a standard payment
    /// of which half was refunded, with a copy. 940: of a family member. 950: an offer code, lost.
    private static let offers: [Transaction] = [
        charge("900", "2025-02-01", "2025-02-08", 0, "EUR", "DEU", offer: 1, discount: "FREE_TRIAL"),
        charge("900-2", "2025-02-08", "2025-03-08", 12, "EUR", "DEU"),
        charge("900-3", "2025-03-08", "2025-04-08", 12, "EUR", "DEU"),
        charge("900-4", "2025-04-08", "2025-05-08", 12, "EUR", "DEU") { refund(&$0) },
        charge("900-5", "2025-05-08", "2025-06-08", 6, "EUR", "DEU", offer: 2, name: "back", discount: "PAY_AS_YOU_GO"),
        charge("900-6", "2025-06-08", "2025-07-08", 6, "EUR", "DEU", offer: 2, name: "back", discount: "PAY_AS_YOU_GO"),
        charge("910", "2025-01-01", "2025-04-01", 20, "USD", "USA", offer: 1, discount: "PAY_UP_FRONT") { refund(&$0) },
        charge("920", "2025-02-10", "2099-02-10", nil, nil, nil) { $0.isTrialPeriod = true },
        charge("930", "2025-02-01", "2025-03-01", 5, "USD", "USA", offer: 4, name: "win", discount: "PAY_AS_YOU_GO"),
        charge("930-2", "2025-03-01", "2025-04-01", 10, "USD", "USA") {
            $0.webOrderLineItemId = "w3"
            refund(&$0, percentage: 50_000)
        },
        charge("930-3", "2025-03-01", "2025-04-01", 10, "USD", "USA") {
            $0.webOrderLineItemId = "w3"
            refund(&$0, percentage: 50_000)
        },
        charge("940", "2025-02-01", "2025-03-01", 5, "USD", "USA", offer: 2, name: "family") {
            $0.inAppOwnershipType = "FAMILY_SHARED"
        },
        charge("950", "2025-02-01", "2025-03-01", 3, "USD", "USA", offer: 3, name: "code", discount: "PAY_AS_YOU_GO"),
    ]

    @Test("offers: used, converted, renewed, and what was paid with them and after them")
    func offers() async throws {
        try await SimulatedLog.with { log in
            try await AnalystLog.fold([AnalystLog.Stated("2025-08-01", Self.offers)], log)

            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', transaction_id, redeemed_at::date, offer_ends_at::date, outcome, converted_at::date,
                      renewals, offer_revenue, revenue, unpriced)
                    from analyst.offers_detail
                    order by transaction_id collate "C"
                    """) == [
                        "900 2025-02-01 2025-02-08 converted 2025-02-08 1 0.000 24.000 0",
                        "900-5 2025-05-08 2025-07-08 lost 0 12.000 0.000 0",
                        "910 2025-01-01 2025-04-01 refunded 0 0.000 0.000 0",
                        "920 2025-02-10 2099-02-10 running 0 0.000 0.000 0",
                        "930 2025-02-01 2025-03-01 converted 2025-03-01 0 5.000 5.000 0",
                        "950 2025-02-01 2025-03-01 lost 0 3.000 0.000 0",
                    ])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', month, store, product_id, length, country, currency, offer_type, offer_identifier,
                      redeemed, converted, lost, undecided, refunded, renewals, offer_revenue, revenue)
                    from analyst.offers
                    where offer_type = 1
                    order by month, country
                    """) == [
                        "2025-01-01 apple monthly P1M USA USD 1 1 0 0 0 1 0 0.000 0.000",
                        "2025-02-01 apple monthly P1M DEU EUR 1 1 1 0 0 0 1 0.000 24.000",
                        "2025-02-01 apple monthly P1M 1 1 0 0 1 0 0 0.000 0.000",
                    ])
        }
    }

    @Test("the events of an offer are those of its purchases, in their order")
    func positions() async throws {
        let stated = [Self.offers[1], Self.offers[0], Self.offers[2]].enumerated().map {
            AnalystLog.Stated("2025-08-0\($0.offset + 1)", [$0.element])
        }
        try await SimulatedLog.with { log in
            try await AnalystLog.fold(stated, log)

            #expect(try await log.lines("select positions::text from analyst.offers_detail") == ["{2,1,3}"])
        }
    }

    private static func renewal(of id: String, _ change: (inout RenewalInfo) -> Void) -> RenewalInfo {
        var renewal = RenewalInfo(originalTransactionId: id)
        change(&renewal)
        return renewal
    }

    /// All pay 10 in January. 1000 agreed to pay 12 from March on, which Apple goes on to report. 1010 did not accept the increase, 1020 has not answered, 1030
    /// agreed. 1040 left, and came back for 12. 1050 was refunded. 1060 is in grace.
    private static let prices: AnalystLog.Stated = {
        let month = { (id: String, start: String, end: String, price: Int64) in
            charge(id, start, end, price, "USD", "USA")
        }
        var rows = (0...6).map { month("10\($0)0", "2025-01-01", "2025-02-01", 10) }
        rows += [
            month("1000-2", "2025-02-01", "2025-03-01", 10), month("1000-3", "2025-03-01", "2099-04-01", 12),
            month("1020-2", "2025-02-01", "2099-03-01", 10), month("1030-2", "2025-02-01", "2099-03-01", 10),
            month("1040-2", "2025-05-01", "2099-06-01", 12),
            charge("1050-2", "2025-02-01", "2025-03-01", 10, "USD", "USA") { refund(&$0) },
        ]
        return AnalystLog.Stated(
            "2025-05-01T13:00:00Z", rows,
            [
                renewal(of: "1000") { ($0.priceIncreaseStatus, $0.renewalPrice) = (1, 12_000) },
                renewal(of: "1010") { $0.expirationIntent = 3 }, renewal(of: "1020") { $0.priceIncreaseStatus = 0 },
                renewal(of: "1030") { ($0.priceIncreaseStatus, $0.renewalPrice) = (1, 12_000) },
                renewal(of: "1060") {
                    ($0.isInBillingRetryPeriod, $0.autoRenewStatus) = (true, true)
                    $0.gracePeriodExpiresDate = AnalystLog.date("2099-02-17")
                },
            ])
    }()

    @Test("prices: who pays each now, left with it or went on to another, and what became of the increase")
    func priceCohorts() async throws {
        try await SimulatedLog.with { log in
            try await AnalystLog.fold([Self.prices], log)

            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', original_transaction_id, price, payments, state, mrr, churn_reason, price_increase)
                    from analyst.price_cohorts_detail
                    order by original_transaction_id, price
                    """) == [
                        "1000 10.000 2 moved", "1000 12.000 1 active 12.000", "1010 10.000 1 churned price left",
                        "1020 10.000 2 active 10.000 silent", "1030 10.000 2 active 10.000 agreed",
                        "1040 10.000 1 churned unknown", "1040 12.000 1 active 12.000",
                        "1050 10.000 1 churned refund", "1060 10.000 1 active 10.000",
                    ])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', store, product_id, length, country, currency, price, subscriptions, active, mrr,
                      churned, moved, churned_percent, increase_asked, increase_agreed, increase_silent, increase_left)
                    from analyst.price_cohorts
                    order by price
                    """) == [
                        "apple monthly P1M USA USD 10.000 7 3 30.000 3 1 42.9 3 1 1 1",
                        "apple monthly P1M USA USD 12.000 2 2 24.000 0 0 0.0 0 0 0 0",
                    ])
        }
    }

    @Test("a price was left if access ended with it after grace, even if the customer came back for another")
    func priceLeftInGrace() async throws {
        let failed = AnalystLog.Stated(
            "2025-02-01T13:00:00Z", [Self.charge("1070", "2025-01-01", "2025-02-01", 10, "USD", "USA")],
            [
                Self.renewal(of: "1070") {
                    ($0.isInBillingRetryPeriod, $0.autoRenewStatus) = (true, true)
                    $0.gracePeriodExpiresDate = AnalystLog.date("2025-02-17T12:00:00Z")
                }
            ])
        let back = AnalystLog.Stated(
            "2025-05-01T13:00:00Z", [Self.charge("1070-2", "2025-05-01", "2099-06-01", 12, "USD", "USA")])
        try await SimulatedLog.with { log in
            try await AnalystLog.fold([failed, back], log)

            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', original_transaction_id, price, payments, state, mrr, churn_reason)
                    from analyst.price_cohorts_detail
                    order by price
                    """) == ["1070 10.000 1 churned billing", "1070 12.000 1 active 12.000"])
        }
    }

    @Test("the mix of plans: subscriptions and monthly value on the first of each month and today")
    func planMix() async throws {
        try await SimulatedLog.with { log in
            try await AnalystLog.fold([Self.prices], log)

            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', case when day = (now() at time zone 'UTC')::date then 'today' else day::text end,
                      store, product_id, length, country, currency, subscriptions, mrr, unpriced)
                    from analyst.plan_mix
                    where day < '2025-04-01' or day = (now() at time zone 'UTC')::date
                    order by day
                    """) == [
                        "2025-02-01 apple monthly P1M USA USD 7 70.000 0",
                        "2025-03-01 apple monthly P1M USA USD 3 30.000 0", "today apple monthly P1M USA USD 4 44.000 0",
                    ])
            // On every first of a month, the mix is the monthly value of that day.
            #expect(
                try await log.lines(
                    """
                    select format('%s: %s is not %s', day, mix.mrr, mrr.mrr)
                    from analyst.mrr
                    full join (select day, sum(mrr) as mrr from analyst.plan_mix group by day) as mix using (day)
                    where extract(day from day) = 1
                      and coalesce(mix.mrr, 0) <> coalesce(mrr.mrr, 0)
                    """) == [])
        }
    }
}
