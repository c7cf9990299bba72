import Subscriptions
import TestSupport
import Testing

@Suite("The analyst views count subscriptions that renew")
struct CountedSubscriptionTests {
    @Test("a non-renewing subscription gives access, and no view counts it")
    func nonRenewing() async throws {
        try await SimulatedLog.with { log in
            try await log.script(
                """
                insert into subledger.product (app, product_id, kind, duration)
                values ('\(AnalystLog.app)', 'season', 'non-renewing', 'P3M')
                """)
            let season = AnalystLog.charge("20", "2025-05-10", nil, product: "season", reason: "PURCHASE") {
                $0.type = "Non-Renewing Subscription"
            }
            let monthly = AnalystLog.charge("10", "2025-05-01", "2025-06-01", reason: "PURCHASE")

            try await AnalystLog.fold(
                [AnalystLog.Stated("2025-05-01", [monthly]), AnalystLog.Stated("2025-05-10", [season])], log)

            #expect(
                try await log.lines(
                    """
                    select format('%s until %s', product_id, (ends_at at time zone 'UTC')::date)
                    from subledger.access_period
                    order by 1
                    """) == ["monthly until 2025-06-01", "season until 2025-08-10"])
            #expect(
                try await log.lines(
                    """
                    select distinct product_id from analyst.periods
                    union select product_id from analyst.active_subscribers
                    union select product_id from analyst.movements
                    union select product_id from analyst.mrr_detail
                    """) == ["monthly"])
            #expect(
                try await log.lines(
                    "select format('%s %s', subscriptions, unpriced) from analyst.mrr where day = '2025-05-15'")
                    == ["1 0"])
            #expect(
                try await log.lines("select subscriptions::text from analyst.retention where months_since = 0")
                    == ["1"])
        }
    }
}
