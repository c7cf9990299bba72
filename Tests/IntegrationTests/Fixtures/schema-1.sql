-- Subledger's database, as it stands. `subledger migrate` applies this file to a database that has none of it.
--
-- Read it top to bottom: roles, the event log, the projections that are folded from the log.
-- Every key begins with the stream, an app in an environment, so production and sandbox, and one app and another,
-- cannot mix. Everything below "Projections" can be thrown away and rebuilt from the log.
--
-- Applied in one transaction, under an advisory lock that keeps two appliers apart.

create schema subledger;

comment on schema subledger is 'App Store subscriptions: the log of events and what it amounts to';

create table subledger.schema_version (
  version    integer     not null,
  applied_at timestamptz not null default now(),
  constraint schema_version_pkey primary key (version)
);

comment on table subledger.schema_version is
  'The versions of this file that were applied; the greatest is the one in force';

insert into subledger.schema_version (version) values (1);

-- Roles -------------------------------------------------------------------------------------------------------------
-- Roles belong to the cluster, so another database may have made them already, or be making them just now.
-- They are groups: grant them to the logins of your services. The server takes on the one that just suffices.

do $$
declare
  name text;
begin
  foreach name in array array['subledger_receiver', 'subledger_projector', 'subledger_reader'] loop
    begin
      if not exists (select from pg_roles where rolname = name) then
        execute format('create role %I nologin', name);
      end if;
      -- Whoever applies this may take the roles on; superusers may anyway. From version 16 on, making a role is not
      -- enough for that. If it was not ours to grant, the server says at start which role is missing.
      if not (select rolsuper from pg_roles where rolname = current_user) then
        execute format('grant %I to current_user', name);
      end if;
    exception
      when duplicate_object or unique_violation or insufficient_privilege then null;
    end;
  end loop;
end
$$;

grant usage on schema subledger to subledger_receiver, subledger_projector, subledger_reader;
grant select on subledger.schema_version to subledger_receiver, subledger_projector, subledger_reader;

-- The event log -----------------------------------------------------------------------------------------------------

create table subledger.stream (
  stream_id   integer     not null,
  app         text        not null,
  environment text        not null,
  created_at  timestamptz not null default now(),
  constraint stream_pkey primary key (stream_id),
  constraint stream_app_environment_key unique (app, environment),
  constraint stream_app_check check (app <> ''),
  constraint stream_environment_check check (environment in ('production', 'sandbox', 'unknown'))
);

comment on table subledger.stream is 'An app in an environment: the unit in which positions are gapless';
comment on column subledger.stream.stream_id is 'Short name of the stream in this database, handed out from 1';
comment on column subledger.stream.app is 'Bundle id';
comment on column subledger.stream.environment is
  'production, sandbox, or unknown for bodies that name neither; never mixed';

create table subledger.stream_head (
  stream_id integer not null,
  position  bigint  not null,
  constraint stream_head_pkey primary key (stream_id),
  constraint stream_head_position_check check (position >= 0)
)
-- Rewritten by every append: room on the page keeps the new version beside the old one and out of the index.
with (fillfactor = 10);

comment on table subledger.stream_head is
  'The last position given out in a stream. Locked by an append until it commits, so that position order is commit '
  'order and no position is ever missing';

create table subledger.event (
  stream_id   integer     not null,
  position    bigint      not null,
  received_at timestamptz not null,
  occurred_at timestamptz,
  source      text        not null,
  type        text,
  subtype     text,
  kind        text        not null,
  dedupe_key  bytea       not null,
  facts       jsonb       not null,
  defects     jsonb,
  body        bytea compression lz4 not null,
  constraint event_pkey primary key (stream_id, position),
  constraint event_dedupe_key_key unique (stream_id, dedupe_key),
  constraint event_position_check check (position > 0),
  constraint event_dedupe_key_check check (octet_length(dedupe_key) = 32),
  constraint event_source_check check (source in ('apple-v1')),
  constraint event_facts_check check (jsonb_typeof(facts) = 'object'),
  constraint event_defects_check check (jsonb_typeof(defects) = 'array')
);

