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

    @Test("the outlook has each running subscription by the state of its renewal, with the next price or the last one")
    func outlook() async throws {
        func renewal(of subscription: String, _ isOn: Bool?, price: Int64? = nil) -> RenewalInfo {
            var renewal = RenewalInfo(originalTransactionId: subscription)
            renewal.autoRenewStatus = isOn
            renewal.renewalPrice = price
            return renewal
        }
        func charge(_ id: String, until end: String, change: (inout Transaction) -> Void = { _ in }) -> Transaction {
            AnalystLog.charge(id, "2025-05-01", end, reason: "PURCHASE", change: change)
        }
        try await SimulatedLog.with { log in
            try await AnalystLog.fold(
                [
                    AnalystLog.Stated("2025-05-01", [charge("10", until: "2099-06-01")], [renewal(of: "10", true)]),
                    AnalystLog.Stated(
                        "2025-05-01", [charge("20", until: "2099-06-30")], [renewal(of: "20", true, price: 5_990)]),
                    AnalystLog.Stated("2025-05-01", [charge("30", until: "2099-07-01")], [renewal(of: "30", false)]),
                    AnalystLog.Stated(
                        "2025-05-01",
                        [
                            charge("40", until: "2099-07-31") {
                                $0.offerType = 1
                                $0.offerDiscountType = "FREE_TRIAL"
                                $0.price = 0
                            }
                        ], [renewal(of: "40", nil)]),
                    AnalystLog.Stated("2025-05-01", [charge("50", until: "2025-06-01")], [renewal(of: "50", true)]),
                    AnalystLog.Stated(
                        "2025-05-01", [charge("60", until: "2099-06-01") { $0.inAppOwnershipType = "FAMILY_SHARED" }]),
                    AnalystLog.Stated(
                        "2025-05-02",
                        [charge("70", until: "2099-06-01") { $0.revocationDate = AnalystLog.date("2025-05-02") }]),
                ], log)

            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', month, payer_state, auto_renew, subscriptions, amount, unpriced)
                    from analyst.renewal_outlook
                    order by 1
                    """) == [
                        "2099-06-01 paying on 2 10.980 0", "2099-07-01 paying off 1 4.990 0",
                        "2099-07-01 trial unknown 1 1",
                    ])
        }
    }

    @Test("the churn rate divides by the paying subscriptions at the start of the month, by cause; trials do not count")
    func churnRate() async throws {
        func expired(_ subscription: String, intent: Int) -> RenewalInfo {
            var renewal = RenewalInfo(originalTransactionId: subscription)
            renewal.expirationIntent = intent
            return renewal
        }
        let subscriptions = (1...5).map { AnalystLog.charge("\($0)0", "2025-04-15", "2025-05-15") }
        let trial = AnalystLog.charge("60", "2025-04-20", "2025-05-20") { $0.offerDiscountType = "FREE_TRIAL" }
        let renewed = AnalystLog.charge("50-2", "2025-05-15", "2025-06-15")
        try await SimulatedLog.with { log in
            try await AnalystLog.fold(
                [
                    AnalystLog.Stated("2025-04-15", subscriptions), AnalystLog.Stated("2025-04-20", [trial]),
                    AnalystLog.Stated("2025-05-15T00:00:01Z", [], [expired("10", intent: 1)]),
                    AnalystLog.Stated("2025-05-15T00:00:02Z", [], [expired("20", intent: 2)]),
                    AnalystLog.Stated("2025-05-15T00:00:03Z", [], [expired("30", intent: 3)]),
                    AnalystLog.Stated("2025-05-15T00:00:04Z", [], [expired("40", intent: 4)]),
                    AnalystLog.Stated("2025-05-15T00:00:05Z", [renewed]),
                ], log)

            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', month, subscriptions, churned, voluntary, involuntary, churn_percent,
                      voluntary_percent, involuntary_percent)
                    from analyst.churn_rate
                    order by month
                    """) == ["2025-05-01 5 4 2 1 80.0 40.0 20.0", "2025-06-01 1 1 0 0 100.0 0.0 0.0"])
        }
    }

    @Test(
        "a purchase counts as refunded in the month of the purchase, a reversed refund does not, and a copy counts once"
    )
    func refundRate() async throws {
        func refund(_ transaction: Transaction, _ date: String, part percentage: Int? = nil) -> Transaction {
            var refunded = transaction
            refunded.revocationDate = AnalystLog.date(date)
            refunded.revocationType = percentage == nil ? "REFUND_FULL" : "REFUND_PRORATED"
            refunded.revocationPercentage = percentage
            return refunded
        }
        let charges = (1...4).map { number in
            AnalystLog.charge("\(number)0", "2025-05-01", "2025-06-01") { $0.webOrderLineItemId = "8\(number)" }
        }
        let copy = AnalystLog.charge("90", "2025-05-01", "2025-06-01") { $0.webOrderLineItemId = "81" }
        try await SimulatedLog.with { log in
            try await AnalystLog.fold(
                [
                    AnalystLog.Stated("2025-05-01", charges), AnalystLog.Stated("2025-05-02", [copy]),
                    AnalystLog.Stated("2025-05-03", [refund(charges[1], "2025-05-03")]),
                    AnalystLog.Stated("2025-07-04", [refund(charges[2], "2025-05-04", part: 25_000)]),
                    AnalystLog.Stated("2025-05-05", [refund(charges[3], "2025-05-05")]),
                    AnalystLog.Stated("2025-05-06", [charges[3]]),
                ], log)

            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', month, currency, purchases, refunded, refunded_percent, amount, refunded_amount,
                      refunded_amount_percent)
                    from analyst.refund_rate
                    """) == ["2025-05-01 USD 4 2 50.0 19.960 6.238 31.3"])
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
