import Encoding
import Subscriptions
import TestSupport
import Testing

/// The expected amounts were computed by hand, from the definitions of the figures.
@Suite("Money: revenue, proceeds, monthly value and lifetime value, in one currency")
struct MoneyTests {
    private static func user(_ number: Int) -> String { "00000000-0000-4000-8000-00000000000\(number)" }

    private static func charge(
        _ id: String, _ start: String, _ end: String, _ price: Int64?, _ currency: String?, _ storefront: String?,
        user: Int? = nil, product: String = "monthly", change: (inout Transaction) -> Void = { _ in }
    ) -> Transaction {
        AnalystLog.charge(id, "\(start)T12:00:00Z", "\(end)T12:00:00Z", product: product) {
            $0.price = price.map { $0 * 1000 }
            $0.currency = currency
            $0.storefront = storefront
            $0.appAccountToken = user.map { Self.user($0) }
            change(&$0)
        }
    }

    /// Of 300, the renewal fails, and grace is granted until March 10. Of 400-2, half is given back. 200-3 is a copy of
    /// 200-2.
    private static let stated: [AnalystLog.Stated] = {
        var grace = RenewalInfo(originalTransactionId: "300")
        grace.isInBillingRetryPeriod = true
        grace.autoRenewStatus = true
        grace.gracePeriodExpiresDate = AnalystLog.date("2025-03-10T12:00:00Z")
        let copied = { (id: String) in
            charge(id, "2025-02-10", "2025-03-10", 12, "EUR", "DEU", user: 2) { $0.webOrderLineItemId = "w2" }
        }
        return [
            .init(
                "2024-01-01T12:00:00Z",
                [charge("100", "2024-01-01", "2025-01-01", 100, "USD", "USA", user: 1, product: "yearly")]),
            .init(
                "2025-01-01T12:00:00Z",
                [charge("100-2", "2025-01-01", "2026-01-01", 100, "USD", "USA", user: 1, product: "yearly")]),
            .init(
                "2025-01-20T12:00:00Z",
                [
                    charge("200", "2025-01-10", "2025-02-10", 12, "EUR", "DEU", user: 2) {
                        $0.revocationDate = AnalystLog.date("2025-01-20T12:00:00Z")
                        $0.revocationType = "REFUND_FULL"
                    }
                ]),
            .init("2025-01-31T12:00:00Z", [charge("300", "2025-01-31", "2025-02-28", 50, "BRL", "BRA")]),
            .init(
                "2025-02-01T12:00:00Z",
                [
                    charge("400", "2025-02-01", "2025-02-08", 0, "USD", "USA", user: 3) {
                        $0.offerType = 1
                        $0.offerDiscountType = "FREE_TRIAL"
                    }
                ]),
            .init("2025-02-01T12:00:00Z", [charge("600", "2025-02-01", "2025-03-01", nil, nil, nil)]),
            .init(
                "2025-02-01T12:00:00Z",
                [charge("500", "2025-02-01", "2025-03-01", 9, "USD", "USA") { $0.inAppOwnershipType = "FAMILY_SHARED" }]
            ),
            .init("2025-02-10T12:00:00Z", [copied("200-2")]), .init("2025-02-10T13:00:00Z", [copied("200-3")]),
            .init(
                "2025-02-20T12:00:00Z",
                [
                    charge("400-2", "2025-02-08", "2025-03-08", 6, "USD", "USA", user: 3) {
                        $0.revocationDate = AnalystLog.date("2025-02-20T12:00:00Z")
                        $0.revocationType = "REFUND_PRORATED"
                        $0.revocationPercentage = 50_000
                    }
                ]),
            .init("2025-02-28T12:00:00Z", [charge("300", "2025-01-31", "2025-02-28", 50, "BRL", "BRA")], [grace]),
            .init(
                "2025-03-10T12:00:00Z",
                [charge("200-4", "2025-03-10", "2026-03-10", 60, "EUR", "DEU", user: 2, product: "yearly")]),
        ]
    }()