comment on table subledger.event is
  'Every notification that was taken, once, in the order of its commit. Append-only: update, delete and truncate are '
  'refused to everybody';
comment on column subledger.event.position is 'From 1, without a gap in its stream, in commit order';
comment on column subledger.event.received_at is 'When we learned it, by our clock';
comment on column subledger.event.occurred_at is
  'When it happened, by the notification''s own dates; null when it has none';
comment on column subledger.event.source is 'The wire format: apple-v1';
comment on column subledger.event.type is
  'As Apple spells it, also when this version does not know it; null when unreadable';
comment on column subledger.event.subtype is 'As Apple spells it; V1 has none';
comment on column subledger.event.kind is
  'What happened, in one word for all sources: purchase (first or after expiry), renewal, recovery (a failed renewal '
  'was paid after all), renewal_failure, plan_change (now or at the next renewal), auto_renew_change (switched on or '
  'off), refund, revoke (family sharing ended), price_consent, consumption_request, other (a type without a word here '
  'yet). Never decides access: the facts do';
comment on column subledger.event.dedupe_key is
  'SHA-256 that is equal for one notification sent twice: of what it says, since V1 has no notification id';
comment on column subledger.event.facts is
  '{"transactions":[…],"renewals":[…]} in Apple''s names, dates as ISO 8601 UTC, ids as text, absent things absent';
comment on column subledger.event.defects is
  'Fields that could not be read, [{"path","problem"}]; null when all could';
comment on column subledger.event.body is 'The bytes as they arrived, less the shared secret';

create index event_received_at_idx on subledger.event (stream_id, received_at);

create function subledger.refuse_change() returns trigger
language plpgsql as $$
begin
  raise exception 'subledger.% is append-only: % is refused', tg_table_name, lower(tg_op)
    using errcode = 'insufficient_privilege';
end
$$;

create trigger event_append_only
  before update or delete or truncate on subledger.event
  for each statement execute function subledger.refuse_change();

-- Fires under session_replication_role = replica as well.
alter table subledger.event enable always trigger event_append_only;

grant select, insert on subledger.event to subledger_receiver;
grant select, insert on subledger.stream to subledger_receiver;
grant select, insert, update on subledger.stream_head to subledger_receiver;
grant select on subledger.event, subledger.stream, subledger.stream_head to subledger_projector;

-- Readers get everything of an event but its body, which holds device ids and receipts.
grant select (
  stream_id, position, received_at, occurred_at, source, type, subtype, kind, dedupe_key, facts, defects
) on subledger.event to subledger_reader;
grant select on subledger.stream, subledger.stream_head to subledger_reader;

-- Projections -------------------------------------------------------------------------------------------------------
-- Written by the projector alone, in one transaction with its checkpoint.

create table subledger.checkpoint (
  stream_id integer not null,
  position  bigint  not null,
  products  text    not null,
  constraint checkpoint_pkey primary key (stream_id),
  constraint checkpoint_position_check check (position >= 0)
)
with (fillfactor = 10);

comment on table subledger.checkpoint is 'How far each stream has been folded: all up to this position, and no more';

comment on column subledger.checkpoint.products is
  'The configured products that the rows were folded with, one a line; when the configuration differs they are folded '
  'anew';

create table subledger.subscription (
  stream_id                integer not null,
  original_transaction_id  text    not null,
  product_id               text,
  auto_renew               boolean,
  auto_renew_product_id    text,
  in_billing_retry         boolean,
  expiration_intent        integer,
  access_ends_at           timestamptz,
  position                 bigint  not null,
  facts                    jsonb   not null,
  constraint subscription_pkey primary key (stream_id, original_transaction_id)
);

comment on table subledger.subscription is
  'One line per original_transaction_id, which survives renewals, cancelling and resubscribing. Whether it is active '
  'is a question to the clock: see view subscription_now';
