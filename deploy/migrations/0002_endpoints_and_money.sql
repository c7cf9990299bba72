-- Endpoints, leases, tables and columns of money, what links rest on, bodies apart from events, and what the fold reports
-- since November 2026.
--
-- Locks until it commits, against reading and writing: event, change, receipt, subscription, transaction, access_period,
-- refunded_period, customer_link, ownership, check_schedule, delivery_audit, google_purchase, google_void_audit, consumption_answer,
-- token and product.
-- They are read once for each new constraint: about a million rows in a second.
-- Notifications are answered 503 meanwhile, and the stores repeat them. Receivers of the older release answer 503 afterwards
-- too, so end them. The body of each event is copied to event_body: the disk needs free space of the size of event, and the
-- migration the time in which it can be read and written once.
-- event is also read once for each of its two new indexes, about five million events in a minute. To spare that time, build
-- the indexes beforehand, which locks nothing; then they are kept:
--
--   create index concurrently event_notice_idx on subledger.event (stream_id, (coalesce(
--     facts #>> '{notification,appTransaction,appTransactionId}', facts #>> '{notification,originalTransactionId}',
--     facts #>> '{erasure,subscriptions,0}'
--   )), position) where kind in ('consent_rescinded', 'erasure') or kind = 'consumption_request' and source = 'apple-v1';
--   create index concurrently event_refund_request_idx on subledger.event (stream_id, coalesce(
--     facts #>> '{transactions,0,transactionId}',
--     facts #>> '{notification,notification,pendingRefundReviewNotification,orderId}',
--     facts #>> '{notification,notification,voidedPurchaseNotification,orderId}'
--   )) where kind in ('consumption_request', 'refund', 'refund_declined', 'refund_reversal');
--
-- Afterwards: start the new release, and run `subledger rebuild` once. The disk space of the bodies in event is free for
-- other use after `vacuum full subledger.event`, which locks the log. The projector computes access again by itself, but
-- the facts that it stored name other positions than this release would, so `subledger verify` reports them until then.

-- Step: lock the tables that change
lock table
  subledger.event, subledger.change, subledger.receipt, subledger.subscription, subledger.transaction,
  subledger.access_period, subledger.refunded_period, subledger.customer_link, subledger.ownership, subledger.check_schedule,
  subledger.delivery_audit, subledger.google_purchase, subledger.google_void_audit, subledger.consumption_answer,
  subledger.token, subledger.product
  in access exclusive mode;

-- Step: index what events of the log say about customers
-- An index that could not be built beforehand is there, but not valid.
do $$
begin
  if exists (
    select from pg_index
    where indexrelid = to_regclass('subledger.event_notice_idx')
      and not indisvalid
  ) then
    drop index subledger.event_notice_idx;
  end if;
  if exists (
    select from pg_index
    where indexrelid = to_regclass('subledger.event_refund_request_idx')
      and not indisvalid
  ) then
    drop index subledger.event_refund_request_idx;
  end if;
end
$$;

create index if not exists event_notice_idx on subledger.event (
  stream_id,
  (coalesce(
    facts #>> '{notification,appTransaction,appTransactionId}', facts #>> '{notification,originalTransactionId}',
    facts #>> '{erasure,subscriptions,0}'
  )),
  position
) where kind in ('consent_rescinded', 'erasure') or kind = 'consumption_request' and source = 'apple-v1';

create index if not exists event_refund_request_idx on subledger.event (
  stream_id, coalesce(
    facts #>> '{transactions,0,transactionId}',
    facts #>> '{notification,notification,pendingRefundReviewNotification,orderId}',
    facts #>> '{notification,notification,voidedPurchaseNotification,orderId}'
  )
)
  where kind in ('consumption_request', 'refund', 'refund_declined', 'refund_reversal');

drop index subledger.event_refund_idx;

-- Step: copy the bodies of events to a table of their own
create table subledger.event_body (
  stream_id   integer     not null,
  position    bigint      not null,
  received_at timestamptz not null,
  body        bytea compression lz4 not null,
  constraint event_body_pkey primary key (stream_id, position, received_at)
) partition by range (received_at);

