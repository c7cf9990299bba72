-- From version 6 to version 7: why access last ended is what was said since that stretch of access began, and views of
-- details read all their rows in half the time.
--
-- `subledger migrate` and `subledger serve` apply it, in one transaction. It waits for readers and writers of the tables
-- behind the views below, and rewrites none of them. The projector writes the rows of each stream anew when it runs next,
-- in one transaction, from the facts that they have: until then the last end of a subscription has neither cohort nor
-- reason in analyst.movements_detail. End projectors of version 6 first: they leave both out.

insert into subledger.schema_version (version) values (7);

-- In the order in which analysts come by them.
lock table analyst.movements_detail in access exclusive mode;

alter table subledger.subscription
  add column first_start timestamptz,
  add column last_lapse_intent integer;
comment on column subledger.subscription.first_start is 'When the first period of the line began, not minding what is owned';
comment on column subledger.subscription.last_lapse_intent is
  'Why access ended, if it has, as lapse_intent of access_period: the last that was said since that stretch of access '
  'began; null where Apple said nothing since';

-- With the zone as an interval, which is a subtraction; its name is looked up for each row.
create function subledger.day_from(instant timestamptz) returns date
language sql immutable parallel safe as $$
  select ((instant at time zone interval '0') - interval '1 microsecond')::date + 1
$$;

create function subledger.month_of(instant timestamptz) returns date
language sql immutable parallel safe as $$
  select date_trunc('month', instant at time zone interval '0')::date
$$;

comment on function subledger.day_from is 'The first day whose 00:00 UTC is not before an instant';
comment on function subledger.month_of is 'The first day of the month of an instant, UTC';

create or replace view analyst.periods as
select
  app,
  environment,
  stream_id,
  original_transaction_id,
  transaction_id,
  product_id,
  standing,
  cut,
  starts_at,
  ends_at,
  subledger.day_from(starts_at) as first_day,
  subledger.day_from(ends_at) - 1 as last_day,
  first_start,
  first_month,
  last_month,
  price,
  currency,
  price_period,
  offer_discount_type,
  offer_period,
  positions
from analyst.ordered_periods
-- Said so that the planner expects nearly all.
where (starts_at < ends_at) is distinct from false;

create or replace view analyst.movements_detail as
with movement as (
  select
    app,
    environment,
    stream_id,
    product_id,
    case
      when previous_end is null then 'start'
      when previous_end < starts_at then 'reactivation'
      when standing = 'grace' or previous_cut = 'upgraded' then null
      when starts_at >= ends_at then null
      else 'renewal'
    end as kind,
    starts_at as at,
    first_start,
    standing,
    null::integer as expiration_intent,
    original_transaction_id,
    transaction_id
  from analyst.ordered_periods
  union all
  select
    app, environment, stream_id, product_id, 'churn', lapsed_at, first_start, standing, lapse_intent,
    original_transaction_id, transaction_id
  from analyst.ordered_periods
  where lapsed_at <= now()
  union all
  -- The last period of a subscription, which only the subscription knows, so that it is not touched by the next one. The
  -- stream is joined in each part: of a join behind them the planner expects a few rows.
  select
    stream.app, stream.environment, subscription.stream_id, subscription.last_product_id, 'churn',
    subscription.access_ends_at, subscription.first_start, subscription.last_standing, subscription.last_lapse_intent,
    subscription.original_transaction_id, subscription.last_transaction_id
  from subledger.subscription
  join subledger.stream using (stream_id)
  where subscription.access_ends_at <= now()
    and subscription.last_standing is not null
)
select
  subledger.month_of(movement.at) as month,
  movement.app,
  movement.environment,
  movement.stream_id,
  movement.product_id,
  movement.kind as movement,
  movement.at,
  subledger.month_of(movement.first_start) as cohort,
  movement.standing,
  movement.expiration_intent,
  movement.original_transaction_id,
  movement.transaction_id,
  transaction.positions
from movement
left join subledger.transaction using (stream_id, original_transaction_id, transaction_id)
where movement.kind is not null
  and movement.standing <> 'family';

create or replace view analyst.trials_detail as
select
  subledger.month_of(trial.starts_at) as month,
  trial.app,
  trial.environment,
  trial.product_id,
  trial.original_transaction_id,
  trial.transaction_id,
  trial.starts_at,
  trial.ends_at,
  case
    when converted.starts_at is not null then 'converted'
    when trial.ends_at > now() then 'running'
    when subscription.in_billing_retry and trial.ends_at + interval '60 days' > now() then 'retried'
    else 'lost'
  end as outcome,
  converted.starts_at as converted_at,
  trial.positions || coalesce(converted.positions, '{}') as positions
