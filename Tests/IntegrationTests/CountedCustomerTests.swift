import Subscriptions
import TestSupport
import Testing

@Suite("The analyst views count a customer once, whose subscriptions are many")
struct CountedCustomerTests {
    private static let first = "aaaaaaaa-0000-4000-8000-000000000001"
    private static let second = "bbbbbbbb-0000-4000-8000-000000000002"

    private static let movements: StaticString = """
        select concat_ws(' ', left(customer_id, 1), movement, (at at time zone 'UTC')::date, churn_reason, reason_stated)
        from analyst.customer_movements_detail
        order by at, customer_id, movement
        """

    private static func charge(
        _ id: String, _ start: String, _ end: String, of account: String, trial isTrial: Bool = false
    ) -> Transaction {
        AnalystLog.charge(id, start, end, reason: "PURCHASE") {
            $0.appAccountToken = account
            $0.offerDiscountType = isTrial ? "FREE_TRIAL" : nil
        }
    }

    private static func expired(_ subscription: String, intent: Int) -> RenewalInfo {
        var renewal = RenewalInfo(originalTransactionId: subscription)
        renewal.expirationIntent = intent
        return renewal
    }

    @Test("the end of one of two subscriptions is a contraction, and the end of the last one is churn, with its reason")
    func several() async throws {
        try await SimulatedLog.with { log in
            try await AnalystLog.fold(
                [
                    AnalystLog.Stated("2025-04-15", [Self.charge("10", "2025-04-15", "2025-05-15", of: Self.first)]),
                    AnalystLog.Stated(
                        "2025-04-20",
                        [
                            Self.charge("20", "2025-04-20", "2025-06-20", of: Self.first),
                            Self.charge("30", "2025-04-20", "2025-05-20", of: Self.second, trial: true),
                        ]),
                    AnalystLog.Stated("2025-05-15T00:00:01Z", [], [Self.expired("10", intent: 1)]),
                    AnalystLog.Stated("2025-06-20T00:00:01Z", [], [Self.expired("20", intent: 2)]),
                ], log)

            #expect(
                try await log.lines(Self.movements) == [
                    "a new 2025-04-15", "b new 2025-04-20", "a contraction 2025-05-15 voluntary t",
                    "b trial_lost 2025-05-20 unknown f", "a churn 2025-06-20 billing t",
                ])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', day, paying, in_trial, in_grace)
                    from analyst.active_customers
                    where day in ('2025-04-16', '2025-05-01', '2025-05-16', '2025-05-21', '2025-06-20')
                    order by day
                    """) == [
                        "2025-04-16 1 0 0", "2025-05-01 1 1 0", "2025-05-16 1 1 0", "2025-05-21 1 0 0",
                        "2025-06-20 0 0 0",
                    ])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', month, new, returned, trials_lost, churned, net, contracted)
                    from analyst.customer_movements
                    order by month
                    """) == ["2025-04-01 2 0 0 0 2 0", "2025-05-01 0 0 1 0 -1 1", "2025-06-01 0 0 0 1 -1 0"])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', month, customers, churned, voluntary, involuntary, churn_percent,
                      voluntary_percent, involuntary_percent)
                    from analyst.customer_churn_rate
                    order by month
                    """) == ["2025-05-01 1 0 0 0 0.0 0.0 0.0", "2025-06-01 1 1 0 1 100.0 0.0 100.0"])
        }
    }

    @Test("a subscription that another customer takes over is churn of the one and new of the other")
    func transferred() async throws {
        try await SimulatedLog.with { log in
            try await AnalystLog.fold(
                [
                    AnalystLog.Stated("2025-05-01", [Self.charge("40", "2025-05-01", "2025-06-01", of: Self.first)]),
                    AnalystLog.Stated("2025-05-10", [Self.charge("40-2", "2025-05-10", "2025-06-10", of: Self.second)]),
                ], log)

            #expect(
                try await log.lines(Self.movements) == [
                    "a new 2025-05-01", "a churn 2025-05-10 transferred", "b new 2025-05-10",
                    "b churn 2025-06-10 unknown f",
                ])
            #expect(
                try await log.lines(
                    """
                    select concat_ws(' ', day, paying)
                    from analyst.active_customers
                    where day in ('2025-05-02', '2025-05-10', '2025-06-09', '2025-06-10')
                    order by day
                    """) == ["2025-05-02 1", "2025-05-10 1", "2025-06-09 1", "2025-06-10 0"])
        }
    }
}