grant select, insert on subledger.event_body to subledger_receiver;
grant select on subledger.event_body to subledger_projector, subledger_poller;

set local datestyle = 'ISO';

do $$
declare
  month timestamp;
begin
  for month in
    select distinct date_trunc('month', received_at at time zone 'UTC')
    from subledger.event
  loop
    execute format(
      'create table subledger.%I partition of subledger.event_body for values from (%L) to (%L)',
      'event_body_' || to_char(month, 'YYYY_MM'), month || '+00', month + interval '1 month' || '+00');
    execute format(
      'create trigger event_body_append_only before update or delete or truncate on subledger.%I '
      'for each statement execute function subledger.refuse_change()', 'event_body_' || to_char(month, 'YYYY_MM'));
    execute format(
      'alter table subledger.%I enable always trigger event_body_append_only',
      'event_body_' || to_char(month, 'YYYY_MM'));
  end loop;
end
$$;

insert into subledger.event_body (stream_id, position, received_at, body)
select stream_id, position, received_at, body
from subledger.event;

alter table subledger.event drop column body;

create table subledger.event_archive (
  stream_id      integer     not null,
  month          date        not null,
  file           text        not null,
  state          text        not null,
  written_at     timestamptz not null,
  file_sha256    bytea,
  file_bytes     bigint,
  first_position bigint,
  last_position  bigint,
  bodies         bigint,
  constraint event_archive_pkey primary key (stream_id, month, file),
  constraint event_archive_month_check check (extract(day from month) = 1),
  constraint event_archive_file_check check (file ~ '^[A-Za-z0-9_%-][A-Za-z0-9._%-]*$'),
  constraint event_archive_state_check check (state in ('writing', 'kept', 'removing')),
  constraint event_archive_content_check check (
    num_nulls(file_sha256, file_bytes, first_position, last_position, bodies)
      = case state when 'writing' then 5 else 0 end
  ),
  constraint event_archive_file_sha256_check check (octet_length(file_sha256) = 32),
  constraint event_archive_positions_check check (first_position between 1 and last_position),
  constraint event_archive_bodies_check check (bodies between 1 and last_position - first_position + 1)
);

grant select on subledger.event_archive
  to subledger_receiver, subledger_projector, subledger_poller, subledger_reader;

-- Step: change columns and constraints
alter table subledger.change
  drop constraint change_kind_check,
  drop constraint change_customer_check;
alter table subledger.change add constraint change_kind_check check (
  kind in (
    'opened', 'extended', 'shortened', 'closed', 'product_changed', 'product_added', 'product_removed',
    'renewal_switched', 'next_product', 'seats_changed', 'customer_changed', 'consent_rescinded',
    'unanswerable_request', 'unknown_order_voided', 'customer_erased'
  )
);
alter table subledger.change
  add column seats_before integer,
  add column seats integer,
  add column reason text;
alter table subledger.change add constraint change_seats_check check (
  (kind = 'seats_changed') = (seats is not null) and (seats is null) = (seats_before is null)
);
alter table subledger.change add constraint change_customer_check check (
  (
    kind in (
      'customer_changed', 'consent_rescinded', 'unanswerable_request', 'unknown_order_voided', 'customer_erased'
    )
  ) = (customer_kind is not null)
  and (customer_kind is null) = (customer_id is null)
);

alter table subledger.receipt drop constraint receipt_receipt_sha256_check;
alter table subledger.receipt add constraint receipt_receipt_sha256_check check (
  receipt_sha256 = sha256(receipt) or state = 'refused' and receipt = ''
);
alter table subledger.receipt add column account_id text;
alter table subledger.receipt add constraint receipt_account_id_check
  check (account_id is null or customer_id is not null and octet_length(account_id) between 1 and 256);

alter table subledger.receipt add column is_signed boolean not null default false;

create index receipt_refused_idx on subledger.receipt (asked_at) where state = 'refused' and receipt = '';
create index receipt_is_signed_next_at_idx on subledger.receipt (is_signed, next_at) where state = 'pending';
drop index subledger.receipt_next_at_idx;