from analyst.periods as trial
left join subledger.subscription using (stream_id, original_transaction_id)
left join lateral (
  select access_period.starts_at, transaction.positions
  from subledger.access_period
  join subledger.transaction using (stream_id, original_transaction_id, transaction_id)
  where access_period.stream_id = trial.stream_id
    and access_period.original_transaction_id = trial.original_transaction_id
    and access_period.cause = 'paid'
    and access_period.starts_at > trial.starts_at
    and not coalesce(transaction.offer_discount_type = 'FREE_TRIAL', transaction.is_trial_period, false)
  order by access_period.starts_at, transaction_id
  limit 1
) as converted on true
where trial.standing = 'trial';

-- Without a subquery, as a function must be that the planner takes apart.
create function subledger.calendar_months(earlier timestamp, later timestamp) returns integer
language sql immutable parallel safe as $$
  select (
    (date_part('year', later) - date_part('year', earlier)) * 12
      + date_part('month', later) - date_part('month', earlier)
  )::integer
$$;

create function subledger.months_since(first_start timestamptz, until timestamptz) returns integer
language sql immutable parallel safe as $$
  select
    subledger.calendar_months(first_start at time zone interval '0', until at time zone interval '0')
      - (
        (first_start at time zone interval '0')
          + make_interval(
            months => subledger.calendar_months(first_start at time zone interval '0', until at time zone interval '0')
          )
          >= until at time zone interval '0'
      )::integer
$$;

comment on function subledger.months_since is
  'The last monthly anniversary of an instant, at its time of day in UTC, that lies before another';

create or replace view analyst.retention_detail as
select
  subledger.month_of(periods.first_start) as cohort,
  periods.app,
  periods.environment,
  periods.original_transaction_id,
  periods.transaction_id,
  periods.first_month,
  -- What lies in a period that has ended is in the past: said first, so that it is counted for the others alone.
  case when periods.ends_at <= now() then periods.last_month else least(periods.last_month, reached.months) end
    as last_month,
  reached.months as months_reached,
  periods.positions
from analyst.periods
cross join lateral (select subledger.months_since(periods.first_start, now())) as reached (months)
where periods.standing <> 'family'
  and periods.starts_at < now()
  and (periods.ends_at <= now() or periods.first_month <= reached.months) is distinct from false
  and periods.first_month is not null;

create or replace view analyst.retention as
with held as (
  select app, environment, cohort, first_month, last_month, months_reached, count(*) as subscriptions
  from analyst.retention_detail
  group by app, environment, cohort, first_month, last_month, months_reached
), cohort as (
  select app, environment, cohort, max(months_reached) as months_max, sum(subscriptions) as subscriptions
  from held
  where first_month = 0
  group by app, environment, cohort
)
select
  cohort.cohort,
  cohort.app,
  cohort.environment,
  since.months_since,
  cohort.subscriptions::bigint as subscriptions,
  sum(held.subscriptions) filter (
    where held.first_month = 0 and held.months_reached >= since.months_since
  )::bigint as reached,
  coalesce(
    sum(held.subscriptions) filter (where since.months_since between held.first_month and held.last_month), 0
  )::bigint as active
from cohort
cross join lateral generate_series(0, cohort.months_max) as since (months_since)
join held using (app, environment, cohort)
group by cohort.cohort, cohort.app, cohort.environment, since.months_since, cohort.subscriptions;

drop function subledger.months_reached(date, boolean, date);
drop function subledger.calendar_months(date, date);
comment on function subledger.calendar_months is 'By how many months of the calendar two times are apart';

create or replace view analyst.refunds_detail as
select distinct on (
  app, environment, original_transaction_id, coalesce(web_order_line_item_id, transaction_id)
)
  subledger.month_of(revocation_date) as month,
  app,
  environment,
  product_id,
  original_transaction_id,
  transaction_id,
  revocation_date,
  refund,
  revocation_reason,
  price,
  round(price * refund_percent / 100, 3) as amount,
  currency,
  positions
from analyst.transactions
where refund is not null
order by app, environment, original_transaction_id, coalesce(web_order_line_item_id, transaction_id), transaction_id;

