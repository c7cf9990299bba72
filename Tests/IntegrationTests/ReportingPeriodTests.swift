import Postgres
import Simulation
import Subscriptions
import TestSupport
import Testing

@Suite("Reporting columns of access periods")
struct ReportingPeriodTests {
    /// The queries below take each purchase for a period and each report for one of its subscription. Seats that are added
    /// pay for a part of a period, and moved purchases take their reports along: see `SeatMoneyTests` and `MovedTransactionTests`.
    private static let stories = Story.allCases.filter {
        ![.seats, .seatsRefunded, .seatsUnclaimed, .moved, .movedBack].contains($0)
    }

    @Test(
        "the columns match window functions over the subscription for every story, shuffled and repeated",
        .timeLimit(.minutes(5)), arguments: [Simulation.Format.v2, .both])
    func windows(_ format: Simulation.Format) async throws {
        let simulation = try #require(
            AnalystLog.simulation(
                seed: TestSeed.value, subscriptions: 84, format: format, stories: Self.stories))
        try await SimulatedLog.with { log in
            // Two batches, so that existing rows must be updated.
            let half = simulation.deliveries.count / 2
            try await log.append(try await AnalystLog.verified(simulation.deliveries.prefix(half)))
            try await AnalystLog.fold(log)
            try await log.append(try await AnalystLog.verified(simulation.deliveries.dropFirst(half)))
            try await AnalystLog.fold(log)

            let seen = try await log.lines(Self.seen)
            let wrong = try await log.lines(Self.wrong)
            let wrongEnds = try await log.lines(Self.ended)
            let wrongRuns = try await log.lines(RenewalRunColumns.wrong)

            // Each case occurs in some story, so that the comparison is not empty.
            #expect(seen.allSatisfy { $0.hasSuffix(" t") }, "\(seen)")
            #expect(wrong == [])
            #expect(wrongEnds == [])
            #expect(wrongRuns == [])
        }
    }

    @Test("columns that a migration left empty are filled from stored facts", .timeLimit(.minutes(5)))
    func migrated() async throws {
        let simulation = try #require(
            AnalystLog.simulation(
                seed: TestSeed.value, subscriptions: 84, format: .v2, stories: Self.stories))
        try await SimulatedLog.with { log in
            try await log.append(try await AnalystLog.verified(simulation.deliveries[...]))
            try await AnalystLog.fold(log)
            // The state after the migration.
            let version = try await log.lines("select distinct projection_version::text from subledger.checkpoint")
            try await log.script(
                "update subledger.access_period set previous_end = null, churn_reason = null, payment_number = null;"
                    + " update subledger.subscription set first_start = null, last_churn_reason = null;"
                    + " update subledger.subscription set last_paid_end = null;"
                    + " update subledger.checkpoint set projection_version = 0")
            #expect(try await log.lines(Self.wrong) != [])
            #expect(try await log.lines(Self.ended) != [])
            #expect(try await log.lines(RenewalRunColumns.wrong) != [])
            let told = try await log.lines("select count(*)::text from subledger.change")

            try await AnalystLog.fold(log)

            #expect(try await log.lines(Self.wrong) == [])
            #expect(try await log.lines(Self.ended) == [])
            #expect(try await log.lines(RenewalRunColumns.wrong) == [])
            #expect(
                try await log.lines("select distinct projection_version::text from subledger.checkpoint") == version)
            #expect(try await log.lines("select count(*)::text from subledger.change") == told)
        }
    }

    private static let seen: StaticString = """
        select format('%s %s', name, count > 0)
        from (
          select
            count(*) filter (where payer_state = 'trial') as trials,
            count(*) filter (where payer_state = 'grace') as graces,
            count(previous_end) as followers,
            count(previous_product_id) as products,
            count(previous_cut) as cuts,
            count(*) filter (where cut = 'refunded') as refunds,
            count(churned_at) as gaps,
            count(*) filter (where churn_reason <> 'unknown') as reasons,
            count(first_month) as anniversaries,
            (select count(*) from subledger.subscription where last_churn_reason <> 'unknown') as lasts,
            (select count(*) from subledger.subscription where not last_reason_stated) as inferred
          from (
            table subledger.access_period
            union all
            table subledger.refunded_period
          ) as held
        ) as counts
        cross join lateral (
          values
            ('trials', trials), ('graces', graces), ('followers', followers), ('products', products), ('cuts', cuts),
            ('refunds', refunds),
            ('gaps', gaps), ('reasons', reasons), ('anniversaries', anniversaries), ('lasts', lasts),
            ('inferred', inferred)
        ) as seen (name, count)
        """

    /// The period that ends last of each unbroken stretch of access, with the reason of that end.
    private static let ended: StaticString = """
        with held as (
          table subledger.access_period
          union all
          table subledger.refunded_period
        ), placed as (
          select
            *,
            max(ends_at) over (subscription rows between unbounded preceding and 1 preceding) as before
          from held
          where payer_state is not null
          window subscription as (
            partition by stream_id, original_transaction_id order by starts_at, cause = 'grace', transaction_id
          )
        ), numbered as (
          select
            *,
            count(*) filter (where starts_at > before) over (subscription rows unbounded preceding) as number
          from placed
          window subscription as (
            partition by stream_id, original_transaction_id order by starts_at, cause = 'grace', transaction_id
          )
        ), stretch as (
          select
            stream_id, original_transaction_id, number, min(starts_at) as began,
            lead(min(starts_at)) over (partition by stream_id, original_transaction_id order by number) as next,
            max(number) over (partition by stream_id, original_transaction_id) as last
          from numbered
          group by stream_id, original_transaction_id, number
        ), ending as (
          select distinct on (stream_id, original_transaction_id, number) *
          from numbered
          join stretch using (stream_id, original_transaction_id, number)
          order by stream_id, original_transaction_id, number, ends_at desc, starts_at desc, cause = 'grace' desc,
            transaction_id desc
        ), report as (
          select
            subscription.stream_id,
            subscription.original_transaction_id,
            (value ->> 'statedAt')::timestamptz as at,
            ordinality,
            (value -> 'fact' ->> 'expirationIntent')::integer as intent,
            (value -> 'fact' ->> 'autoRenewStatus')::boolean as auto_renew,
            coalesce((value -> 'fact' ->> 'autoRenewStatusChangeDate')::timestamptz, (value ->> 'statedAt')::timestamptz)
              as changed_at,
            coalesce((value -> 'fact' ->> 'isInBillingRetryPeriod')::boolean, false) as is_retried
          from subledger.subscription
          cross join jsonb_array_elements(subscription.facts::jsonb -> 'renewals') with ordinality
        ), ended as (
          select
            ending.*,
            coalesce(cut in ('refunded', 'refunded_in_part'), false) or said.intent is not null as right_stated,
            case
              when cut in ('refunded', 'refunded_in_part') then 'refund'
              when said.intent is not null then
                coalesce((array['voluntary', 'billing', 'price', 'unavailable'])[said.intent], 'other')
              when cut = 'switched_off' or not in_force.auto_renew then 'voluntary'
              when cause = 'grace' or in_force.is_retried or said.is_retried_after then 'billing'
              else 'unknown'
            end as right_reason
          from ending
          left join lateral (
            select
              (array_agg(intent order by at desc, ordinality desc))[1] as intent,
              bool_or(is_retried and at >= ends_at) as is_retried_after
            from report
            where report.stream_id = ending.stream_id
              and report.original_transaction_id = ending.original_transaction_id
              and report.at >= began
              and (report.at < next or next is null)
          ) as said on true
          left join lateral (
            select auto_renew, is_retried
            from report
            where report.stream_id = ending.stream_id
              and report.original_transaction_id = ending.original_transaction_id
              and report.at >= began
              and (report.at < next or next is null)
              and changed_at <= ends_at
            order by at desc, ordinality desc
            limit 1
          ) as in_force on true
        )
        select format('%s %s %s', original_transaction_id, held.transaction_id, held.cause)
        from held
        left join ended
          using (stream_id, original_transaction_id, transaction_id, cause)
        where (held.churned_at, held.churn_reason, held.reason_stated) is distinct from (
          case when ended.next is not null then ended.ends_at end,
          case when ended.next is not null then ended.right_reason end,
          case when ended.next is not null then ended.right_stated end
        )
        union all
        select format('%s %s', subscription.original_transaction_id, last_transaction_id)
        from subledger.subscription
        left join ended
          on ended.stream_id = subscription.stream_id
          and ended.original_transaction_id = subscription.original_transaction_id
          and ended.number = ended.last
        left join lateral (
          select min(starts_at) as first
          from held
          where held.stream_id = subscription.stream_id
            and held.original_transaction_id = subscription.original_transaction_id
            and held.payer_state is not null
        ) as start on true
        where (
            last_transaction_id, last_cause, last_product_id, last_payer_state, subscription.first_start,
            last_churn_reason, last_reason_stated, last_ends_at
          )
          is distinct from (
            ended.transaction_id, ended.cause, ended.product_id, ended.payer_state, start.first, ended.right_reason,
            ended.right_stated, ended.ends_at
          )
        """

    private static let wrong: StaticString = """
        with held as (
          table subledger.access_period
          union all
          table subledger.refunded_period
        ), ordered as (
          select
            *,
            min(starts_at) over subscription as first,
            max(ends_at) over subscription as before,
            case cause
              when 'refunded' then max(case when cause in ('paid', 'refunded') then ends_at end) over subscription
              else max(case when cause = 'paid' then ends_at end) over subscription
            end as paid_before,
            lag(cut) over subscription as cut_before,
            lag(product_id) over subscription as product_before,
            lead(starts_at) over subscription as next
          from held
          where payer_state is not null
          window subscription as (
            partition by stream_id, original_transaction_id
            order by starts_at, cause = 'grace', transaction_id
            rows between unbounded preceding and 1 preceding
          )
        ), stated as (
          select
            ordered.*,
            transaction.price as right_price,
            transaction.currency as right_currency,
            case
              when transaction.offer_discount_type = 'PAY_UP_FRONT' then transaction.offer_period
              when transaction.billing_plan_type = 'MONTHLY' then 'P1M'
            end as right_period,
            case
              when transaction.in_app_ownership_type = 'FAMILY_SHARED' then 'family'
              when ordered.cause = 'grace' then 'grace'
              when coalesce(transaction.offer_discount_type = 'FREE_TRIAL', transaction.is_trial_period, false)
                then 'trial'
              else 'paying'
            end as right_payer_state,
            (
              select array_agg(month order by month)
              from generate_series(0, 400) as month
              where (coalesce(first, starts_at) at time zone 'UTC') + make_interval(months => month) >=
                  greatest(starts_at, paid_before) at time zone 'UTC'
                and (coalesce(first, starts_at) at time zone 'UTC') + make_interval(months => month) <
                  (case when cause in ('grace', 'refunded') then least(ends_at, next) else ends_at end) at time zone 'UTC'
            ) as months
          from ordered
          join subledger.transaction using (stream_id, original_transaction_id, transaction_id)
        )
        select format('%s %s %s', original_transaction_id, transaction_id, cause)
        from stated
        where payer_state is distinct from right_payer_state
          or price is distinct from right_price
          or currency is distinct from right_currency
          or price_period is distinct from right_period
          or first_start is distinct from coalesce(first, starts_at)
          or previous_end is distinct from before
          or previous_cut is distinct from cut_before
          or previous_product_id is distinct from nullif(product_before, product_id)
          or effective_start is distinct from case when paid_before > starts_at then paid_before end
          or effective_end is distinct from case when cause <> 'paid' and next < ends_at then next end
          or first_month is distinct from months[1]
          or last_month is distinct from months[array_upper(months, 1)]
        """
}