alter table subledger.google_purchase add column account_ids jsonb not null default '{}';
alter table subledger.google_purchase add constraint google_purchase_account_ids_check
  check (jsonb_typeof(account_ids) = 'object');
create index google_purchase_unanswered_idx on subledger.google_purchase (app, due_at) where environment is null;

alter table subledger.subscription drop constraint subscription_last_payer_state_check;
alter table subledger.subscription
  add column commitment_ends_at timestamptz,
  add constraint subscription_last_payer_state_check
    check (last_payer_state in ('paying', 'trial', 'grace', 'family', 'assigned'));

alter table subledger.transaction
  add column gap text,
  add column refunded_price bigint,
  add column tax bigint,
  add column developer_revenue bigint,
  add column refunds jsonb,
  add column plan_price bigint,
  add column paid_until timestamptz;
alter table subledger.transaction add constraint transaction_gap_check check (gap in ('duration', 'kind', 'consumed'));

alter table subledger.product add column level integer, add column name text;
alter table subledger.product add constraint product_name_check check (name <> '' and name !~ '[\u0001-\u001f]');
alter table subledger.product add constraint product_level_check
  check (level is null or level between 1 and 1000 and coalesce(kind, 'auto-renewable') = 'auto-renewable');

alter table subledger.access_period
  drop constraint access_period_cut_check,
  drop constraint access_period_previous_cut_check,
  drop constraint access_period_payer_state_check;
alter table subledger.access_period add constraint access_period_cut_check check (
  cut in (
    'upgraded', 'family_revoked', 'assignment_revoked', 'refunded_in_part', 'revoked', 'unknown_revocation',
    'switched_off', 'ended_by_status'
  )
);
alter table subledger.access_period
  add constraint access_period_previous_cut_check
    check (previous_cut in (
      'upgraded', 'family_revoked', 'assignment_revoked', 'refunded_in_part', 'refunded', 'revoked',
      'unknown_revocation', 'switched_off', 'ended_by_status'
    ));
alter table subledger.access_period
  add constraint access_period_payer_state_check
    check (payer_state in ('paying', 'trial', 'grace', 'family', 'assigned', 'granted'));

alter table subledger.refunded_period drop constraint refunded_period_previous_cut_check;
alter table subledger.refunded_period
  add constraint refunded_period_previous_cut_check
    check (previous_cut in (
      'upgraded', 'family_revoked', 'assignment_revoked', 'refunded_in_part', 'refunded', 'revoked',
      'unknown_revocation', 'switched_off', 'ended_by_status'
    ));

-- Every link of the older release rests on the backend's demand.
alter table subledger.customer_link add column basis text not null default 'transfer';
alter table subledger.customer_link
  add constraint customer_link_basis_check check (basis in ('transfer', 'statement', 'purchase', 'id', 'seat'));
alter table subledger.customer_link alter column basis drop default;

alter table subledger.ownership drop constraint ownership_reason_check;
alter table subledger.ownership
  add constraint ownership_reason_check check (reason in ('link', 'account', 'store_account', 'unclaimed', 'seat'));
create index ownership_seat_ends_at_idx on subledger.ownership (stream_id, ends_at) where reason = 'seat';

-- The projector writes the schedule of Google's purchases when it computes access again. What the older release had there
-- was never asked about, and its own times are in google_purchase.
delete from subledger.check_schedule where not has_receipt and original_transaction_id ~ '[^0-9]';
update subledger.google_purchase set rank = null, due_at = null where rank = 2;
alter table subledger.check_schedule
  add column purchase_token text,
  add column asking_until timestamptz;

alter table subledger.delivery_audit add column before bigint not null default 0;
alter table subledger.delivery_audit add constraint delivery_audit_before_check check (before between 0 and fetched);

alter table subledger.google_void_audit
  add column requested_at timestamptz,
  add column orders_compared_at timestamptz;

alter table subledger.consumption_answer
  drop constraint consumption_answer_stated_by_check,
  add column operator_name text;
alter table subledger.consumption_answer
  add constraint consumption_answer_stated_by_check check (stated_by in ('policy', 'backend', 'operator')),
  add constraint consumption_answer_operator_name_check check ((stated_by = 'operator') = (operator_name is not null));