create or replace view analyst.billing_retries_detail as
with failure as (
  select
    event.stream_id,
    event.position,
    event.received_at,
    failed.original_transaction_id,
    failed.transaction_id,
    failed.product_id,
    failed.due_at
  from subledger.event
  -- A V1 body shows all lines of an account: the one that failed is tried again, and so may others that failed before.
  cross join lateral (
    select renewal ->> 'originalTransactionId' as line
    from jsonb_array_elements(event.facts -> 'renewals') as renewal
    where (renewal -> 'isInBillingRetryPeriod')::boolean
    union
    select coalesce(
      event.facts #>> '{renewals,0,originalTransactionId}', event.facts #>> '{transactions,0,originalTransactionId}'
    )
    where jsonb_array_length(event.facts -> 'renewals') <= 1
  ) as failing
  cross join lateral (
    select
      transaction ->> 'originalTransactionId' as original_transaction_id,
      transaction ->> 'transactionId' as transaction_id,
      transaction ->> 'productId' as product_id,
      (transaction ->> 'expiresDate')::timestamptz as due_at
    from jsonb_array_elements(event.facts -> 'transactions') as transaction
    where transaction ->> 'expiresDate' is not null
      and transaction ->> 'originalTransactionId' = failing.line
    order by transaction ->> 'expiresDate' desc
    limit 1
  ) as failed
  where event.kind = 'renewal_failure'
), due as (
  select
    stream_id,
    original_transaction_id,
    due_at,
    min(transaction_id) as transaction_id,
    min(product_id) as product_id,
    array_agg(position order by position) as positions
  from failure
  group by stream_id, original_transaction_id, due_at
)
select
  subledger.month_of(due.due_at) as month,
  stream.app,
  stream.environment,
  due.product_id,
  due.original_transaction_id,
  due.transaction_id,
  due.due_at,
  grace.ends_at as grace_ends_at,
  recovered.starts_at as recovered_at,
  case
    when recovered.starts_at <= grace.ends_at then 'recovered_in_grace'
    when recovered.starts_at is not null then 'recovered_later'
    when subscription.in_billing_retry and due.due_at + interval '60 days' > now() then 'retried'
    else 'lost'
  end as outcome,
  due.positions || coalesce(recovered.positions, '{}') as positions
from due
join subledger.stream using (stream_id)
left join subledger.subscription using (stream_id, original_transaction_id)
left join lateral (
  select max(access_period.ends_at) as ends_at
  from subledger.access_period
  where access_period.stream_id = due.stream_id
    and access_period.original_transaction_id = due.original_transaction_id
    and access_period.starts_at = due.due_at
    and access_period.cause = 'grace'
) as grace on true
left join lateral (
  select access_period.starts_at, transaction.positions
  from subledger.access_period
  join subledger.transaction using (stream_id, original_transaction_id, transaction_id)
  where access_period.stream_id = due.stream_id
    and access_period.original_transaction_id = due.original_transaction_id
    and access_period.cause = 'paid'
    and access_period.starts_at >= due.due_at
    and access_period.starts_at < due.due_at + interval '60 days'
    and transaction.transaction_reason is distinct from 'PURCHASE'
  order by access_period.starts_at, transaction_id
  limit 1
) as recovered on true;

create or replace view analyst.plan_changes_detail as
select
  subledger.month_of(starts_at) as month,
  app,
  environment,
  previous_product_id as from_product_id,
  product_id as to_product_id,
  case when previous_cut = 'upgraded' then 'up' else 'down' end as direction,
  starts_at as at,
  original_transaction_id,
  transaction_id,
  positions
from analyst.ordered_periods
where standing <> 'family'
  and starts_at < ends_at
  and starts_at <= previous_end
  and previous_product_id <> product_id;

create or replace view analyst.delivery_lag_detail as
select
  subledger.month_of(event.occurred_at) as month,
  stream.app,
  stream.environment,
  event.source,
  event.type,
  event.subtype,
  event.position,
  event.occurred_at,
  event.received_at,
  extract(epoch from event.received_at - event.occurred_at)::double precision as lag_seconds
from subledger.event
join subledger.stream using (stream_id)
where event.occurred_at is not null;

do $$
begin
  if pg_has_role(current_user, 'subledger_owner', 'member') then
    alter function subledger.day_from(timestamptz) owner to subledger_owner;
    alter function subledger.month_of(timestamptz) owner to subledger_owner;
    alter function subledger.calendar_months(timestamp, timestamp) owner to subledger_owner;
    alter function subledger.months_since(timestamptz, timestamptz) owner to subledger_owner;
  end if;
end;
$$;
