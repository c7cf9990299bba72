import Subscriptions
import TestSupport
import Testing

@Suite("The analyst views count subscriptions that renew, while they are held")
struct CountedSubscriptionTests {
    @Test("a purchase refunded in full counts until the refund, and its money and its trial never")
    func refunded() async throws {
        try await SimulatedLog.with { log in
            let trial = AnalystLog.charge("10", "2025-04-24", "2025-05-01", reason: "PURCHASE") {
                $0.offerType = 1
                $0.offerDiscountType = "FREE_TRIAL"
                $0.price = 0
            }
            let paid = AnalystLog.charge("10-2", "2025-05-01", "2025-06-01")
            let refunded = AnalystLog.charge("10-2", "2025-05-01", "2025-06-01") {
                $0.revocationDate = AnalystLog.date("2025-05-10T12:00:00Z")
                $0.revocationType = "REFUND_FULL"
            }

            try await AnalystLog.fold(
                [
                    AnalystLog.Stated("2025-04-24", [trial]), AnalystLog.Stated("2025-05-01", [paid]),
                    AnalystLog.Stated("2025-05-10T12:00:00Z", [refunded]),
                ], log)

            #expect(
                try await log.lines(
                    """
                    select format('%s %s %s', day, in_trial, paying)
                    from analyst.active_subscriptions
                    where day in ('2025-04-25', '2025-05-01', '2025-05-10', '2025-05-11')
                    order by day
                    """) == ["2025-04-25 1 0", "2025-05-01 0 1", "2025-05-10 0 1", "2025-05-11 0 0"])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', movement, (at at time zone 'UTC')::date, churn_reason, reason_stated)
                    from analyst.movements_detail
                    order by at, movement
                    """) == ["trial_start 2025-04-24", "conversion 2025-05-01", "churn 2025-05-10 refund t"])
            #expect(try await log.lines("select count(*)::text from analyst.mrr") == ["0"])
            #expect(try await log.lines("select outcome from analyst.trials_detail") == ["lost"])
            #expect(
                try await log.lines("select format('%s %s', cut, is_refunded) from analyst.held_periods order by 1")
                    == [" f", "refunded t"])
            #expect(try await log.lines("select product_id from subledger.access_period") == ["monthly"])
        }
    }

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
                    union select product_id from analyst.active_subscriptions
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