alter table subledger.token
  drop constraint token_scope_check,
  add column app text;
alter table subledger.token
  add constraint token_scope_check check (scope in ('publishable', 'submit', 'read', 'link', 'operate', 'webhooks', 'admin'));
alter table subledger.token add constraint token_app_check check ((app is not null) = (scope = 'publishable'));

drop index subledger.check_schedule_next_at_idx;
create index check_schedule_next_at_idx on subledger.check_schedule (stream_id, has_receipt, next_at)
  where purchase_token is null;
create index check_schedule_purchase_idx on subledger.check_schedule (stream_id, next_at)
  where purchase_token is not null;
create index transaction_gap_idx on subledger.transaction (stream_id, product_id) where gap is not null;

-- Step: create the new tables
create table subledger.lease (
  work      text        not null,
  stream_id integer     not null,
  holder    text        not null,
  until     timestamptz not null,
  constraint lease_pkey primary key (work, stream_id),
  constraint lease_holder_check check (holder <> '')
);

create table subledger.turn (
  work        text not null,
  app         text not null,
  environment text not null,
  constraint turn_pkey primary key (work, app, environment)
);

create table subledger.exchange_rate (
  currency text    not null,
  day      date    not null,
  per_euro numeric not null,
  constraint exchange_rate_pkey primary key (currency, day),
  constraint exchange_rate_currency_check check (currency ~ '^[A-Z]{3}$' and currency <> 'EUR'),
  constraint exchange_rate_per_euro_check check (per_euro > 0 and per_euro < 'infinity')
);

create table subledger.commission (
  store          text    not null,
  kind           text    not null,
  country        text    not null default '',
  starts_on      date    not null,
  percent        numeric not null,
  later_percent  numeric not null,
  constraint commission_pkey primary key (store, kind, country, starts_on),
  constraint commission_store_check check (store in ('apple', 'google')),
  constraint commission_kind_check check (kind in ('subscription', 'one_time')),
  constraint commission_country_check check (country ~ '^([A-Z]{3})?$'),
  constraint commission_percent_check check (percent >= 0 and percent < 100),
  constraint commission_later_percent_check check (later_percent >= 0 and later_percent < 100)
);

create table subledger.tax_rate (
  country   text    not null default '',
  starts_on date    not null,
  percent   numeric not null,
  constraint tax_rate_pkey primary key (country, starts_on),
  constraint tax_rate_country_check check (country ~ '^([A-Z]{3})?$'),
  constraint tax_rate_percent_check check (percent >= 0 and percent < 1000)
);

create table subledger.endpoint (
  endpoint_id   text        not null,
  purpose       text        not null,
  app           text        not null,
  environment   text        not null,
  url           text        not null,
  kinds         text[],
  signature     text        not null,
  state         text        not null default 'active',
  disabled_for  text,
  disabled_at   timestamptz,
  created_at    timestamptz not null,
  constraint endpoint_pkey primary key (endpoint_id),
  constraint endpoint_endpoint_id_check check (endpoint_id ~ '^(end|fwd)_[0-9a-f]{16}$'),
  constraint endpoint_purpose_check
    check (purpose = case left(endpoint_id, 3) when 'end' then 'changes' else 'events' end),
  constraint endpoint_app_check check (app <> ''),
  constraint endpoint_environment_check
    check (environment in ('production', 'sandbox', 'xcode', 'local_testing', 'unknown')),
  constraint endpoint_url_check check (url ~ '^https?://'),
  constraint endpoint_kinds_check check (cardinality(kinds) > 0),
  constraint endpoint_signature_check check (signature in ('v1', 'v1a', 'none')),
  constraint endpoint_state_check check (state in ('active', 'disabled')),
  constraint endpoint_disabled_check check (
    (state = 'disabled') = (disabled_at is not null)
    and (disabled_at is null) = (disabled_for is null)
    and disabled_for in ('operator', 'gone', 'failing', 'removed')
  )
);

