-- From version 4 to version 5: what no body says is sealed, and analysts' views say more and may use several processors.
--
-- `subledger migrate` and `subledger serve` apply it, in one transaction. It waits for appends that are under way, and
-- reads no event: those that are there stay without a seal.

insert into subledger.schema_version (version) values (5);

-- No append comes in between: what is behind the heads that are read below is sealed.
lock table subledger.event in access exclusive mode;

alter table subledger.event add column seal bytea;
comment on column subledger.event.seal is 'See function seal; null for events that are older than seals';
alter table subledger.stream
  add column sealed_from bigint not null default 1,
  add column seal bytea;
comment on column subledger.stream.sealed_from is
  'The first position whose event has a seal: those before it are older than seals';
comment on column subledger.stream.seal is 'See function seal';
alter table subledger.event_conflict add column seal bytea;
comment on column subledger.event_conflict.seal is 'See function seal';
alter table subledger.certificate_verdict add column seal bytea;
comment on column subledger.certificate_verdict.seal is 'See function seal';
alter table subledger.projector_skip add column seal bytea;
comment on column subledger.projector_skip.seal is 'See function seal';

create function subledger.seal(sealed subledger.event) returns bytea
language sql stable as $$
  select substr(
    sha256(
      int4send(sealed.stream_id) || int8send(sealed.position) || timestamptz_send(sealed.received_at)
        || sealed.body_sha256 || coalesce(sealed.chain_id, '') || textsend(coalesce(sealed.revocation, ''))
    ), 1, 8
  )
$$;

comment on function subledger.seal(subledger.event) is
  'The first 8 bytes of the SHA-256 of what of the row can be worked out from no body, with what tells it from others';

create function subledger.seal(sealed subledger.event_conflict) returns bytea
language sql stable as $$
  select substr(
    sha256(
      int4send(sealed.stream_id) || int8send(sealed.position) || timestamptz_send(sealed.received_at)
        || sealed.body_sha256
    ), 1, 8
  )
$$;

create function subledger.seal(sealed subledger.certificate_verdict) returns bytea
language sql stable as $$
  select substr(sha256(sealed.chain_id || timestamptz_send(sealed.decided_at) || textsend(sealed.verdict)), 1, 8)
$$;

create function subledger.seal(sealed subledger.stream) returns bytea
language sql stable as $$
  select substr(
    sha256(
      int4send(sealed.stream_id) || timestamptz_send(sealed.created_at) || int8send(sealed.sealed_from)
        || textsend(sealed.environment || ' ' || sealed.app)
    ), 1, 8
  )
$$;

create function subledger.seal(sealed subledger.projector_skip) returns bytea
language sql stable as $$
  select substr(
    sha256(
      int4send(sealed.stream_id) || int8send(sealed.position) || timestamptz_send(sealed.skipped_at)
        || int4send(length(sealed.reason)) || textsend(sealed.reason || sealed.skipped_by)
    ), 1, 8
  )
$$;

create function subledger.seal_row() returns trigger
language plpgsql as $$
begin
  new.seal := subledger.seal(new);
  return new;
end
$$;

create trigger stream_seal before insert on subledger.stream
  for each row execute function subledger.seal_row();

create trigger event_seal before insert on subledger.event
  for each row execute function subledger.seal_row();

create trigger event_conflict_seal before insert on subledger.event_conflict
  for each row execute function subledger.seal_row();

create trigger certificate_verdict_seal before insert on subledger.certificate_verdict
  for each row execute function subledger.seal_row();

create trigger projector_skip_seal before insert on subledger.projector_skip
  for each row execute function subledger.seal_row();

grant select on subledger.event_conflict, subledger.certificate_verdict to subledger_projector;