comment on column subledger.subscription.product_id is 'Product of the period that was bought last';
comment on column subledger.subscription.auto_renew is 'Switch as last stated; null when never stated. Never decides access';
comment on column subledger.subscription.auto_renew_product_id is 'Product of the next renewal, as last stated';
comment on column subledger.subscription.in_billing_retry is 'Apple tries again after a failed renewal, as last stated';
comment on column subledger.subscription.expiration_intent is
  '1 switched off by the customer, 2 billing error, 3 price increase not agreed, 4 not for sale, 5 other';
comment on column subledger.subscription.access_ends_at is
  'End of the last access period, infinity for what is owned for ever; null when there is none';
comment on column subledger.subscription.position is 'The last event that said something about the line';
comment on column subledger.subscription.facts is
  'Everything that was ever stated about the line, each with its time and the position of its evidence: what the '
  'projector folds the next event into';

create table subledger.transaction (
  stream_id                     integer not null,
  original_transaction_id       text    not null,
  transaction_id                text    not null,
  web_order_line_item_id        text,
  product_id                    text,
  subscription_group_identifier text,
  quantity                      integer,
  purchase_date                 timestamptz,
  original_purchase_date        timestamptz,
  expires_date                  timestamptz,
  revocation_date               timestamptz,
  revocation_reason             integer,
  is_upgraded                   boolean not null,
  is_trial_period               boolean,
  is_in_intro_offer_period      boolean,
  in_app_ownership_type         text,
  promotional_offer_id          text,
  offer_code_ref_name           text,
  app_account_token             text,
  positions                     bigint[] not null,
  constraint transaction_pkey primary key (stream_id, original_transaction_id, transaction_id)
);

comment on table subledger.transaction is
  'Every purchase and renewal as it now stands, in the names of Apple''s signed transactions (V1''s cancellation_date '
  'is revocation_date)';
comment on column subledger.transaction.positions is 'The events behind the row, ascending';

create table subledger.access_period (
  stream_id               integer     not null,
  original_transaction_id text        not null,
  starts_at               timestamptz not null,
  ends_at                 timestamptz not null,
  cause                   text        not null,
  cut                     text,
  transaction_id          text        not null,
  product_id              text,
  position                bigint      not null,
  constraint access_period_pkey primary key (stream_id, original_transaction_id, transaction_id, cause),
  constraint access_period_ends_at_check check (starts_at < ends_at),
  constraint access_period_cause_check check (cause in ('paid', 'grace', 'owned')),
  constraint access_period_cut_check check (cut in ('upgraded', 'family_revoked', 'switched_off'))
);

comment on table subledger.access_period is
  'When a line gives access: starts_at included, ends_at excluded. Entitled at t means that some row holds t';
comment on column subledger.access_period.cause is
  'paid by a transaction, grace after a failed renewal, or owned for ever (ends_at is then infinity)';
comment on column subledger.access_period.cut is
  'Why it ends before its first date: upgraded, family_revoked, switched_off (renewal switched off in grace)';
comment on column subledger.access_period.position is 'The first event that stated it';

create view subledger.subscription_now as
select
  stream.app,
  stream.environment,
  subscription.original_transaction_id,
  subscription.product_id,
  exists (
    select
    from subledger.access_period
    where access_period.stream_id = subscription.stream_id
      and access_period.original_transaction_id = subscription.original_transaction_id
      and access_period.starts_at <= now()
      and access_period.ends_at > now()
  ) as active,
  subscription.access_ends_at,
  subscription.auto_renew,
  subscription.auto_renew_product_id,
  subscription.position
from subledger.subscription
join subledger.stream using (stream_id);

comment on view subledger.subscription_now is 'Every line with whether it gives access at this moment';

grant select on subledger.checkpoint, subledger.subscription, subledger.transaction, subledger.access_period,
  subledger.subscription_now to subledger_reader;
grant select, insert, update, delete on subledger.checkpoint, subledger.subscription, subledger.transaction,
  subledger.access_period to subledger_projector;