create table subledger.endpoint_cursor (
  endpoint_id   text        not null,
  number        bigint      not null,
  generation    bigint      not null default 0,
  failing_since timestamptz,
  succeeded_at  timestamptz,
  constraint endpoint_cursor_pkey primary key (endpoint_id),
  constraint endpoint_cursor_number_check check (number >= 0),
  constraint endpoint_cursor_generation_check check (generation >= 0)
)
with (fillfactor = 10);

create table subledger.endpoint_delivery (
  endpoint_id text        not null,
  number      bigint      not null,
  line        text        not null,
  state       text        not null,
  attempts    integer     not null,
  next_at     timestamptz,
  ended_at    timestamptz,
  constraint endpoint_delivery_pkey primary key (endpoint_id, number),
  constraint endpoint_delivery_number_check check (number > 0),
  constraint endpoint_delivery_state_check check (state in ('waiting', 'exhausted', 'lost')),
  constraint endpoint_delivery_attempts_check check (attempts >= 0),
  constraint endpoint_delivery_ended_at_check check ((state = 'waiting') = (ended_at is null))
);

create index endpoint_delivery_lost_idx on subledger.endpoint_delivery (endpoint_id, number) where state = 'lost';

create table subledger.endpoint_attempt (
  endpoint_id  text        not null,
  attempted_at timestamptz not null,
  number       bigint      not null,
  result       text        not null,
  status       integer,
  milliseconds integer     not null,
  constraint endpoint_attempt_pkey primary key (endpoint_id, attempted_at, number),
  constraint endpoint_attempt_milliseconds_check check (milliseconds >= 0)
);

create table subledger.store_report (
  sha256      bytea       not null,
  kind        text        not null,
  name        text        not null,
  first_day   date        not null,
  last_day    date        not null,
  rows        integer     not null,
  imported_at timestamptz not null default now(),
  constraint store_report_pkey primary key (name, sha256),
  constraint store_report_sha256_check check (octet_length(sha256) = 32),
  constraint store_report_kind_check check (
    kind in (
      'apple_sales', 'apple_subscription', 'apple_subscription_event', 'apple_subscriber', 'apple_financial',
      'apple_finance_detail', 'google_sales', 'google_earnings'
    )
  ),
  constraint store_report_day_check check (first_day <= last_day)
);

create table subledger.store_report_row (
  name              text    not null,
  sha256            bytea   not null,
  line              integer not null,
  day               date    not null,
  event             text    not null,
  app               text,
  product_id        text,
  apple_id          text,
  country           text,
  currency          text,
  units             numeric,
  amount            numeric,
  proceeds          numeric,
  proceeds_currency text,
  order_id          text,
  fields            jsonb   not null,
  constraint store_report_row_pkey primary key (name, sha256, line)
);

create index store_report_row_apple_id_idx on subledger.store_report_row (apple_id, day)
  where apple_id is not null and product_id is not null;

create table subledger.head_tree (
  stream_id integer not null,
  size      bigint  not null,
  chain     bytea   not null,
  constraint head_tree_pkey primary key (stream_id),
  constraint head_tree_size_check check (size >= 0 and size % 256 = 0),
  constraint head_tree_chain_check check (octet_length(chain) = 32)
);

create table subledger.head_tile (
  stream_id integer not null,
  level     integer not null,
  number    bigint  not null,
  root      bytea   not null,
  hashes    bytea   not null,
  constraint head_tile_pkey primary key (stream_id, level, number),
  constraint head_tile_level_check check (level between 0 and 7),
  constraint head_tile_number_check check (number >= 0),
  constraint head_tile_root_check check (octet_length(root) = 32),
  constraint head_tile_hashes_check check (octet_length(hashes) = 8192)
);
-- Hashes do not get smaller by compression.
alter table subledger.head_tile alter column hashes set storage external;

create table subledger.head_checkpoint (
  stream_id integer     not null,
  origin    text        not null,
  size      bigint      not null,
  root      bytea       not null,
  note      text        not null,
  signed_at timestamptz not null,
  constraint head_checkpoint_pkey primary key (stream_id),
  constraint head_checkpoint_size_check check (size > 0),
  constraint head_checkpoint_root_check check (octet_length(root) = 32)
);