-- The small tables get theirs now, past the triggers that keep them from being changed.
alter table subledger.event_conflict disable trigger event_conflict_append_only;
alter table subledger.projector_skip disable trigger projector_skip_append_only;
update subledger.stream
set sealed_from = stream_head.position + 1
from subledger.stream_head
where stream_head.stream_id = stream.stream_id;
update subledger.stream set seal = subledger.seal(stream);
update subledger.event_conflict set seal = subledger.seal(event_conflict);
update subledger.certificate_verdict set seal = subledger.seal(certificate_verdict);
update subledger.projector_skip set seal = subledger.seal(projector_skip);
alter table subledger.event_conflict enable always trigger event_conflict_append_only;
alter table subledger.projector_skip enable always trigger projector_skip_append_only;
alter table subledger.stream alter column seal set not null;
alter table subledger.event_conflict alter column seal set not null;
alter table subledger.certificate_verdict alter column seal set not null;
alter table subledger.projector_skip alter column seal set not null;

alter function subledger.price_months(text, numeric) parallel safe;
alter function subledger.monthly_price(bigint, numeric) parallel safe;
alter function subledger.calendar_months(date, date) parallel safe;
alter function subledger.months_reached(date, boolean, date) parallel safe;

-- Behind grace stands the event that told of it.

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
  case when access_period.cause = 'grace' then array[access_period.position] else transaction.positions end as positions
from subledger.access_period
join subledger.stream using (stream_id)
-- An outer join by key, so that the planner leaves it out where nothing of it is asked for.
left join subledger.transaction using (stream_id, original_transaction_id, transaction_id)
where access_period.standing is not null;

-- What analysts missed in comments.

comment on column analyst.ordered_periods.positions is
  'The events that state the transaction, ascending; for grace, the first one that told of it';
comment on column analyst.periods.positions is
  'The events that state the transaction, ascending; for grace, the first one that told of it';
comment on view analyst.periods is
  'When a subscription gave access, each instant once: where periods overlap, the one that began first counts, and '
  'grace gives way to what is paid. Refunded periods are gone, periods that an upgrade replaced end where it began. What '
  'is owned for ever is no subscription, and not among them';
comment on view analyst.active_subscribers is
  'Subscriptions with access at 00:00 UTC of each day up to today, by product; what the last day of a month ended with is '
  'the number of the day behind it. No row means none. From active_subscribers_detail';
comment on view analyst.mrr is
  'Monthly recurring revenue by currency at 00:00 UTC of each day up to today. No row means none. From mrr_detail';
comment on column analyst.movements_detail.positions is
  'The events that state the transaction; at churn, of the one that ended';
comment on column analyst.movements_detail.expiration_intent is
  'Why it ended, where Apple said so: 1 switched off by the customer, 2 billing error, 3 price increase not agreed, 4 not '
  'for sale, 5 other. Null if Apple did not, as for refunds, and of a subscription that began again: then '
  'analyst.events has what was said';
comment on view analyst.retention is
  'How many subscriptions of each month''s starts had access so many months after their own start, up to today: of a log '
  'that nothing is added to, it says that all have left. From retention_detail';
comment on column analyst.billing_retries_detail.recovered_at is
  'When the next charged period began; null when none did. One that was charged within grace begins where the failed one '
  'ended, so the days until the money came are in analyst.events';
comment on view analyst.delivery_lag is
  'How long notifications were under way, by type and month. Medians do not add up: over several months ask '
  'delivery_lag_detail, from which it is';
comment on column subledger.entitlement.app is 'Bundle id';
comment on column subledger.entitlement.environment is 'production, sandbox, xcode, local_testing or unknown';
comment on column subledger.entitlement.customer is 'An id that the customer is known by';
comment on column subledger.entitlement.known_as is 'Which kind of id it is, see customer_identity.kind';
comment on column subledger.entitlement.customer_id is
  'The same for all ids of a customer, so count distinct ones of these; it may change when customers turn out to be one';
comment on column subledger.entitlement.entitlement is
  'As products are mapped; the product''s own id where nothing is mapped';
comment on column subledger.entitlement.active is 'until is in the future';

-- Everything belongs to the role of owners.

do $$
declare
  name text;
begin
  if not pg_has_role(current_user, 'subledger_owner', 'member') then
    return;
  end if;
  for name in
    select oid::regprocedure
    from pg_proc
    where pronamespace = 'subledger'::regnamespace and proname in ('seal', 'seal_row')
  loop
    execute format('alter function %s owner to subledger_owner', name);
  end loop;
end
$$;
