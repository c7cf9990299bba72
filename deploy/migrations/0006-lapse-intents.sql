-- From version 5 to version 6: why access ended is kept where it began again, too.
--
-- `subledger migrate` and `subledger serve` apply it, in one transaction. It waits for readers and writers of the tables
-- behind the views below, and rewrites none of them. The projector writes the rows of each stream anew when it runs next,
-- in one transaction, from the facts that they have: what they said before is served meanwhile. End projectors of
-- version 5 first: what they fold afterwards has no reasons.

insert into subledger.schema_version (version) values (6);

-- In the order in which analysts come by them.
lock table analyst.movements_detail in access exclusive mode;

alter table subledger.checkpoint add column rules integer not null default 0;
comment on column subledger.checkpoint.rules is
  'By which rules the rows were worked out, counted by releases; rows of others are written anew';

alter table subledger.access_period add column lapse_intent integer;
comment on column subledger.access_period.lapse_intent is
  'Why access ended at lapsed_at, as expiration_intent of subscription has it: the last that was said in that stretch of '
  'access and the gap behind it; null where Apple did not say so before access began again';

create or replace view analyst.ordered_periods as
select
  stream.app,
  stream.environment,
  access_period.stream_id,
  access_period.original_transaction_id,
  access_period.transaction_id,
  access_period.product_id,
  access_period.standing,
  access_period.cut,
  coalesce(access_period.counted_from, access_period.starts_at) as starts_at,
  coalesce(access_period.counted_until, access_period.ends_at) as ends_at,
  access_period.first_start,
  access_period.previous_end,
  access_period.previous_cut,
  case
    when access_period.previous_end is not null then
      coalesce(access_period.previous_product_id, access_period.product_id)
  end as previous_product_id,
  access_period.lapsed_at,
  access_period.first_month,
  access_period.last_month,
  access_period.price,
  access_period.currency,
  access_period.price_period,
  transaction.offer_discount_type,
  transaction.offer_period,
  case when access_period.cause = 'grace' then array[access_period.position] else transaction.positions end as positions,
  access_period.lapse_intent
from subledger.access_period
join subledger.stream using (stream_id)
-- An outer join by key, so that the planner leaves it out where nothing of it is asked for.
left join subledger.transaction using (stream_id, original_transaction_id, transaction_id)
where access_period.standing is not null;

comment on column analyst.ordered_periods.lapse_intent is
  'Why access ended at lapsed_at, where Apple said so before it began again; numbers as in movements_detail';

create or replace view analyst.movements_detail as
with movement as (
  select
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
    stream_id, product_id, 'churn', lapsed_at, first_start, standing, lapse_intent, original_transaction_id,
    transaction_id
  from analyst.ordered_periods
  where lapsed_at <= now()
  union all
  -- The last period of a subscription, which only the subscription knows, so that it is not touched by the next one.
  select
    subscription.stream_id, subscription.last_product_id, 'churn', subscription.access_ends_at,
    access_period.first_start, subscription.last_standing, subscription.expiration_intent,
    subscription.original_transaction_id, subscription.last_transaction_id
  from subledger.subscription
  left join subledger.access_period
    on access_period.stream_id = subscription.stream_id
    and access_period.original_transaction_id = subscription.original_transaction_id
    and access_period.transaction_id = subscription.last_transaction_id
    and access_period.cause = subscription.last_cause
  where subscription.access_ends_at <= now()
    and subscription.last_standing is not null
)
select
  date_trunc('month', movement.at at time zone 'UTC')::date as month,
  stream.app,
  stream.environment,
  movement.stream_id,
  movement.product_id,
  movement.kind as movement,
  movement.at,
  date_trunc('month', movement.first_start at time zone 'UTC')::date as cohort,
  movement.standing,
  movement.expiration_intent,
  movement.original_transaction_id,
  movement.transaction_id,
  transaction.positions
from movement
join subledger.stream using (stream_id)
left join subledger.transaction using (stream_id, original_transaction_id, transaction_id)
where movement.kind is not null
  and movement.standing <> 'family';

comment on column analyst.movements_detail.expiration_intent is
  'Why it ended, where Apple said so: 1 switched off by the customer, 2 billing error, 3 price increase not agreed, 4 not '
  'for sale, 5 other. Null if Apple did not, as for most refunds, or only after it had begun again';
