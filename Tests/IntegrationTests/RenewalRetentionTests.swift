import Subscriptions
import TestSupport
import Testing

@Suite("Renewal retention counts what became of each payment")
struct RenewalRetentionTests {
    private static func renewal(
        _ subscription: String, isOn: Bool, change: (inout RenewalInfo) -> Void = { _ in }
    ) -> RenewalInfo {
        var renewal = RenewalInfo(originalTransactionId: subscription)
        renewal.autoRenewStatus = isOn
        change(&renewal)
        return renewal
    }

    private static let rates: StaticString = """
        select format('%s %s %s: %s due, %s on time, %s changed, %s lost (%s, %s, %s again), %s open, %s%%', cohort,
          product_id, renewal_number, due, on_time, changed_plan, lost, lost_voluntary, lost_involuntary, resubscribed,
          undecided, coalesce(renewed_percent::text, 'no '))
        from analyst.renewal_retention
        order by cohort, product_id, renewal_number
        """

    @Test("a subscription that renews once and is switched off is renewed after 1 payment and lost after 2")
    func lost() async throws {
        let first = AnalystLog.charge("10", "2025-05-01", "2025-06-01", reason: "PURCHASE")
        let second = AnalystLog.charge("10-2", "2025-06-01", "2025-07-01")
        let expired = Self.renewal("10", isOn: false) { $0.expirationIntent = 1 }

        try await SimulatedLog.with { log in
            try await AnalystLog.fold(
                [
                    AnalystLog.Stated("2025-05-01", [first], [Self.renewal("10", isOn: true)]),
                    AnalystLog.Stated("2025-06-01", [second], [Self.renewal("10", isOn: true)]),
                    AnalystLog.Stated("2025-07-01", [second], [expired]),
                ], log)

            #expect(
                try await log.lines(Self.rates) == [
                    "2025-05-01 monthly 1: 1 due, 1 on time, 0 changed, 0 lost (0, 0, 0 again), 0 open, 100.0%",
                    "2025-05-01 monthly 2: 1 due, 0 on time, 0 changed, 1 lost (1, 0, 0 again), 0 open, 0.0%",
                ])
        }
    }

    @Test("a renewal is undecided in grace, and is not due before the period ends")
    func undecided() async throws {
        let failed = AnalystLog.charge("10", "2025-05-01", "2025-06-01", reason: "PURCHASE")
        let running = AnalystLog.charge("20", "2025-05-01", "2098-06-01", reason: "PURCHASE")
        let retried = Self.renewal("10", isOn: true) {
            $0.isInBillingRetryPeriod = true
            $0.gracePeriodExpiresDate = AnalystLog.date("2098-06-17")
        }

        try await SimulatedLog.with { log in
            try await AnalystLog.fold(
                [
                    AnalystLog.Stated("2025-05-01", [failed, running], [Self.renewal("10", isOn: true)]),
                    AnalystLog.Stated("2025-06-01", [failed], [retried]),
                ], log)

            #expect(
                try await log.lines(Self.rates) == [
                    "2025-05-01 monthly 1: 1 due, 0 on time, 0 changed, 0 lost (0, 0, 0 again), 1 open, no %"
                ])
        }
    }

    @Test("a failed renewal is lost to billing; bought again later, it stays lost and begins a cohort of its own")
    func boughtAgain() async throws {
        let failed = AnalystLog.charge("10", "2025-05-01", "2025-06-01", reason: "PURCHASE")
        let again = AnalystLog.charge("10-2", "2025-09-10", "2025-10-10", reason: "PURCHASE")
        let expired = Self.renewal("10", isOn: false) { $0.expirationIntent = 2 }

        try await SimulatedLog.with { log in
            try await AnalystLog.fold(
                [
                    AnalystLog.Stated("2025-05-01", [failed], [Self.renewal("10", isOn: true)]),
                    AnalystLog.Stated("2025-07-31", [failed], [expired]),
                    AnalystLog.Stated("2025-09-10", [again], [Self.renewal("10", isOn: true)]),
                ], log)

            #expect(
                try await log.lines(Self.rates) == [
                    "2025-05-01 monthly 1: 1 due, 0 on time, 0 changed, 1 lost (0, 1, 1 again), 0 open, 0.0%",
                    "2025-09-01 monthly 1: 1 due, 0 on time, 0 changed, 1 lost (0, 0, 0 again), 0 open, 0.0%",
                ])
        }
    }

    @Test("a change of plan is no renewal, and the new product has its own cohort")
    func changedPlan() async throws {
        let first = AnalystLog.charge("10", "2025-05-01", "2025-06-01", reason: "PURCHASE")
        let other = AnalystLog.charge("10-2", "2025-06-01", "2025-07-01", product: "premium")

        try await SimulatedLog.with { log in
            try await AnalystLog.fold(
                [
                    AnalystLog.Stated("2025-05-01", [first], [Self.renewal("10", isOn: true)]),
                    AnalystLog.Stated("2025-06-01", [other], [Self.renewal("10", isOn: true)]),
                ], log)

            #expect(
                try await log.lines(Self.rates) == [
                    "2025-05-01 monthly 1: 1 due, 0 on time, 1 changed, 0 lost (0, 0, 0 again), 0 open, 0.0%",
                    "2025-06-01 premium 1: 1 due, 0 on time, 0 changed, 1 lost (0, 0, 0 again), 0 open, 0.0%",
                ])
        }
    }
}
