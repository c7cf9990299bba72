import Postgres
import StoreSimulator
import Subscriptions
import TestSupport
import Testing

@Suite("Reporting columns of access periods")
struct ReportingPeriodTests {
    @Test(
        "the columns match window functions over the subscription for every story, shuffled and repeated",
        .timeLimit(.minutes(5)), arguments: [Simulation.Format.v2, .both])
    func windows(_ format: Simulation.Format) async throws {
        let simulation = try #require(AnalystLog.simulation(seed: TestSeed.value, subscriptions: 84, format: format))
        try await SimulatedLog.with { log in
            // Two batches, so that existing rows must be updated.
            let half = simulation.deliveries.count / 2
            try await log.append(try await AnalystLog.verified(simulation.deliveries.prefix(half)))
            try await AnalystLog.fold(log)
            try await log.append(try await AnalystLog.verified(simulation.deliveries.dropFirst(half)))
            try await AnalystLog.fold(log)

            let seen = try await log.lines(Self.seen)
            let wrong = try await log.lines(Self.wrong)
            let wrongLast = try await log.lines(Self.wrongLast)

            // Each case occurs in some story, so that the comparison is not empty.
            #expect(seen.allSatisfy { $0.hasSuffix(" t") }, "\(seen)")
            #expect(wrong == [])
            #expect(wrongLast == [])
        }
    }

    @Test("columns that a migration left empty are filled from stored facts", .timeLimit(.minutes(5)))
    func migrated() async throws {
        let simulation = try #require(AnalystLog.simulation(seed: TestSeed.value, subscriptions: 84, format: .v2))
        try await SimulatedLog.with { log in
            try await log.append(try await AnalystLog.verified(simulation.deliveries[...]))
            try await AnalystLog.fold(log)
            // The state after the migration.
            let version = try await log.lines("select distinct projection_version::text from subledger.checkpoint")
            try await log.script(
                "update subledger.access_period set expiration_intent = null;"
                    + " update subledger.subscription set first_start = null, last_expiration_intent = null;"
                    + " update subledger.checkpoint set projection_version = 0")
            #expect(try await log.lines(Self.wrong) != [])
            #expect(try await log.lines(Self.wrongLast) != [])
            let told = try await log.lines("select count(*)::text from subledger.change")

            try await AnalystLog.fold(log)

            #expect(try await log.lines(Self.wrong) == [])
            #expect(try await log.lines(Self.wrongLast) == [])
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
            count(churned_at) as gaps,
            count(expiration_intent) as reasons,
            count(first_month) as anniversaries,
            (select count(last_expiration_intent) from subledger.subscription) as lasts
          from subledger.access_period
        ) as counts
        cross join lateral (
          values
            ('trials', trials), ('graces', graces), ('followers', followers), ('products', products), ('cuts', cuts),
            ('gaps', gaps), ('reasons', reasons), ('anniversaries', anniversaries), ('lasts', lasts)
        ) as seen (name, count)
        """

    private static let wrong: StaticString = """
        with gap as (
          select
            *,
            lead(starts_at) over subscription as next,
            max(ends_at) over (subscription rows unbounded preceding) as before
          from subledger.access_period
          where cause in ('paid', 'grace')
          window subscription as (
            partition by stream_id, original_transaction_id order by starts_at, cause desc, transaction_id
          )
        ), reason as (
          select gap.stream_id, gap.original_transaction_id, gap.transaction_id, gap.cause, said.intent
          from gap
          join subledger.subscription using (stream_id, original_transaction_id)
          cross join lateral (
            -- The last that was said while it ran, or before it began again.
            select said.intent
            from (
              select (value ->> 'statedAt')::timestamptz as at, (value -> 'fact' ->> 'expirationIntent')::integer as intent,
                ordinality
              from jsonb_array_elements(subscription.facts::jsonb -> 'renewals') with ordinality
            ) as said
            where said.at < gap.next
              and said.at >= (
                select max(first.starts_at)
                from gap as first
                where first.stream_id = gap.stream_id
                  and first.original_transaction_id = gap.original_transaction_id
                  and first.starts_at <= gap.starts_at
                  and not exists (
                    select
                    from gap as covering
                    where covering.stream_id = first.stream_id
                      and covering.original_transaction_id = first.original_transaction_id
                      and covering.starts_at < first.starts_at
                      and covering.ends_at >= first.starts_at
                  )
              )
            order by said.at desc, said.ordinality desc
            limit 1
          ) as said
          where gap.next > gap.before
        ), ordered as (
          select
            *,
            min(starts_at) over subscription as first,
            max(ends_at) over subscription as before,
            max(case when cause = 'paid' then ends_at end) over subscription as paid_before,
            lag(cut) over subscription as cut_before,
            lag(product_id) over subscription as product_before,
            lead(starts_at) over subscription as next
          from subledger.access_period
          where cause in ('paid', 'grace')
          window subscription as (
            partition by stream_id, original_transaction_id
            order by starts_at, cause desc, transaction_id
            rows between unbounded preceding and 1 preceding
          )
        ), stated as (
          select
            ordered.*,
            reason.intent as right_intent,
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
                  (case cause when 'grace' then least(ends_at, next) else ends_at end) at time zone 'UTC'
            ) as months
          from ordered
          join subledger.transaction using (stream_id, original_transaction_id, transaction_id)
          left join reason using (stream_id, original_transaction_id, transaction_id, cause)
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
          or effective_end is distinct from case when cause = 'grace' and next < ends_at then next end
          or churned_at is distinct from case when next > greatest(before, ends_at) then greatest(before, ends_at) end
          or expiration_intent is distinct from right_intent
          or first_month is distinct from months[1]
          or last_month is distinct from months[array_upper(months, 1)]
        """

    private static let wrongLast: StaticString = """
        select format('%s %s', original_transaction_id, last_transaction_id)
        from subledger.subscription
        left join lateral (
          select transaction_id, cause, product_id, payer_state
          from subledger.access_period
          where access_period.stream_id = subscription.stream_id
            and access_period.original_transaction_id = subscription.original_transaction_id
            and access_period.cause <> 'owned'
          order by starts_at desc, cause, transaction_id desc
          limit 1
        ) as last on true
        left join lateral (
          -- When the first of all began, and the first that no other ran into.
          select min(starts_at) as first, max(starts_at) filter (where not exists (
            select
            from subledger.access_period as other
            where other.stream_id = own.stream_id
              and other.original_transaction_id = own.original_transaction_id
              and other.cause <> 'owned'
              and other.starts_at < own.starts_at
              and other.ends_at >= own.starts_at
          )) as stretch
          from subledger.access_period as own
          where own.stream_id = subscription.stream_id
            and own.original_transaction_id = subscription.original_transaction_id
            and own.cause <> 'owned'
        ) as start on true
        left join lateral (
          select (value -> 'fact' ->> 'expirationIntent')::integer as intent
          from jsonb_array_elements(subscription.facts::jsonb -> 'renewals') with ordinality
          where (value ->> 'statedAt')::timestamptz >= start.stretch
          order by (value ->> 'statedAt')::timestamptz desc, ordinality desc
          limit 1
        ) as said on true
        where (last_transaction_id, last_cause, last_product_id, last_payer_state, first_start, last_expiration_intent)
          is distinct from (last.transaction_id, last.cause, last.product_id, last.payer_state, start.first, said.intent)
        """
}