    /// A rate counts for a week. There is none for BRL.
    private static let tables = """
        insert into subledger.exchange_rate (currency, day, per_euro)
        values ('USD', '2023-12-29', 1.25), ('USD', '2024-12-31', 1), ('USD', '2025-02-07', 1.2),
          ('USD', '2025-02-20', 1.5);
        insert into subledger.commission (store, kind, country, starts_on, percent, later_percent)
        values ('apple', 'subscription', '', '2020-01-01', 30, 15),
          ('apple', 'subscription', 'DEU', '2025-03-01', 10, 10);
        insert into subledger.tax_rate (country, starts_on, percent)
        values ('', '2020-01-01', 20), ('USA', '2020-01-01', 0);
        """

    /// Of 700-2, four euros were paid back, with their part of the tax.
    @Test("tax and proceeds that an order states count instead of the tables, less what was paid back")
    func statedProceeds() async throws {
        let ordered = { (id: String, start: String, end: String, change: @escaping (inout Transaction) -> Void) in
            AnalystLog.Stated(
                "2025-04-20T12:00:00Z",
                [
                    Self.charge(id, start, end, 12, "EUR", "DEU", user: 7) {
                        ($0.tax, $0.developerRevenue) = (1916, 8571)
                        change(&$0)
                    }
                ])
        }
        try await SimulatedLog.with { log in
            try await log.script(Self.tables)
            try await AnalystLog.fold(
                [
                    ordered("700", "2025-04-01", "2025-05-01") { _ in },
                    ordered("700-2", "2025-05-01", "2025-06-01") {
                        $0.revocationDate = AnalystLog.date("2025-05-03T12:00:00Z")
                        $0.revocationType = "REFUND_AMOUNT"
                        $0.refundedPrice = 4000
                        $0.developerRevenue = 5714
                    },
                    ordered("700-3", "2025-06-01", "2025-07-01") { ($0.tax, $0.developerRevenue) = (nil, nil) },
                ], log)

            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', day, paid, tax, commission, proceeds, unestimated, estimated)
                    from analyst.proceeds
                    order by day
                    """) == [
                        "2025-04-01 12.000 1.916 1.513 8.571 0 f", "2025-05-01 8.000 1.277 1.009 5.714 0 f",
                        "2025-06-01 12.000 2.000 1.000 9.000 0 t",
                    ])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', sum(purchases), sum(refunded), sum(amount), sum(refunded_amount))
                    from analyst.refund_rate
                    """) == ["3 1 36.000 4.000"])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', day, gross, refunded, refunded_here)
                    from analyst.revenue
                    where gross <> 0 or refunded_here <> 0
                    order by day
                    """) == [
                        "2025-04-01 12.000 0 0", "2025-05-01 12.000 4.000 0", "2025-05-03 0 0 4.000",
                        "2025-06-01 12.000 0 0",
                    ])
        }
    }

    @Test("payments, refunds and their values in euros; what has no rate or price is told")
    func money() async throws {
        try await SimulatedLog.with { log in
            try await log.script(Self.tables)
            try await AnalystLog.fold(Self.stated, log)

            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', to_char(day, 'YYYY-MM'), sum(payments), sum(gross), sum(new), sum(renewal),
                      sum(refunded), sum(refunded_here), coalesce(sum(unconverted), 0), sum(unpriced))
                    from analyst.revenue_in('EUR')
                    group by to_char(day, 'YYYY-MM')
                    order by 1
                    """) == [
                        "2024-01 1 80.000 80.000 0.000 0.000 0.000 0 0",
                        "2025-01 3 112.000 12.000 100.000 12.000 12.000 50.000 0",
                        "2025-02 3 17.000 5.000 12.000 2.500 2.000 0 1",
                        "2025-03 1 60.000 0.000 60.000 0.000 0.000 0 0",
                    ])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', currency, sum(paid), sum(tax), sum(commission), sum(proceeds),
                      sum(unestimated))
                    from analyst.proceeds
                    group by currency
                    order by 1
                    """) == [
                        "BRL 50.000 8.333 12.500 29.167 0", "EUR 72.000 12.000 8.000 52.000 0",
                        "USD 203.000 0.000 45.900 157.100 0",
                    ])
            #expect(
                try await log.lines("select transaction_id from analyst.proceeds_detail where is_later") == ["100-2"])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', to_char(cohort, 'YYYY-MM'), country, months, customers, revenue, per_customer,
                      unconverted)
                    from analyst.ltv_in('EUR')
                    where (to_char(cohort, 'YYYY-MM'), months) in (('2024-01', 11), ('2024-01', 12), ('2025-01', 0),
                      ('2025-01', 1), ('2025-01', 2), ('2025-02', 0))
                    order by cohort, country, months
                    """) == [
                        "2024-01 USA 11 1 80.000 80.000 0", "2024-01 USA 12 1 180.000 180.000 0",
                        "2025-01 BRA 0 1 0.000 0.000 1", "2025-01 BRA 1 1 0.000 0.000 1",
                        "2025-01 BRA 2 1 0.000 0.000 1",
                        "2025-01 DEU 0 1 0.000 0.000 0", "2025-01 DEU 1 1 12.000 12.000 0",
                        "2025-01 DEU 2 1 72.000 72.000 0",
                        "2025-02 USA 0 1 2.500 2.500 0", "2025-02 0 1 0.000 0.000 1",
                    ])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', to_char(month, 'YYYY-MM'), customers, revenue, arppu, unconverted)
                    from analyst.arppu_in('EUR')
                    order by 1
                    """) == [
                        "2024-01 1 80.000 80.000 0", "2025-01 3 100.000 33.333 1", "2025-02 3 14.500 4.833 1",
                        "2025-03 1 60.000 60.000 0",
                    ])
        }
    }

    @Test("what makes the monthly value of each customer grow and shrink, grace included")
    func movements() async throws {
        try await SimulatedLog.with { log in
            try await log.script(Self.tables)
            try await AnalystLog.fold(Self.stated, log)

            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', day, currency, movement, mrr, 'from', before, 'to', after)
                    from analyst.mrr_movements_detail
                    order by day, currency
                    """) == [
                        "2024-01-01 USD new 8.333 from 0.000 to 8.333",
                        "2025-01-31 BRL new 50.000 from 0.000 to 50.000",
                        "2025-02-08 USD new 6.000 from 0.000 to 6.000",
                        "2025-02-10 EUR new 12.000 from 0.000 to 12.000",
                        "2025-02-20 USD churn -6.000 from 6.000 to 0.000",
                        "2025-03-10 BRL churn -50.000 from 50.000 to 0.000",
                        "2025-03-10 EUR contraction -7.000 from 12.000 to 5.000",
                        "2026-01-01 USD churn -8.333 from 8.333 to 0.000",
                        "2026-03-10 EUR churn -5.000 from 5.000 to 0.000",
                    ])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', month, opening, new, reactivation, expansion, contraction, churn, closing,
                      arr, gross_churn_percent, net_retention_percent, quick_ratio)
                    from analyst.mrr_movements
                    where currency = 'EUR' and month < '2025-05-01'
                    order by month
                    """) == [
                        "2025-02-01 0.000 12.000 0 0 0 0 12.000 144.000",
                        "2025-03-01 12.000 0 0 0 7.000 0 5.000 60.000 58.3 41.7 0.00",
                        "2025-04-01 5.000 0 0 0 0 0 5.000 60.000 0.0 100.0",
                    ])
            // The customer changes from the one product to the other: seven euros less, and five go with it.
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', day, product_id, length, country, movement, round(mrr, 3), 'moved', round(moved, 3))
                    from analyst.mrr_movement_parts_detail
                    where currency = 'EUR'
                    order by day, product_id
                    """) == [
                        "2025-02-10 monthly P1M DEU new 12.000 moved 0.000",
                        "2025-03-10 monthly P1M DEU contraction -7.000 moved -5.000",
                        "2025-03-10 yearly P1Y DEU 0.000 moved 5.000",
                        "2026-03-10 yearly P1Y DEU churn -5.000 moved 0.000",
                    ])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', month, product_id, opening, round(new, 3), round(contraction, 3), round(churn, 3),
                      round(moved, 3), closing)
                    from analyst.mrr_movement_parts
                    where currency = 'EUR' and month < '2025-05-01'
                    order by month, product_id
                    """) == [
                        "2025-02-01 monthly 0.000 12.000 0.000 0.000 0.000 12.000",
                        "2025-03-01 monthly 12.000 0.000 7.000 0.000 -5.000 0.000",
                        "2025-03-01 yearly 0.000 0.000 0.000 0.000 5.000 5.000",
                        "2025-04-01 yearly 5.000 0.000 0.000 0.000 0.000 5.000",
                    ])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', month, round(sum(new), 3), round(sum(churn), 3), round(sum(closing), 3),
                      coalesce(sum(unconverted), 0))
                    from analyst.mrr_movements_in('EUR', '2025-01-02')
                    where month in ('2024-01-01', '2025-01-01', '2025-02-01', '2025-03-01')
                    group by month
                    order by month
                    """) == [
                        "2024-01-01 8.333 0.000 8.333 0", "2025-01-01 0.000 0.000 8.333 50.000",
                        "2025-02-01 18.000 6.000 20.333 50.000", "2025-03-01 0.000 0.000 13.333 0.000",
                    ])
        }
    }

    /// 710 is paid for from January on, gets five weeks free, and is paid for until February 2025 by the month. 720 is paid for a
    /// year, refunded from December on, and bought again in January.
    @Test("free days, and what was refunded from a day on, are no years of service")
    func yearsOfService() async throws {
        let first = Self.charge("710", "2024-01-01", "2024-02-01", 12, "EUR", "DEU", user: 7)
        var longer = first
        longer.expiresDate = AnalystLog.date("2024-03-07T12:00:00Z")
        func start(_ month: Int) -> String {
            String(AnalystLog.date("2024-03-07").advanced(byMonths: month).description.prefix(10))
        }
        let months = (0..<12).map { month in
            Self.charge("710-\(month + 2)", start(month), start(month + 1), 12, "EUR", "DEU", user: 7)
        }
        let refunded = Self.charge("720", "2024-01-01", "2025-01-01", 80, "EUR", "DEU", user: 7, product: "yearly") {
            $0.revocationDate = AnalystLog.date("2024-12-01T12:00:00Z")
            $0.revocationType = "REFUND_PRORATED"
            $0.revocationPercentage = 8_000
        }
        let again = Self.charge("720-2", "2025-01-10", "2026-01-10", 80, "EUR", "DEU", user: 7, product: "yearly")
        try await SimulatedLog.with { log in
            try await AnalystLog.fold(
                [
                    .init("2024-01-01T12:00:00Z", [first]), .init("2024-01-20T12:00:00Z", [longer]),
                    .init("2025-02-10T12:00:00Z", months + [refunded, again]),
                ], log)

            #expect(
                try await log.lines("select transaction_id from analyst.revenue_detail where is_later order by 1")
                    == ["710-13"])
        }
    }

    @Test("tax, commission and proceeds add up to what was paid, to the last digit")
    func wholeAmounts() async throws {
        try await SimulatedLog.with { log in
            try await log.script(Self.tables)
            try await AnalystLog.fold(
                (1...9).map { number in
                    let day = "2025-02-0\(number)"
                    return AnalystLog.Stated(
                        "\(day)T12:00:00Z",
                        [
                            AnalystLog.charge("73\(number)", day, "2025-03-0\(number)", product: "monthly") {
                                ($0.price, $0.currency, $0.storefront) = (Int64(8990 + number), "EUR", "DEU")
                            }
                        ])
                }, log)

            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', paid, tax, commission, proceeds)
                    from analyst.proceeds
                    where paid <> tax + commission + proceeds + unestimated
                    """) == [])
            #expect(try await log.lines("select count(*)::text from analyst.proceeds where proceeds > 0") == ["9"])
        }
    }

    /// A rate counts on the six days after its own. The commissions begin on February 10.
    @Test("currencies of no and of three decimals, a price of 10⁹, a refund above the price, and days without a rate")
    func oddAmounts() async throws {
        func charge(
            _ id: String, _ day: String, _ price: Int64, _ currency: String,
            change: (inout Transaction) -> Void = { _ in }
        ) -> AnalystLog.Stated {
            AnalystLog.Stated(
                "\(day)T12:00:00Z",
                [
                    AnalystLog.charge(id, "\(day)T12:00:00Z", "2025-03-15T12:00:00Z", product: "monthly") {
                        ($0.price, $0.currency, $0.storefront) = (price, currency, "USA")
                        change(&$0)
                    }
                ])
        }
        try await SimulatedLog.with { log in
            try await log.script(
                """
                insert into subledger.exchange_rate (currency, day, per_euro)
                values ('USD', '2025-02-07', 1.25), ('USD', '2025-02-05', 9), ('KWD', '2025-02-07', 0.32),
                  ('JPY', '2025-02-07', 160), ('IDR', '2025-02-07', 16000);
                insert into subledger.commission (store, kind, starts_on, percent, later_percent)
                values ('apple', 'subscription', '2025-02-10', 30, 15);
                insert into subledger.tax_rate (starts_on, percent) values ('2020-01-01', 0);
                """)
            try await AnalystLog.fold(
                [
                    charge("805", "2025-02-09", 1_000_000_000_000, "IDR"),
                    charge("803", "2025-02-10", 1234, "KWD"),
                    charge("804", "2025-02-10", 1_500_000, "JPY"),
                    charge("806", "2025-02-10", 12_000, "EUR") {
                        $0.revocationDate = AnalystLog.date("2025-02-12T12:00:00Z")
                        $0.revocationType = "REFUND_AMOUNT"
                        $0.refundedPrice = 15_000
                    },
                    charge("801", "2025-02-13", 10_000, "USD"),
                    charge("802", "2025-02-14", 10_000, "USD"),
                ], log)

            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', day, currency, gross, refunded, 'unconverted', coalesce(unconverted, 0))
                    from analyst.revenue_in('EUR')
                    where payments > 0
                    order by day, currency
                    """) == [
                        "2025-02-09 IDR 62500.000 0.000 unconverted 0",
                        "2025-02-10 EUR 12.000 15.000 unconverted 0",
                        "2025-02-10 JPY 9.375 0.000 unconverted 0",
                        "2025-02-10 KWD 3.856 0.000 unconverted 0",
                        "2025-02-13 USD 8.000 0.000 unconverted 0",
                        "2025-02-14 USD unconverted 10.000",
                    ])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', day, currency, paid, commission, 'unestimated', unestimated)
                    from analyst.proceeds
                    order by day, currency
                    """) == [
                        "2025-02-09 IDR 1000000000.000 unestimated 1000000000.000",
                        "2025-02-10 EUR -3.000 -0.900 unestimated 0",
                        "2025-02-10 JPY 1500.000 450.000 unestimated 0",
                        "2025-02-10 KWD 1.234 0.370 unestimated 0",
                        "2025-02-13 USD 10.000 3.000 unestimated 0",
                        "2025-02-14 USD 10.000 3.000 unestimated 0",
                    ])
            #expect(
                try await log.lines(
                    """
                    select day::text
                    from analyst.rates_in('USD')
                    where currency = 'EUR' and rate = 1.25
                    order by day
                    """) == ["2025-02-09", "2025-02-10", "2025-02-11", "2025-02-12", "2025-02-13"])
        }
    }

    @Test("opening and movements are the monthly value of each day, in every simulated story")
    func law() async throws {
        let simulation = try #require(AnalystLog.simulation(seed: TestSeed.value, subscriptions: 84, format: .v2))
        try await SimulatedLog.with { log in
            try await log.append(try await AnalystLog.verified(simulation.deliveries))
            try await log.append(linksOf: simulation)
            try await AnalystLog.fold(log)

            #expect(try await log.lines(Self.broken) == [])
            #expect(try await log.lines(Self.brokenParts) == [])
        }
    }

    private static let broken: StaticString = """
        with held as (
          select day, currency, mrr from analyst.mrr
          union all
          select day::date, currency, mrr
          from analyst.mrr_in_grace_detail
          cross join generate_series(first_day, least(last_day, current_date), interval '1 day') as day
        ), daily as (
          select day, currency, sum(mrr) as mrr from held group by day, currency
        ), moved as (
          select day + 1 as day, currency, sum(mrr) as net from analyst.mrr_movements_detail group by day, currency
        ), summed as (
          select calendar.day, calendar.currency, coalesce(daily.mrr, 0) as mrr,
            sum(coalesce(moved.net, 0)) over (partition by calendar.currency order by calendar.day) as movements
          from (
            select day::date, currency
            from generate_series(timestamp '2025-01-01', '2026-07-01', interval '1 day') as day
            cross join (select distinct currency from moved) as currency
          ) as calendar
          left join daily using (day, currency)
          left join moved using (day, currency)
        )
        select format('%s %s: %s is not %s', day, currency, movements, mrr) from summed where movements <> mrr
        union all
        select 'no movements of five kinds'
        where (select count(distinct movement) from analyst.mrr_movements_detail) < 5
        """

    /// Of each part at the end of each month, and of their movements beside those of the customers.
    private static let brokenParts: StaticString = """
        with held as (
          select store, product_id, length, country, currency, offer_type, first_day, last_day, mrr from analyst.mrr_detail
          union all
          select store, product_id, length, country, currency, offer_type, first_day, last_day, mrr
          from analyst.mrr_in_grace_detail
        ), ended as (
          select (next - interval '1 month')::date as month, to_jsonb(array[
            store, product_id, length, country, currency, offer_type::text]) as part, sum(mrr) as mrr
          from held
          join generate_series(timestamp '2025-02-01', date_trunc('month', now()), interval '1 month') as next
            on next::date between first_day and last_day
          where mrr > 0
          group by 1, 2
        ), closed as (
          select month, to_jsonb(array[store, product_id, length, country, currency, offer_type::text]) as part, closing
          from analyst.mrr_movement_parts
          where month < date_trunc('month', now()) and closing <> 0
        )
        select format('%s %s: %s is not %s', month, part, closing, mrr)
        from ended
        full join closed using (month, part)
        where mrr is distinct from closing
        union all
        select format('%s %s: movements differ by %s', month, currency, difference)
        from (
          select month, currency, abs(sum(part.new) - whole.new) + abs(sum(part.reactivation) - whole.reactivation)
            + abs(sum(part.expansion) - whole.expansion) + abs(sum(part.contraction) - whole.contraction)
            + abs(sum(part.churn) - whole.churn) + abs(sum(part.moved)) as difference
          from analyst.mrr_movement_parts as part
          join analyst.mrr_movements as whole using (month, currency)
          group by month, currency, whole.new, whole.reactivation, whole.expansion, whole.contraction, whole.churn
        ) as compared
        where difference > 0.1
        union all
        select 'nothing moved'
        where not exists (select from analyst.mrr_movement_parts where moved <> 0)
        """
}