create table subledger.head_cosignature (
  stream_id   integer     not null,
  witness     text        not null,
  origin      text        not null,
  size        bigint      not null,
  note        text        not null,
  cosigned_at timestamptz not null,
  constraint head_cosignature_pkey primary key (stream_id, witness),
  constraint head_cosignature_size_check check (size > 0)
);

-- Step: grant what the new tables and columns need
grant usage on schema analyst to subledger_products;

grant update (receipt, account_id, is_signed) on subledger.receipt to subledger_receiver;
grant select (account_id, is_signed) on subledger.receipt to subledger_reader, subledger_analyst;
grant delete on subledger.receipt, subledger.google_purchase to subledger_poller;
grant select on subledger.customer_link to subledger_poller;
grant update (asking_until) on subledger.check_schedule to subledger_poller;
grant select on subledger.check_schedule to subledger_receiver;
grant select (stream_id, original_transaction_id, part_of) on subledger.subscription to subledger_receiver;
grant update (next_at) on subledger.check_schedule to subledger_receiver;
grant select on subledger.change, subledger.change_head, subledger.jws_header to subledger_poller;
grant select, insert, update on subledger.endpoint, subledger.endpoint_cursor to subledger_poller;
grant select, insert, update, delete on subledger.endpoint_delivery to subledger_poller;
grant select, insert, delete on subledger.endpoint_attempt to subledger_poller;
grant select, insert, update on subledger.lease to subledger_poller;
grant select, insert, update on subledger.turn to subledger_receiver, subledger_poller;
grant select
  on subledger.checkpoint, subledger.app_ownership, subledger.customer_link, subledger.ownership,
    subledger.customer_identity, subledger.shared_account_token
  to subledger_receiver;

grant select, insert, update, delete
  on subledger.exchange_rate, subledger.commission, subledger.tax_rate
  to subledger_products;
grant select on subledger.stream, subledger.stream_head, subledger.change_head to subledger_products;
grant select (stream_id, number, original_transaction_id) on subledger.change to subledger_products;
grant select, insert, update on subledger.endpoint, subledger.endpoint_cursor to subledger_products;
grant select, insert, update, delete on subledger.endpoint_delivery to subledger_products;
grant select on subledger.endpoint_attempt to subledger_products;
grant select (app, name) on subledger.token to subledger_authenticator;
grant select (stream_id, original_transaction_id, transaction_id, product_id, revocation_date)
  on subledger.transaction to subledger_poller;
-- Functions begin the logins to the console now.
revoke insert on subledger.console_session from subledger_authenticator;
revoke select, delete on subledger.console_ticket from subledger_authenticator;

grant select
  on subledger.lease, subledger.exchange_rate, subledger.commission, subledger.tax_rate
  to subledger_reader, subledger_analyst;
grant select
  on subledger.endpoint, subledger.endpoint_cursor, subledger.endpoint_delivery, subledger.endpoint_attempt
  to subledger_reader;
grant select, insert on subledger.store_report to subledger_products;
grant select on subledger.store_report to subledger_reader, subledger_analyst;
grant select, insert on subledger.store_report_row to subledger_products;
grant select on subledger.store_report_row to subledger_reader, subledger_analyst;
grant select, insert, update on subledger.head_tree, subledger.head_checkpoint, subledger.head_cosignature
  to subledger_projector;
grant select, insert on subledger.head_tile to subledger_projector;
grant select on subledger.head_checkpoint, subledger.head_cosignature to subledger_reader;

-- Step: publish the log and the changes for logical replication
do $$
begin
  if has_database_privilege(current_database(), 'create') then
    -- That a server without wal_level = logical replicates nothing yet is no news.
    perform set_config('client_min_messages', 'error', true);
    create publication subledger_feed
      for table
        subledger.stream,
        subledger.event (
          stream_id, position, received_at, occurred_at, source, type, subtype, kind, dedupe_key, fingerprint, facts,
          defects, body_sha256, chain_id, revocation, chain
        ),
        subledger.change
      with (publish = 'insert');
    perform set_config('client_min_messages', 'warning', true);
  end if;
end
$$;
