-- The complete schema of Subledger's database. `subledger migrate` applies this file to a database without the
-- schema, in one transaction. If two servers apply it at the same time, the second waits at `create schema` and then
-- finds the schema in place.
--
-- Each chapter is a topic: its tables, each with its indexes, privileges and comments, then its functions and views.
-- The blocks of a chapter are of two kinds, and each begins with a line that names its kind:
--
--   Once        roles, tables, indexes, privileges on tables. A change to these raises the version, below, and needs
--               a migration for existing databases: a file in deploy/migrations.
--   Repeatable  comments, functions, views and their privileges, triggers. `subledger migrate` applies all of these
--               blocks again, in their order, if their SHA-256 is not the one in schema_version, so every statement
--               must also work on a database that already has its result.
--
-- Views and functions are replaced, never dropped. That keeps the privileges that an owner granted on them to other
-- logins, and the views that an owner built on them. PostgreSQL cannot change the columns of a view, or the
-- parameters and the result of a function, in this way: a release that does so, or that removes one, raises the
-- version, and its migration drops the old one. New ones need no migration. Privileges on views that are missing are
-- granted again.
--
-- Every release applies its own repeatable blocks, also over those of a newer release with the same version. So the
-- server must work with those of any release with its version: a change that the server needs raises the version.
--
-- A stream is an app in an environment. The key of every table about events, subscriptions and customers begins with
-- the stream, so apps and environments never mix. Settings, tokens and endpoints do not belong to a stream, nor do
-- the tables whose stream is known only later: that of a receipt or of a purchase of Google Play after the store's
-- answer, that of a notification in quarantine after its app was configured.
--
-- `subledger rebuild` makes the chapters Projections and Customers again from the log, and the projector the tiles of
-- the chapter The tree. Nothing else can be recomputed.

-- Schema and roles ===================================================================================================
-- Roles belong to the cluster, so another database may already have created them, or may be creating them now.
-- They are groups: grant them to the logins of your services. The server assumes the role with the fewest privileges
-- that suffice.
--
-- The settings of a role apply only to sessions that log in as the role itself, not to its members, and a session can
-- change them: they guard against accidents. On its private PostgreSQL, the server enforces them (ReaderLimits.swift).
-- The server's own sessions get their planner settings when they connect (Database.swift). No function, table or view
-- sets any.
--
-- subledger_receiver appends to the log and keeps receipts, notifications in quarantine and answers to refund
-- requests. subledger_projector reads the log and writes the projections and the changes. subledger_poller reads what
-- is due and what is known, bodies and receipts included, because it asks with those; it records its checks and
-- delivers changes; the receiver appends what it finds. subledger_products writes the owner's settings.
-- subledger_authenticator reads tokens and keeps logins to the console. subledger_reader and subledger_analyst may
-- read everything except tokens, receipts and bodies, in quarantine as well.

-- Once ---------------------------------------------------------------------------------------------------------------

create schema subledger;
create schema analyst;

do $$
declare
  name text;
begin
  foreach name in array array[
    'subledger_owner', 'subledger_receiver', 'subledger_projector', 'subledger_products', 'subledger_authenticator',
    'subledger_poller', 'subledger_reader', 'subledger_analyst'
  ] loop
    begin
      if not exists (select from pg_roles where rolname = name) then
        execute format('create role %I nologin', name);
        -- Abandoned queries must end: open transactions block the cleanup of dead rows and of the notification queue.
        if name in ('subledger_reader', 'subledger_analyst') then
          execute format('alter role %I set statement_timeout = %L', name, '60s');
          execute format('alter role %I set idle_in_transaction_session_timeout = %L', name, '60s');
          execute format('alter role %I set idle_session_timeout = %L', name, '1h');
        end if;
        -- Guards against accidental writes.
        if name = 'subledger_analyst' then
          execute format('alter role %I set default_transaction_read_only = on', name);
          -- For the planner: compiling a query over all periods takes longer than it saves, and sorting is faster in
          -- memory than on disk.
          execute format('alter role %I set jit = off', name);
          execute format('alter role %I set work_mem = %L', name, '64MB');
        end if;
      end if;
      -- Lets the user that applies this file assume the roles; superusers may anyway. From PostgreSQL 16 on, creating
      -- a role does not suffice. If the grant is not permitted, the server reports the missing role at start.
      if not (select rolsuper from pg_roles where rolname = current_user) then
        execute format('grant %I to current_user', name);
      end if;
    exception
      when duplicate_object or unique_violation or insufficient_privilege then null;
    end;
  end loop;
end
$$;

-- Who may use the schemas. subledger_products needs analyst.country, by which imported tables name countries.
grant usage on schema subledger
  to subledger_receiver, subledger_projector, subledger_products, subledger_authenticator, subledger_poller,
    subledger_reader, subledger_analyst;
grant usage on schema analyst to subledger_products, subledger_reader, subledger_analyst;

create table subledger.schema_version (
  version           integer     not null,
  applied_at        timestamptz not null default now(),
  repeatable_sha256 bytea,
  constraint schema_version_pkey primary key (version)
);

insert into subledger.schema_version (version) values (2);

grant select on subledger.schema_version
  to subledger_receiver, subledger_projector, subledger_products, subledger_poller, subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

-- Replacing a view waits for the sessions that read it, and new queries of the view wait for the replacement. After
-- this time, the replacement fails, and the installed text remains until the next attempt.
set local lock_timeout = '3s';

comment on schema subledger is 'App Store and Google Play subscriptions: the event log and its projections';

comment on schema analyst is
  'Figures about subscriptions, each with the rows and the events it comes from, computed when read';

comment on table subledger.schema_version is
  'Versions of this schema that were applied; the highest is the current one';
comment on column subledger.schema_version.repeatable_sha256 is
  'SHA-256 of the repeatable blocks of schema.sql that were applied last; null if unknown';

-- The event log ======================================================================================================

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.stream (
  stream_id   integer     not null,
  app         text        not null,
  environment text        not null,
  created_at  timestamptz not null default now(),
  constraint stream_pkey primary key (stream_id),
  constraint stream_app_environment_key unique (app, environment),
  constraint stream_app_check check (app <> ''),
  constraint stream_environment_check
    check (environment in ('production', 'sandbox', 'xcode', 'local_testing', 'unknown'))
);

grant select, insert on subledger.stream to subledger_receiver;
grant select on subledger.stream
  to subledger_projector, subledger_products, subledger_poller, subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.stream is 'An app in an environment. Positions have no gaps within a stream';
comment on column subledger.stream.stream_id is 'Number of the stream in this database, from 1';
comment on column subledger.stream.app is 'Bundle ID or package name';
comment on column subledger.stream.environment is
  'production, sandbox, xcode, local_testing, or unknown if the body names none of them; never mixed';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.stream_head (
  stream_id integer not null,
  position  bigint  not null,
  chain     bytea   not null,
  constraint stream_head_pkey primary key (stream_id),
  constraint stream_head_position_check check (position >= 0),
  constraint stream_head_chain_check check (octet_length(chain) = 32)
)
-- Updated by every append: free space keeps the new row version on the same page, without a new index entry.
with (fillfactor = 10);

grant select, insert, update on subledger.stream_head to subledger_receiver;
grant select on subledger.stream_head
  to subledger_projector, subledger_products, subledger_poller, subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.stream_head is
  'Last position assigned in a stream. An append locks the row until it commits, so positions follow commit order and '
  'have no gaps';
comment on column subledger.stream_head.chain is
  'Value of the hash chain up to this position, as event.chain; chain_start before the first event';

-- Once ---------------------------------------------------------------------------------------------------------------

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
  fingerprint bytea,
  facts       jsonb compression lz4 not null,
  defects     jsonb,
  body_sha256 bytea       not null,
  chain_id    bytea,
  revocation  text,
  chain       bytea       not null,
  constraint event_pkey primary key (stream_id, position),
  constraint event_position_check check (position > 0),
  constraint event_dedupe_key_check check (octet_length(dedupe_key) in (16, 32)),
  constraint event_fingerprint_check check (octet_length(fingerprint) = 32),
  constraint event_source_check check (
    source in (
      'apple-v1', 'apple-v2', 'apple-history', 'apple-receipt', 'apple-device', 'apple-api', 'google-rtdn', 'google-api',
      'google-device', 'google-voided', 'backend', 'operator'
    )
  ),
  constraint event_facts_check check (jsonb_typeof(facts) = 'object'),
  constraint event_defects_check check (jsonb_typeof(defects) = 'array'),
  constraint event_body_sha256_check check (octet_length(body_sha256) = 32),
  constraint event_chain_id_check check (octet_length(chain_id) = 32),
  constraint event_revocation_check check (revocation in ('off', 'pending', 'good', 'unknown')),
  constraint event_chain_check check (octet_length(chain) = 32)
);

-- A new V1 notification may have the body of an earlier one, see table subscription_head; other keys are unique.
create unique index event_dedupe_key_key on subledger.event (
  stream_id, dedupe_key, (case when source = 'apple-v1' then position else 0 end)
);

create index event_received_at_idx on subledger.event (stream_id, received_at);

-- Link events of a customer by position.
create index event_link_idx on subledger.event (stream_id, (facts #>> '{link,backendCustomerId}'), position)
  where kind = 'link';

-- What events say about customers besides their facts, by the id that they name.
create index event_notice_idx on subledger.event (
  stream_id,
  (coalesce(
    facts #>> '{notification,appTransaction,appTransactionId}', facts #>> '{notification,originalTransactionId}',
    facts #>> '{erasure,subscriptions,0}'
  )),
  position
) where kind in ('consent_rescinded', 'erasure') or kind = 'consumption_request' and source = 'apple-v1';

-- What operators asked the store for, about a subscription or about all of a product, by position.
create index event_write_idx on subledger.event (
  stream_id, (coalesce(facts #>> '{write,originalTransactionId}', facts #>> '{write,productId}')), position
) where source = 'operator';

create index event_renewal_failure_idx on subledger.event (stream_id, position) where kind = 'renewal_failure';

-- Refund requests: the new ones, and what became of those of a purchase.
create index event_consumption_request_idx on subledger.event (stream_id, received_at)
  where kind = 'consumption_request';

create index event_refund_request_idx on subledger.event (
  stream_id, coalesce(
    facts #>> '{transactions,0,transactionId}',
    facts #>> '{notification,notification,pendingRefundReviewNotification,orderId}',
    facts #>> '{notification,notification,voidedPurchaseNotification,orderId}'
  )
)
  where kind in ('consumption_request', 'refund', 'refund_declined', 'refund_reversal');

grant select, insert on subledger.event to subledger_receiver;
grant select on subledger.event to subledger_projector, subledger_poller;
grant select (
  stream_id, position, received_at, occurred_at, source, type, subtype, kind, dedupe_key, fingerprint, facts, defects,
  body_sha256, chain_id, revocation, chain
) on subledger.event to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.event is
  'Every accepted notification, once, in commit order, without its body. Append-only: update, delete and truncate fail '
  'for every role, but for `subledger erase`, which renames a person''s ids in facts, and fingerprints of ids';
comment on column subledger.event.position is 'From 1 without gaps within its stream, in commit order';
comment on column subledger.event.received_at is 'When it was received, by our clock';
comment on column subledger.event.occurred_at is
  'When it happened, by the dates in the notification; null if it has none';
comment on column subledger.event.source is
  'Wire format: apple-v1 or apple-v2 for notifications; apple-history for one of version 2 that did not arrive and was '
  'fetched from Apple''s notification history; apple-receipt for answers of the App Store to questions about '
  'receipts; apple-device for signed data that apps get from StoreKit 2 and backends hand in; apple-api for signed data '
  'in answers of the App Store Server API; google-rtdn for notifications of Google Play, which have no facts; google-api '
  'for answers of the Google Play Developer API; google-device for those about purchases that backends hand in; '
  'google-voided for purchases that Google took back; backend for customer links set by the owner''s own backend; '
  'operator for what is asked of the store, by whomever, and for what operators state';
comment on column subledger.event.type is
  'As the store spells it, even if this version does not know it; null if unreadable';
comment on column subledger.event.subtype is 'As Apple spells it; V1 and Google Play have none';
comment on column subledger.event.kind is
  'What happened, in one vocabulary for all sources: purchase (the first, or after expiry), renewal, recovery (a '
  'failed renewal was charged later), renewal_failure, plan_change (now or at the next renewal), auto_renew_change '
  '(switched on or off), offer (redeemed for the current product), extension (by the developer), extension_report, '
  'grace_end, expiration, refund, refund_declined, refund_reversal, revoke (family sharing ended), price_consent, '
  'price_change, metadata_update, migration, consumption_request, external_purchase, consent_rescinded, '
  'seats_unclaimed (members lose the seats that they had claimed), receipt '
  '(the App Store answered a question about a receipt), account_deletion (it answered that the Apple Account was '
  'deleted), transaction and app_transaction (signed data of a device was handed in), pause and hold (Google suspends '
  'access), answer (Google answered what it knows of a purchase), test, link (a backend sets the links of a customer), '
  'seat_claim and seat_release (a backend gives a seat of a subscription to a customer, or takes it back), '
  'write_request (the store is about to be asked for a change, or to be answered about a refund), write_answer (what it '
  'answered), month_closed '
  'and month_reopened (an operator closed a month, or opened it again: see analyst.closed_months), erasure (an operator '
  'erased a person''s data), other (a type '
  'without a word here yet). Never decides access: the facts do';
comment on column subledger.event.dedupe_key is
  'Equal for two deliveries of one notification: the notificationUUID, 16 bytes, or a SHA-256 of the content if there '
  'is none. V1 has no UUID: the SHA-256 of the stored body, which a later notification may have again. Answers about '
  'receipts: a SHA-256 of the body''s digest and received_at. Signed data of devices: a SHA-256 of the signed text; of '
  'an app transaction, of its content without device and time of signing';
comment on column subledger.event.fingerprint is
  'Equal for V1 notifications with the same content apart from their receipts: a SHA-256 of that content. Most such '
  'notifications are one notification sent several times, but V1 does not say which. Null for other sources';
comment on column subledger.event.facts is
  '{"transactions":[…],"renewals":[…]} with Apple''s names, dates as ISO 8601 UTC, ids as strings, missing fields '
  'omitted; "accountDeletions" has the subscriptions of a deleted Apple Account, "notification" the other fields of a '
  'signed notification, "link" the links set by a backend, "write" what is asked of the store, by whom, and '
  'the store''s answer, "closing" the figures of a closed month, "erasure" what was erased, "seat" the customer who gets or '
  'loses a seat';
comment on column subledger.event.defects is
  'Fields that could not be read or say nothing, as [{"path","problem"}]; null if there are none';
comment on column subledger.event.body_sha256 is 'SHA-256 of the result of the function event_body';
comment on column subledger.event.chain_id is
  'Identifies the certificates of the signature, see certificate_verdict; null if unsigned';
comment on column subledger.event.revocation is
  'Revocation status of these certificates when the event was stored: off (checking is disabled), pending, good, '
  'unknown (no response); null if unsigned';
comment on column subledger.event.chain is
  'Value of the hash chain up to this event: SHA-256 of the value before it, the position and event_digest';

-- Once ---------------------------------------------------------------------------------------------------------------

-- Bodies are most of the log's bytes, and hardly ever read: a fold, a rebuild and a repeated notification need none.
-- Partitions are months in UTC, see make_body_partitions.
create table subledger.event_body (
  stream_id   integer     not null,
  position    bigint      not null,
  received_at timestamptz not null,
  body        bytea compression lz4 not null,
  constraint event_body_pkey primary key (stream_id, position, received_at)
) partition by range (received_at);

-- The poller reads bodies because it asks with them. They contain device ids and receipts, so readers may not.
grant select, insert on subledger.event_body to subledger_receiver;
grant select on subledger.event_body to subledger_projector, subledger_poller;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.event_body is
  'The body of each event, written by the statement that appends the event. Partitioned by month. Append-only, but for '
  '`subledger erase`, which empties bodies, and `subledger archive`, which moves whole months to files: see event_archive';
comment on column subledger.event_body.position is 'As event.position';
comment on column subledger.event_body.received_at is 'As event.received_at, which says in which partition the body is';
comment on column subledger.event_body.body is
  'The evidence. V1: the body as received, without the shared secret. V2: the signed text as Apple sent it, as '
  '{"signedPayload":"..."}; the JSON around it is not signed and is dropped. If the first byte is 1, the evidence is '
  'stored in a compact form: see the functions event_body and rebuilt_body. Empty if an operator erased it';

create or replace function subledger.body_partitions()
returns table (name text, first_at timestamptz, until_at timestamptz)
language sql stable
set timezone = 'UTC'
set datestyle = 'ISO' as $$
  select found.name, substring(found.bounds from 'FROM \(''([^'']+)''\)')::timestamptz,
    substring(found.bounds from 'TO \(''([^'']+)''\)')::timestamptz
  from (
    select relname::text as name, pg_get_expr(relpartbound, pg_class.oid) as bounds
    from pg_inherits
    join pg_class on pg_class.oid = inhrelid
    where inhparent = 'subledger.event_body'::regclass
  ) as found
$$;

create or replace function subledger.body_months_ahead(of_time timestamptz, ahead integer) returns integer
language sql stable
set timezone = 'UTC' as $$
  select count(*)::integer
  from generate_series(1, ahead) as month (number)
  where exists (
    select
    from subledger.body_partitions()
    where first_at <= date_trunc('month', of_time) + make_interval(months => month.number)
      and until_at > date_trunc('month', of_time) + make_interval(months => month.number)
  )
$$;

-- Attaching a partition does not wait for appends or reads, nor they for it. Two calls at once wait for each other.
create or replace function subledger.make_body_partitions(of_time timestamptz, ahead integer) returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set datestyle = 'ISO'
set lock_timeout = '3s' as $$
declare
  month timestamptz;
  name text;
begin
  if ahead not between 0 and 12 then
    raise exception 'months ahead: % is not from 0 to 12', ahead using errcode = 'invalid_parameter_value';
  end if;
  -- On several nodes, Citus distributes what is attached, and otherwise refuses the trigger. Elsewhere it means nothing.
  perform set_config('citus.enable_unsafe_triggers', 'on', true);
  for month in
    select date_trunc('month', of_time) + make_interval(months => number)
    from generate_series(0, ahead) as number
  loop
    continue when exists (select from subledger.body_partitions() where first_at <= month and until_at > month);
    lock table subledger.event_body in share update exclusive mode;
    continue when exists (select from subledger.body_partitions() where first_at <= month and until_at > month);
    name := 'event_body_' || to_char(month, 'YYYY_MM');
    execute format('create table subledger.%I (like subledger.event_body including all)', name);
    execute format(
      'create trigger event_body_append_only before update or delete or truncate on subledger.%I '
      'for each statement execute function subledger.refuse_change()', name);
    execute format('alter table subledger.%I enable always trigger event_body_append_only', name);
    execute format(
      'alter table subledger.event_body attach partition subledger.%I for values from (%L) to (%L)', name, month,
      month + interval '1 month');
  end loop;
  return subledger.body_months_ahead(of_time, ahead);
end
$$;

comment on function subledger.body_partitions is
  'The partitions of table event_body: bodies of events that were received from first_at until before until_at';
comment on function subledger.body_months_ahead is
  'How many of the next months after that of a time have a partition of table event_body';
comment on function subledger.make_body_partitions is
  'Makes the partition of table event_body for the month of a time, and for as many months after it; those that are there '
  'stay. Returns how many of those after it there are';

revoke execute on function subledger.make_body_partitions(timestamptz, integer) from public;
grant execute on function subledger.make_body_partitions(timestamptz, integer) to subledger_receiver;

-- Once ---------------------------------------------------------------------------------------------------------------

-- A file is listed before it is made and until it is removed, so none is ever forgotten in the folder.
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

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.event_archive is
  'The files with the bodies of past months, which `subledger archive` moved out of table event_body';
comment on column subledger.event_archive.month is 'The first day of the month of event.received_at, in UTC';
comment on column subledger.event_archive.file is 'Its name in the archive folder';
comment on column subledger.event_archive.state is
  'writing: being made, or left by a command that was interrupted; kept: has bodies that are nowhere else; removing: its '
  'bodies were restored, or are in another file since an erasure, and the file is about to be removed';
comment on column subledger.event_archive.written_at is 'When it was begun, by the clock of the command';
comment on column subledger.event_archive.file_sha256 is 'SHA-256 of the file';
comment on column subledger.event_archive.file_bytes is 'Length of the file';
comment on column subledger.event_archive.first_position is 'The first event whose body is in the file';
comment on column subledger.event_archive.last_position is 'The last one; not every event between the two has its body there';
comment on column subledger.event_archive.bodies is 'How many bodies the file has, those included that an erasure emptied';

-- The bodies are in files that were read back. The count finds one that was appended since then.
create or replace function subledger.drop_body_partition(of_month date, expected bigint) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set datestyle = 'ISO'
set lock_timeout = '3s' as $$
declare
  partition text;
  found bigint;
begin
  select name into partition
  from subledger.body_partitions()
  where first_at = of_month::timestamp at time zone 'UTC'
    and until_at = (of_month + interval '1 month') at time zone 'UTC';
  if partition is null then
    raise exception 'no partition of event_body is that of month %', of_month using errcode = 'undefined_table';
  end if;
  execute format('lock table subledger.%I in share mode', partition);
  execute format('select count(*) from subledger.%I', partition) into found;
  if found <> expected then
    raise exception 'partition % has % bodies, and not %', partition, found, expected
      using errcode = 'object_not_in_prerequisite_state';
  end if;
  -- Appends wait from here to the commit.
  execute format('alter table subledger.event_body detach partition subledger.%I', partition);
  execute format('drop table subledger.%I', partition);
end
$$;

-- Readers may know where a body is, and not what it says.
create or replace function subledger.body_place(of_stream integer, at_position bigint)
returns table (place text, file text)
language sql stable strict security definer
set search_path = pg_catalog, pg_temp as $$
  select
    case
      when octet_length(stored.body) > 0 then 'database'
      when exists (
        select
        from subledger.event as erasure
        cross join jsonb_array_elements(erasure.facts #> '{erasure,positions}') as range
        where erasure.stream_id = of_stream
          and erasure.kind = 'erasure'
          and erasure.position > at_position
          and at_position between (range ->> 'first')::bigint and (range ->> 'last')::bigint
      ) then 'erased'
      when archived.file is not null then 'archive'
      when stored.body is null and exists (
        select
        from subledger.event_body as other
        where other.stream_id = of_stream
          and other.position = at_position
      ) then 'wrong_time'
      else 'missing'
    end,
    archived.file
  from subledger.event
  left join lateral (
    select event_body.body
    from subledger.event_body
    where event_body.stream_id = event.stream_id
      and event_body.position = event.position
      and event_body.received_at = event.received_at
    offset 0
  ) as stored on true
  left join lateral (
    select min(event_archive.file) as file
    from subledger.event_archive
    where event_archive.stream_id = event.stream_id
      and event_archive.month = date_trunc('month', event.received_at at time zone 'UTC')::date
      and event_archive.state = 'kept'
      and event.position between event_archive.first_position and event_archive.last_position
  ) as archived on stored.body is null
  where event.stream_id = of_stream
    and event.position = at_position
$$;

comment on function subledger.drop_body_partition is
  'Drops the partition of table event_body for a month, if it has exactly so many bodies. `subledger archive` calls it after '
  'their files were read back';
comment on function subledger.body_place is
  'Where the body of an event is: database; archive, with the name of the file; erased by an operator; wrong_time, if it is '
  'stored under another time than that of its event, so that nothing finds it; or missing';

revoke execute on function
  subledger.drop_body_partition(date, bigint), subledger.body_place(integer, bigint) from public;
grant execute on function subledger.body_place(integer, bigint)
  to subledger_receiver, subledger_projector, subledger_poller, subledger_reader;

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.event_conflict (
  stream_id   integer     not null,
  position    bigint      not null,
  body_sha256 bytea       not null,
  received_at timestamptz not null,
  body        bytea compression lz4 not null,
  constraint event_conflict_pkey primary key (stream_id, position, body_sha256)
);

grant select, insert on subledger.event_conflict to subledger_receiver;
grant select on subledger.event_conflict to subledger_projector;
grant select (
  stream_id, position, body_sha256, received_at
) on subledger.event_conflict to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.event_conflict is
  'Signed notifications with the notificationUUID of a stored event but a different body. The event stays unchanged; '
  'the different body is stored here. Append-only';
comment on column subledger.event_conflict.position is 'The event with the same notificationUUID';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.jws_header (
  stream_id integer not null,
  digest    bytea   not null,
  header    bytea compression lz4 not null,
  constraint jws_header_pkey primary key (stream_id, digest),
  -- Bodies refer to headers by digest, so a digest must identify exactly one header.
  constraint jws_header_digest_check check (digest = sha256(header))
);

grant select, insert on subledger.jws_header to subledger_receiver;
grant select on subledger.jws_header to subledger_projector, subledger_poller;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.jws_header is
  'JWS headers of the signed texts in a stream''s bodies, each stored once: Apple''s contain three certificates and '
  'rarely change. Written in the transaction of the first event that needs them. Append-only';
comment on column subledger.jws_header.digest is 'SHA-256 of the header';
comment on column subledger.jws_header.header is 'As received, in base64url';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.subscription_head (
  stream_id           integer not null,
  subscription_sha256 bytea   not null,
  position            bigint  not null,
  constraint subscription_head_pkey primary key (stream_id, subscription_sha256),
  constraint subscription_head_subscription_sha256_check check (octet_length(subscription_sha256) = 8)
)
-- Updated when another event names the subscription: free space on the page avoids a new index entry.
with (fillfactor = 80);

grant select, insert, update on subledger.subscription_head to subledger_receiver;
grant select on subledger.subscription_head to subledger_projector;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.subscription_head is
  'Last event that names a subscription, for the subscriptions that V1 notifications name. A V1 body identical to a '
  'stored one is a repeat only if no event about its subscriptions was stored since; an append checks that here';
comment on column subledger.subscription_head.subscription_sha256 is
  'First 8 bytes of the SHA-256 of original_transaction_id, whose length is not limited';
comment on column subledger.subscription_head.position is 'Last event that names the subscription';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.certificate_verdict (
  chain_id   bytea       not null,
  decided_at timestamptz not null,
  verdict    text        not null,
  constraint certificate_verdict_pkey primary key (chain_id, decided_at),
  constraint certificate_verdict_verdict_check check (verdict in ('good', 'revoked', 'unknown'))
);

grant select, insert on subledger.certificate_verdict to subledger_receiver;
grant select on subledger.certificate_verdict to subledger_projector, subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.certificate_verdict is
  'Revocation status of the certificates of signatures, from the OCSP responses of their issuer. Append-only';
comment on column subledger.certificate_verdict.chain_id is
  'SHA-256 of the SHA-256 digests of the leaf and the intermediate certificate (DER)';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.ocsp_response (
  certificate_sha256 bytea       not null,
  response_sha256    bytea       not null,
  status             text        not null,
  this_update        timestamptz not null,
  next_update        timestamptz not null,
  answered_at        timestamptz not null,
  response           bytea       not null,
  constraint ocsp_response_pkey primary key (certificate_sha256, response_sha256),
  constraint ocsp_response_certificate_sha256_check check (octet_length(certificate_sha256) = 32),
  constraint ocsp_response_response_sha256_check check (response_sha256 = sha256(response)),
  constraint ocsp_response_status_check check (status in ('good', 'revoked'))
);

grant select, insert on subledger.ocsp_response to subledger_receiver;
grant select on subledger.ocsp_response to subledger_projector, subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.ocsp_response is
  'Signed OCSP responses about the certificates of signatures, from which the verdicts in certificate_verdict come. One '
  'is stored unless a stored one with the same status is valid until the next check. `subledger evidence` puts them into '
  'its file. Append-only';
comment on column subledger.ocsp_response.certificate_sha256 is 'SHA-256 of the certificate (DER)';
comment on column subledger.ocsp_response.response_sha256 is 'SHA-256 of the response';
comment on column subledger.ocsp_response.status is 'What the response says about the certificate: good, revoked';
comment on column subledger.ocsp_response.this_update is 'When the responder knew the status, as it says';
comment on column subledger.ocsp_response.next_update is 'Until when the response is valid, as it says';
comment on column subledger.ocsp_response.answered_at is 'When it was received';
comment on column subledger.ocsp_response.response is 'OCSPResponse (DER, RFC 6960) as received; its signature was verified';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.projector_skip (
  stream_id  integer     not null,
  position   bigint      not null,
  reason     text        not null,
  skipped_at timestamptz not null default now(),
  skipped_by text        not null,
  constraint projector_skip_pkey primary key (stream_id, position),
  constraint projector_skip_position_check check (position > 0),
  constraint projector_skip_reason_check check (reason <> ''),
  constraint projector_skip_skipped_by_check check (skipped_by <> '')
);

grant select, insert on subledger.projector_skip to subledger_projector;
grant select on subledger.projector_skip to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.projector_skip is
  'Events that the projector skips on an operator''s decision, because it cannot process them. They stay in the log, '
  'and every rebuild skips them too. Append-only';
comment on column subledger.projector_skip.reason is 'Why, in the operator''s words';
comment on column subledger.projector_skip.skipped_at is 'When the operator decided, by the database''s clock';
comment on column subledger.projector_skip.skipped_by is 'Operating system user of the operator';

create or replace function subledger.subscription_sha256(original_transaction_id text) returns bytea
language sql stable strict as $$
  select substr(sha256(convert_to(original_transaction_id, 'UTF8')), 1, 8)
$$;

comment on function subledger.subscription_sha256 is
  'Value of subscription_head.subscription_sha256 for a subscription';

create or replace function subledger.rebuilt_parts(of_stream integer, parts bytea) returns bytea
language plpgsql stable strict as $$
declare
  result bytea := '';
  place integer := 0;
  part integer;
  length integer;
  head bytea;
  inside bytea;
begin
  while place < octet_length(parts) loop
    part := get_byte(parts, place);
    place := place + 1;
    if part = 2 then
      select header into strict head
      from subledger.jws_header
      where stream_id = of_stream
        and digest = substr(parts, place + 1, 32);
      place := place + 32;
    end if;
    length := get_byte(parts, place) << 16 | get_byte(parts, place + 1) << 8 | get_byte(parts, place + 2);
    inside := substr(parts, place + 4, length);
    place := place + 3 + length;
    case part
      when 0 then
        result := result || inside;
      when 1 then
        inside := subledger.rebuilt_parts(of_stream, inside);
        result := result || translate(encode(inside, 'base64'), E'\n', '')::bytea;
      when 2 then
        inside := subledger.rebuilt_parts(of_stream, inside);
        result := result || head || '.' || translate(encode(inside, 'base64'), E'+/=\n', '-_')::bytea
          || '.' || translate(encode(substr(parts, place + 1, 64), 'base64'), E'+/=\n', '-_')::bytea;
        place := place + 64;
    end case;
  end loop;
  return result;
end
$$;

create or replace function subledger.rebuilt_body(of_stream integer, stored bytea) returns bytea
language sql stable strict as $$
  select case
    when substr(stored, 1, 1) = '\x01' then subledger.rebuilt_parts(of_stream, substr(stored, 2))
    else stored
  end
$$;

create or replace function subledger.event_body(of_stream integer, at_position bigint) returns bytea
language plpgsql stable strict as $$
declare
  arrived timestamptz;
  stored bytea;
begin
  select received_at into arrived
  from subledger.event
  where stream_id = of_stream
    and position = at_position;
  -- A statement of its own, which reads one partition.
  select body into stored
  from subledger.event_body
  where stream_id = of_stream
    and position = at_position
    and received_at = arrived;
  return subledger.rebuilt_body(of_stream, stored);
end
$$;

comment on function subledger.event_body is
  'The evidence of an event. V1: the body as received, without the shared secret. V2: the signed text as Apple sent '
  'it, as {"signedPayload":"..."}';
comment on function subledger.rebuilt_body is 'Restores the evidence from a value of event_body.body in that stream';
comment on function subledger.rebuilt_parts is
  'Decodes the compact form of a body. After its first byte, a compact body is a sequence of parts: the kind (1 '
  'byte), for kind 2 the digest of a header (32 bytes), a length (3 bytes, big-endian), that many bytes, for kind 2 '
  'another 64 bytes. Kind 0 contains literal bytes. Kinds 1 and 2 contain parts: kind 1 is their base64; kind 2 is a '
  'JWS with that header, the parts as its payload and the 64 bytes as its signature';

-- Bodies are not for readers. Other functions can be executed by everybody, with the rights of the caller.
revoke execute on function
  subledger.event_body(integer, bigint), subledger.rebuilt_body(integer, bytea), subledger.rebuilt_parts(integer, bytea)
  from public;

grant execute on function
  subledger.event_body(integer, bigint), subledger.rebuilt_body(integer, bytea), subledger.rebuilt_parts(integer, bytea)
  to subledger_projector, subledger_poller, subledger_receiver;

-- The hash chain =====================================================================================================
-- Most columns of the log can be recomputed from the bodies, which have digests. The chain of a stream covers the
-- others, and their order: each value is the SHA-256 of the value before it, the position and a digest of what cannot
-- be recomputed. The append computes it from the stream's locked head, without a trigger. A signed copy of a value
-- (`subledger head`) proves later that nothing up to it was changed, inserted or removed.

-- Repeatable ---------------------------------------------------------------------------------------------------------

create or replace function subledger.chain_field(value bytea) returns bytea
language sql immutable as $$
  select coalesce(int4send(octet_length(value)) || value, int4send(-1))
$$;

create or replace function subledger.chain_field(value timestamptz) returns bytea
language sql immutable as $$
  select int4send(8) || int8send((extract(epoch from value) * 1000000)::bigint)
$$;

create or replace function subledger.chain_start(app text, environment text, created_at timestamptz) returns bytea
language sql stable as $$
  select sha256(
    subledger.chain_field('subledger stream 1'::bytea) || subledger.chain_field(convert_to(app, 'UTF8'))
      || subledger.chain_field(convert_to(environment, 'UTF8')) || subledger.chain_field(created_at)
  )
$$;

create or replace function subledger.event_digest(
  received_at timestamptz, source text, dedupe_key bytea, body_sha256 bytea, chain_id bytea, revocation text
)
returns bytea
language sql stable as $$
  select sha256(
    subledger.chain_field('subledger event 1'::bytea) || subledger.chain_field(received_at)
      || subledger.chain_field(convert_to(source, 'UTF8')) || subledger.chain_field(dedupe_key)
      || subledger.chain_field(body_sha256) || subledger.chain_field(chain_id)
      || subledger.chain_field(convert_to(revocation, 'UTF8'))
  )
$$;

-- In PL/pgSQL, which is faster here: an aggregate cannot inline a function in SQL.
create or replace function subledger.chain_step(state bytea, start bytea, at_position bigint, digest bytea)
returns bytea
language plpgsql immutable parallel safe as $$
begin
  return sha256(coalesce(state, start) || int8send(at_position) || digest);
end
$$;

create or replace aggregate subledger.chained(start bytea, at_position bigint, digest bytea) (
  sfunc = subledger.chain_step,
  stype = bytea,
  parallel = safe
);

comment on function subledger.chain_field(bytea) is
  'A value with its length before it, 4 bytes in big-endian order, so that a sequence of values is unambiguous; the '
  'length of null is -1';
comment on function subledger.chain_field(timestamptz) is
  'The same for a time: microseconds since 1970, 8 bytes in big-endian order';
comment on function subledger.chain_start is 'Value of the hash chain of a stream before its first event';
comment on function subledger.event_digest is
  'SHA-256 of what of an event cannot be recomputed from its body, and of the body''s digest';
comment on function subledger.chain_step is 'Step of chained';
comment on aggregate subledger.chained(bytea, bigint, bytea) is
  'Value of the hash chain after events in ascending order of position. start is the value before the first of them, '
  'digest their event_digest';

-- The tree ===========================================================================================================
-- A Merkle tree (RFC 6962) of each stream, whose leaves are the digests of its events, so that short proofs lead from one
-- event, or from an earlier size, to a signed root. Only the projector writes these tables, after the events: an append
-- pays nothing for them. Everything but the checkpoints and cosignatures can be computed again from the log.

-- Once ---------------------------------------------------------------------------------------------------------------

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

grant select, insert, update on subledger.head_tree, subledger.head_checkpoint, subledger.head_cosignature
  to subledger_projector;
grant select, insert on subledger.head_tile to subledger_projector;
grant select on subledger.head_checkpoint, subledger.head_cosignature to subledger_reader;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.head_tree is 'How far the tiles of each stream reach';
comment on column subledger.head_tree.size is
  'Number of events, from the first one, whose hashes are in full tiles of level 0';
comment on column subledger.head_tree.chain is
  'Value of the hash chain at that position; if the event there has another one, the tiles are those of another log';
comment on table subledger.head_tile is 'Full tiles of the trees; a tile is never changed';
comment on column subledger.head_tile.level is '0 for hashes of events; n for roots of 256^n events each';
comment on column subledger.head_tile.number is 'Place among the tiles of its level, from 0';
comment on column subledger.head_tile.root is 'Root of the hashes: a hash of the next level';
comment on column subledger.head_tile.hashes is '256 hashes of 32 bytes';
comment on table subledger.head_checkpoint is
  'The last signed checkpoint of each stream. The next one is signed only if it is proven to extend this one';
comment on column subledger.head_checkpoint.origin is 'Name of the tree: subledger/installation/app/environment';
comment on column subledger.head_checkpoint.size is 'Number of events that it covers';
comment on column subledger.head_checkpoint.root is 'Root of the tree of these events';
comment on column subledger.head_checkpoint.note is 'The checkpoint with its signature (C2SP signed note)';
comment on table subledger.head_cosignature is 'The last checkpoint of each stream that each witness cosigned';
comment on column subledger.head_cosignature.witness is 'Name of the witness''s key';
comment on column subledger.head_cosignature.note is 'The checkpoint with its signature and the cosignature';
comment on column subledger.head_cosignature.cosigned_at is 'By the clock of the witness';

-- Projections ========================================================================================================
-- Only the projector writes these tables, in the same transaction as its checkpoint. `subledger rebuild` projects the
-- whole log into a copy of these tables in schema subledger_rebuild and moves the rows here when it has caught up.

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.checkpoint (
  stream_id          integer not null,
  position           bigint  not null,
  products           text    not null,
  ownership          text    not null default 'latest-buyer 10',
  check_lead         text    not null default '',
  projection_version integer not null default 0,
  constraint checkpoint_pkey primary key (stream_id),
  constraint checkpoint_position_check check (position >= 0)
)
with (fillfactor = 10);

grant select, insert, update, delete on subledger.checkpoint to subledger_projector;
grant select on subledger.checkpoint to subledger_receiver, subledger_poller, subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.checkpoint is
  'How far each stream is projected: every event up to this position, and none after it';
comment on column subledger.checkpoint.projection_version is
  'Version of the projection that wrote the rows; rows of another version are recomputed';
comment on column subledger.checkpoint.products is
  'Text of product_catalog from which the rows were computed, byte for byte; if it differs, they are recomputed';
comment on column subledger.checkpoint.ownership is
  'Policy and store_accounts_per_token_max by which the rows were computed, with a space between, see app_ownership; '
  'if they differ, the rows are recomputed';
comment on column subledger.checkpoint.check_lead is
  'Lead of checks by which the rows were computed, see app_checks; if it differs, they are recomputed';

-- Once ---------------------------------------------------------------------------------------------------------------

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
  facts                    text compression lz4 not null,
  renewal_date             timestamptz,
  renewal_price            bigint,
  renewal_currency         text,
  price_increase_status    integer,
  last_transaction_id      text,
  last_cause               text,
  last_product_id          text,
  last_payer_state         text,
  first_start              timestamptz,
  last_churn_reason        text,
  last_reason_stated       boolean,
  last_ends_at             timestamptz,
  last_paid_end            timestamptz,
  part_of                  text,
  commitment_ends_at       timestamptz,
  constraint subscription_pkey primary key (stream_id, original_transaction_id),
  constraint subscription_last_cause_check check (last_cause in ('paid', 'grace', 'refunded')),
  constraint subscription_last_payer_state_check check (last_payer_state in ('paying', 'trial', 'grace', 'family', 'assigned')),
  constraint subscription_last_churn_reason_check
    check (last_churn_reason in ('refund', 'voluntary', 'billing', 'price', 'unavailable', 'other', 'unknown'))
);

grant select, insert, update, delete on subledger.subscription to subledger_projector;
grant select on subledger.subscription to subledger_poller, subledger_reader, subledger_analyst;
grant select (stream_id, original_transaction_id, part_of) on subledger.subscription to subledger_receiver;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.subscription is
  'One row per original_transaction_id, which stays the same through renewal, cancellation and resubscription. '
  'Whether it is active depends on the time: see view subscription_now';
comment on column subledger.subscription.product_id is 'Product of the most recently bought period';
comment on column subledger.subscription.auto_renew is
  'Whether auto-renewal is on, as last reported; false for a commitment that is not renewed, although its months are '
  'charged until it ends. Null if never reported. Never decides access';
comment on column subledger.subscription.commitment_ends_at is
  'When the subscription ends with a commitment that is not renewed, and of which months are still charged after '
  'last_ends_at; infinity if the store does not state it, null without such a commitment';
comment on column subledger.subscription.auto_renew_product_id is 'Product of the next renewal, as last reported';
comment on column subledger.subscription.in_billing_retry is
  'Whether the store is retrying a failed renewal, as last reported';
comment on column subledger.subscription.expiration_intent is
  '1 cancelled by the customer, 2 billing error, 3 price increase not accepted, 4 product not available, 5 other';
comment on column subledger.subscription.renewal_date is
  'When the next renewal will be attempted, as last signed; null after a renewal that is known only from a receipt';
comment on column subledger.subscription.renewal_price is
  'Price of the next renewal, in thousandths of the currency unit, as last signed; null if only V1 or answers about '
  'receipts are known';
comment on column subledger.subscription.price_increase_status is
  '0 the customer has not responded to the price increase, 1 accepted';
comment on column subledger.subscription.access_ends_at is
  'End of the last access period; infinity if owned permanently, null if there is none';
comment on column subledger.subscription.position is 'Last event about the subscription';
comment on column subledger.subscription.facts is
  'Everything reported about the subscription, each with its time and the position of its evidence; the projector '
  'applies the next event to it. JSON, kept byte for byte: cast it to jsonb to query it';
comment on column subledger.subscription.last_transaction_id is
  'With last_cause, identifies the row of access_period, or of refunded_period, that ends last; null if there are only '
  'purchases that do not renew. Stored here rather than with the period, so that a renewal does not update the row of '
  'the previous period';
comment on column subledger.subscription.last_product_id is 'Product of that period';
comment on column subledger.subscription.last_payer_state is 'payer_state of that period';
comment on column subledger.subscription.first_start is
  'Start of the subscription''s first period, without purchases that do not renew';
comment on column subledger.subscription.last_churn_reason is
  'Why access ended, if it has: see access_period.churn_reason. Computed from what was reported since that stretch of '
  'access began';
comment on column subledger.subscription.last_reason_stated is 'See access_period.reason_stated';
comment on column subledger.subscription.last_ends_at is
  'End of that period. Unlike access_ends_at, it counts a refunded period until the refund, and no purchase that does '
  'not renew';
comment on column subledger.subscription.last_paid_end is 'Like last_ends_at, without grace';
comment on column subledger.subscription.part_of is
  'For a purchase on Google Play that continues another one, the subscription that both are; the row has nothing else. '
  'Null for every subscription';

-- Once ---------------------------------------------------------------------------------------------------------------

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
  type                          text,
  revocation_type               text,
  revocation_percentage         integer,
  offer_type                    integer,
  offer_identifier              text,
  offer_discount_type           text,
  offer_period                  text,
  storefront                    text,
  storefront_id                 text,
  transaction_reason            text,
  price                         bigint,
  currency                      text,
  app_transaction_id            text,
  previous_original_transaction_id text,
  billing_plan_type             text,
  additional                    jsonb,
  gap                           text,
  refunded_price                bigint,
  tax                           bigint,
  developer_revenue             bigint,
  refunds                       jsonb,
  plan_price                    bigint,
  paid_until                    timestamptz,
  constraint transaction_pkey primary key (stream_id, original_transaction_id, transaction_id),
  constraint transaction_gap_check check (gap in ('duration', 'kind', 'consumed'))
);

-- Find the subscription of a transaction or of an order.
create index transaction_transaction_id_idx on subledger.transaction (stream_id, transaction_id);

create index transaction_web_order_line_item_id_idx on subledger.transaction (stream_id, web_order_line_item_id)
  where web_order_line_item_id is not null;

-- Find products that are not configured. Purchases of them are few, or somebody configures the product.
create index transaction_gap_idx on subledger.transaction (stream_id, product_id) where gap is not null;

grant select, insert, update, delete on subledger.transaction to subledger_projector;
grant select on subledger.transaction to subledger_reader, subledger_analyst;
grant select (stream_id, original_transaction_id, transaction_id, product_id, revocation_date)
  on subledger.transaction to subledger_poller;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.transaction is
  'Current state of every purchase and renewal, with the names of Apple''s signed transactions (V1''s '
  'cancellation_date is revocation_date)';
comment on column subledger.transaction.revocation_date is
  'When it was refunded, revoked or replaced by an upgrade; if the Apple Account was deleted, when the App Store said '
  'so: the purchase then counts as refunded in full';
comment on column subledger.transaction.type is
  'Type of the product in Apple''s words, for Google Play too; null in V1 and if unknown';
comment on column subledger.transaction.revocation_percentage is 'Thousandths of a percent: 50000 is one half';
comment on column subledger.transaction.refunded_price is
  'What Google''s order says was paid back, in thousandths of the currency unit; null if revocation_percentage says it';
comment on column subledger.transaction.tax is
  'The tax in price, in thousandths, as Google''s order states it; null for Apple, which does not';
comment on column subledger.transaction.developer_revenue is
  'What the developer receives, in thousandths of the currency unit, as Google''s order states it: without taxes, fees and '
  'refunds so far; null for Apple, which does not state it';
comment on column subledger.transaction.plan_price is
  'What a whole period of the plan costs, in thousandths of the currency unit, as Google''s answer states it. price is lower '
  'for an offer, and for the rest of a period after a change of plan; null for Apple';
comment on column subledger.transaction.paid_until is
  'The end that was paid for, where a later report moved expires_date by free days: at least one. Null otherwise, and for '
  'Google Play';
comment on column subledger.transaction.offer_type is '1 introductory, 2 promotional, 3 offer code, 4 win-back';
comment on column subledger.transaction.price is
  'In thousandths of the currency unit: 10990 is 10.99; of several seats, what was paid for all of them; null in V1';
comment on column subledger.transaction.additional is
  'Other fields that Apple signed, with Apple''s names; null for Google Play';
comment on column subledger.transaction.refunds is
  'What was paid back while the purchase stands, or in several parts until nothing was left, oldest first: when (at), and '
  'how much in thousandths of the currency unit (amount). Null if nothing was, if it is not known, or if all of it was paid '
  'back at once and the purchase counts as never made';
comment on column subledger.transaction.gap is
  'What the configuration of the product does not say, although the purchase needs it: duration or kind, without which '
  'it gives no access; consumed, if the kind of a product that was consumed is not configured, so that it counts as a '
  'consumable. Null if nothing is missing';
comment on column subledger.transaction.positions is 'Positions of the events that reported the transaction, ascending';

-- Once ---------------------------------------------------------------------------------------------------------------

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
  payer_state             text,
  price                   bigint,
  currency                text,
  price_period            text,
  first_start             timestamptz,
  previous_end            timestamptz,
  previous_cut            text,
  previous_product_id     text,
  effective_start         timestamptz,
  effective_end           timestamptz,
  churned_at              timestamptz,
  first_month             integer,
  last_month              integer,
  churn_reason            text,
  reason_stated           boolean,
  movement                text,
  run_start               timestamptz,
  payment_number          integer,
  renewal                 text,
  constraint access_period_pkey primary key (stream_id, original_transaction_id, transaction_id, cause),
  constraint access_period_ends_at_check check (starts_at < ends_at),
  constraint access_period_cause_check check (cause in ('paid', 'grace', 'owned')),
  constraint access_period_cut_check check (
    cut in (
      'upgraded', 'family_revoked', 'assignment_revoked', 'refunded_in_part', 'revoked', 'unknown_revocation',
      'switched_off', 'ended_by_status'
    )
  ),
  constraint access_period_previous_cut_check
    check (previous_cut in (
      'upgraded', 'family_revoked', 'assignment_revoked', 'refunded_in_part', 'refunded', 'revoked',
      'unknown_revocation', 'switched_off', 'ended_by_status'
    )),
  constraint access_period_payer_state_check
    check (payer_state in ('paying', 'trial', 'grace', 'family', 'assigned', 'granted')),
  constraint access_period_movement_check
    check (movement in ('trial_start', 'new', 'conversion', 'renewal', 'recovered', 'resubscribed')),
  constraint access_period_renewal_check
    check (renewal in (
      'in_grace', 'later', 'changed_plan', 'refund', 'voluntary', 'billing', 'price', 'unavailable', 'other', 'unknown'
    )),
  constraint access_period_churn_reason_check
    check (churn_reason in ('refund', 'voluntary', 'billing', 'price', 'unavailable', 'other', 'unknown'))
);

-- Find the next start or end of a period to publish.
create index access_period_starts_at_idx on subledger.access_period (stream_id, starts_at);

create index access_period_ends_at_idx on subledger.access_period (stream_id, ends_at);

grant select, insert, update, delete on subledger.access_period to subledger_projector;
grant select on subledger.access_period to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.access_period is
  'When a subscription gives access: starts_at inclusive, ends_at exclusive. There is access at t if some row '
  'contains t';
comment on column subledger.access_period.cause is
  'paid by a transaction, grace after a failed renewal, or owned permanently (ends_at is then infinity)';
comment on column subledger.access_period.cut is
  'Why it ends before its original end: upgraded, family_revoked, refunded_in_part, revoked (by Google), switched_off (auto-renewal '
  'switched off during grace), ended_by_status (the App Store said so before the end that it stated)';
comment on column subledger.access_period.position is 'First event that reported it';
comment on column subledger.access_period.payer_state is
  'paying, trial (free), grace (access without payment), family (a family member pays), assigned (a seat: the organization or the group''s purchaser pays), '
  'granted (given by hand: nobody pays, no figure counts it, and the columns after it are null); null, like all columns after '
  'it, for a purchase that does not renew: owned permanently, or a non-renewing subscription. It and the columns after '
  'it serve the analyst views: stored here, so that figures over all periods read each row once, without its '
  'transaction and its neighbours';
comment on column subledger.access_period.price is
  'Price of the transaction, in thousandths of the currency unit; for the rest of a period after a change of plan, of a '
  'whole one. With the price of seats and add-ons that were bought within it';
comment on column subledger.access_period.price_period is
  'Period that the price covers, ISO 8601, for an offer that was paid up front, as any on Google Play is, and for a yearly '
  'plan that is billed monthly; null for the product''s own period';
comment on column subledger.access_period.first_start is
  'Start of the subscription''s first period. It and the columns after it, except effective_start, also count rows of '
  'refunded_period as periods';
comment on column subledger.access_period.previous_end is
  'Latest end of the periods before it, by start, with paid before grace; null for the first';
comment on column subledger.access_period.previous_cut is 'Why the previous period ended early';
comment on column subledger.access_period.previous_product_id is 'Product of the previous period, if different';
comment on column subledger.access_period.effective_start is
  'When it begins to add time, if an earlier paid period was still running at its start; may be after its end';
comment on column subledger.access_period.effective_end is
  'For grace: when the next period replaces it, if before its end';
comment on column subledger.access_period.churned_at is
  'When access ended, if it ended with this period and began again later; for its end after the last period, see '
  'subscription.last_transaction_id';
comment on column subledger.access_period.first_month is
  'First monthly anniversary of first_start in the part of the period that counts, 0 being first_start itself; null '
  'if there is none';
comment on column subledger.access_period.last_month is 'Last monthly anniversary in that part';
comment on column subledger.access_period.churn_reason is
  'Why access ended at churned_at: refund, voluntary (auto-renewal switched off), billing (not charged), price '
  '(increase not accepted), unavailable (product no longer for sale), other (not named by the store), unknown. The last '
  'one reported in that stretch of access or the gap after it';
comment on column subledger.access_period.reason_stated is
  'Whether the store stated churn_reason, by a refund or an expiration intent. If not, it is inferred from the renewal in '
  'force when access ended';
comment on column subledger.access_period.movement is
  'What its beginning is to the number of subscriptions: see analyst.movements_detail; null for grace, for an upgrade '
  'and for a period that adds no time';
comment on column subledger.access_period.run_start is
  'Start of the first payment of the run that this payment belongs to: payments for one product that follow each other '
  'by renewal, from one at the standard price on. Null for trials and grace, and before such a payment';
comment on column subledger.access_period.payment_number is 'Number of the payment in its run, from 1';
comment on column subledger.access_period.renewal is
  'How the renewal after this payment went: in_grace, later (charged after a time without access), changed_plan, or if '
  'the customer bought again later, why it was lost: a churn_reason. Null if on time, and after the last payment';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.refunded_period (
  stream_id               integer     not null,
  original_transaction_id text        not null,
  starts_at               timestamptz not null,
  ends_at                 timestamptz not null,
  cause                   text        not null,
  cut                     text,
  transaction_id          text        not null,
  product_id              text,
  position                bigint      not null,
  payer_state             text        not null,
  price                   bigint,
  currency                text,
  price_period            text,
  first_start             timestamptz,
  previous_end            timestamptz,
  previous_cut            text,
  previous_product_id     text,
  effective_start         timestamptz,
  effective_end           timestamptz,
  churned_at              timestamptz,
  first_month             integer,
  last_month              integer,
  churn_reason            text,
  reason_stated           boolean,
  movement                text,
  run_start               timestamptz,
  payment_number          integer,
  renewal                 text,
  constraint refunded_period_pkey primary key (stream_id, original_transaction_id, transaction_id),
  constraint refunded_period_ends_at_check check (starts_at < ends_at),
  constraint refunded_period_cause_check check (cause = 'refunded'),
  constraint refunded_period_cut_check check (cut in ('upgraded', 'refunded')),
  constraint refunded_period_previous_cut_check
    check (previous_cut in (
      'upgraded', 'family_revoked', 'assignment_revoked', 'refunded_in_part', 'refunded', 'revoked',
      'unknown_revocation', 'switched_off', 'ended_by_status'
    )),
  constraint refunded_period_payer_state_check check (payer_state in ('paying', 'trial')),
  constraint refunded_period_movement_check
    check (movement in ('trial_start', 'new', 'conversion', 'renewal', 'recovered', 'resubscribed')),
  constraint refunded_period_renewal_check
    check (renewal in (
      'in_grace', 'later', 'changed_plan', 'refund', 'voluntary', 'billing', 'price', 'unavailable', 'other', 'unknown'
    )),
  constraint refunded_period_churn_reason_check
    check (churn_reason in ('refund', 'voluntary', 'billing', 'price', 'unavailable', 'other', 'unknown'))
);

grant select, insert, update, delete on subledger.refunded_period to subledger_projector;
grant select on subledger.refunded_period to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.refunded_period is
  'Periods of purchases that renew and were refunded in full, until the refund. They count as never bought for access '
  'and in figures of money, so access_period has no row for them. Figures that count subscriptions count them';
comment on column subledger.refunded_period.ends_at is 'When it was refunded, or ended before';
comment on column subledger.refunded_period.cause is 'refunded';
comment on column subledger.refunded_period.cut is
  'Why it ended before its original end: upgraded, refunded; null if it had ended when it was refunded';
comment on column subledger.refunded_period.effective_start is
  'When it begins to add time, if an earlier period of this table or of access_period was still running at its start';
comment on column subledger.refunded_period.effective_end is 'When the next period replaces it, if before its end';
comment on column subledger.refunded_period.payer_state is
  'It and all other columns are like those of access_period with the same name';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.check_schedule (
  stream_id               integer     not null,
  original_transaction_id text        not null,
  due_at                  timestamptz not null,
  reason                  text        not null,
  has_receipt             boolean     not null,
  next_at                 timestamptz,
  purchase_token          text,
  asking_until            timestamptz,
  constraint check_schedule_pkey primary key (stream_id, original_transaction_id),
  constraint check_schedule_reason_check check (reason in ('renewal', 'retry', 'end')),
  constraint check_schedule_next_at_check check (next_at >= due_at)
);

-- Finds the checks of the App Store that are due. Subscriptions that cannot be asked about with a receipt stay due and
-- must not be in the way of the others. An app may have the same name in both stores.
create index check_schedule_next_at_idx on subledger.check_schedule (stream_id, has_receipt, next_at)
  where purchase_token is null;

-- Finds those of Google Play.
create index check_schedule_purchase_idx on subledger.check_schedule (stream_id, next_at)
  where purchase_token is not null;

grant select, insert, update, delete on subledger.check_schedule to subledger_projector;
grant select on subledger.check_schedule to subledger_receiver, subledger_poller, subledger_reader, subledger_analyst;
grant update (next_at) on subledger.check_schedule to subledger_receiver;
grant update (next_at, asking_until) on subledger.check_schedule to subledger_poller;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.check_schedule is
  'When the store is asked about a subscription next, if nothing is reported until then. A subscription that cannot '
  'change any more has no row';
comment on column subledger.check_schedule.due_at is
  'Computed from the facts and the time of the latest report; later than that';
comment on column subledger.check_schedule.reason is
  'renewal: the period ends then; retry: it is over, and neither a renewal nor the end of the subscription was '
  'reported; end: renewal is off and the period ends then, unless renewal was switched on again';
comment on column subledger.check_schedule.has_receipt is
  'True if the store can be asked with a receipt: a V1 notification or an answer about a receipt is among the events. '
  'Taken from the facts: those of V2 notifications are signed, the others are not';
comment on column subledger.check_schedule.purchase_token is
  'The purchase on Google Play that is asked about, which is the current one of the subscription. Null for a '
  'subscription of the App Store';
comment on column subledger.check_schedule.next_at is
  'When the check is made: due_at, or later after a check of this due_at that changed nothing or failed, see '
  'store_check; null if that was the last one. Written by those who ask, as asking_until is';
comment on column subledger.check_schedule.asking_until is
  'No process but one asks until then; null if none does. Of a purchase on Google Play, see google_purchase';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.projector_stall (
  stream_id integer     not null,
  position  bigint      not null,
  cause     text        not null,
  since     timestamptz not null,
  constraint projector_stall_pkey primary key (stream_id),
  constraint projector_stall_cause_check
    check (cause in ('event', 'refold', 'leader', 'statement', 'database', 'busy'))
);

grant select, insert, update, delete on subledger.projector_stall to subledger_projector;
grant select on subledger.projector_stall to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.projector_stall is
  'Streams that make no progress although events are waiting, as observed by a projector. Not part of the '
  'projections: a row is valid only while the checkpoint is at that position';
comment on column subledger.projector_stall.position is 'Position of the checkpoint';
comment on column subledger.projector_stall.cause is
  'event: the next event cannot be processed; refold: all rows would be recomputed again for the same reason; leader: '
  'another session leads the stream; statement: the database rejects a statement; database: it does not respond in '
  'time; busy: the projector is working, and nothing has failed';
comment on column subledger.projector_stall.since is
  'When the stream was first observed at that position, by the database''s clock';

create or replace view subledger.subscription_now as
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
  subscription.position,
  subscription.commitment_ends_at
from subledger.subscription
join subledger.stream using (stream_id)
where subscription.part_of is null;

comment on view subledger.subscription_now is 'Every subscription, and whether it gives access now';

grant select on subledger.subscription_now to subledger_reader, subledger_analyst;

-- Checks =============================================================================================================
-- Questions to the store about single subscriptions. When the next one is due is a projection: check_schedule.

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.app_checks (
  app        text not null,
  check_lead text not null,
  constraint app_checks_pkey primary key (app),
  constraint app_checks_check_lead_check
    check (check_lead = '' or check_lead ~ '^PT([0-9]{1,4}H)?([0-9]{1,4}M)?$' and check_lead ~ '[1-9]')
);

grant select, insert, update, delete on subledger.app_checks to subledger_projector;
grant select on subledger.app_checks to subledger_poller, subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.app_checks is
  'When the subscriptions of an app are checked. The projector writes it when it starts. Compare checkpoint.check_lead';
comment on column subledger.app_checks.check_lead is
  'How long before the end of a period to ask whether it was renewed early: PT6H is six hours, at most 24 hours; empty '
  'if only after the end';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.store_check (
  stream_id               integer     not null,
  original_transaction_id text        not null,
  asked_at                timestamptz not null,
  due_at                  timestamptz,
  reason                  text,
  result                  text        not null,
  status                  integer,
  position                bigint,
  next_at                 timestamptz,
  constraint store_check_pkey primary key (stream_id, original_transaction_id, asked_at),
  constraint store_check_due_at_check check ((due_at is null) = (reason is null)),
  constraint store_check_reason_check check (reason in ('renewal', 'retry', 'end')),
  constraint store_check_result_check check (
    result in (
      'unchanged', 'appended', 'no_receipt', 'secret_rejected', 'key_rejected', 'not_found', 'refused', 'unreadable',
      'unavailable'
    )
  ),
  constraint store_check_position_check check ((result = 'appended') = (position is not null)),
  constraint store_check_next_at_check check (next_at > asked_at and next_at >= coalesce(due_at, next_at))
);

grant select, insert on subledger.store_check to subledger_receiver, subledger_poller;
grant select on subledger.store_check to subledger_projector, subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.store_check is
  'Questions to the store about a subscription, and what came of them. Kept by a rebuild. Append-only';
comment on column subledger.store_check.asked_at is 'When the store was asked, by our clock';
comment on column subledger.store_check.due_at is
  'The check_schedule.due_at that this was the check of; null if it was not scheduled';
comment on column subledger.store_check.reason is 'See check_schedule.reason';
comment on column subledger.store_check.result is
  'unchanged: the answer states nothing new; appended: it was stored as an event; no_receipt: there is no receipt to '
  'ask with; secret_rejected: the app''s shared secret is wrong; key_rejected: the app''s key is wrong; not_found: the '
  'App Store Server API does not know the subscription; refused: the store or a check refuses the question; '
  'unreadable: the answer is not understood; unavailable: there was no answer, or a temporary failure. Only an event '
  'ever changes access';
comment on column subledger.store_check.status is
  'Status number of the answer of verifyReceipt; null if there was none';
comment on column subledger.store_check.position is 'The event with the answer; null if it was not stored';
comment on column subledger.store_check.next_at is
  'When to ask again unless something is reported before; null if not at all';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.store_history (
  stream_id               integer not null,
  original_transaction_id text    not null,
  revision                text,
  covered_since           timestamptz,
  constraint store_history_pkey primary key (stream_id, original_transaction_id)
);

grant select, insert, update on subledger.store_history to subledger_poller;
grant select on subledger.store_history to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.store_history is
  'How far the transaction history of the App Store Server API has been read. Kept by a rebuild';
comment on column subledger.store_history.revision is
  'Apple''s place in the history to continue from, when asked by this subscription; null if that was not asked';
comment on column subledger.store_history.covered_since is
  'The log has all transactions of the subscription since then; null if a history was not read to its end';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.history_backfill (
  stream_id integer not null,
  position  bigint  not null,
  constraint history_backfill_pkey primary key (stream_id),
  constraint history_backfill_position_check check (position > 0)
);

grant select, insert, update on subledger.history_backfill to subledger_poller;
grant select on subledger.history_backfill to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.history_backfill is
  'How far the log was read for subscriptions that version 1 notifications and receipts name, to read their histories from '
  'the App Store Server API. Kept by a rebuild';
comment on column subledger.history_backfill.position is
  'The subscriptions of the events up to this position were asked about';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.delivery_audit (
  stream_id     integer     not null,
  day           date        not null,
  audited_at    timestamptz not null,
  made          bigint      not null,
  delivered     bigint      not null,
  arrived       bigint      not null,
  fetched       bigint      not null,
  refused       bigint      not null,
  lost          bigint      not null,
  answered_late bigint      not null,
  only_in_log   bigint      not null,
  attempts      bigint      not null,
  results       jsonb       not null,
  lags          jsonb       not null,
  before        bigint      not null default 0,
  constraint delivery_audit_pkey primary key (stream_id, day),
  constraint delivery_audit_made_check check (made = arrived + fetched + refused),
  constraint delivery_audit_delivered_check check (delivered between 0 and made),
  constraint delivery_audit_lost_check check (lost between 0 and fetched),
  constraint delivery_audit_before_check check (before between 0 and fetched),
  constraint delivery_audit_answered_late_check check (answered_late between 0 and arrived),
  constraint delivery_audit_only_in_log_check check (only_in_log >= 0),
  constraint delivery_audit_attempts_check check (attempts >= delivered),
  constraint delivery_audit_results_check check (jsonb_typeof(results) = 'object'),
  constraint delivery_audit_lags_check check (jsonb_typeof(lags) = 'object')
);

grant select, insert, update on subledger.delivery_audit to subledger_poller;
grant select on subledger.delivery_audit to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.delivery_audit is
  'The notifications of version 2 that Apple signed on a day, compared with the log. A day is compared an hour after its '
  'end and again eight days later, when Apple has made its last attempt. Kept by a rebuild';
comment on column subledger.delivery_audit.day is 'The day in UTC';
comment on column subledger.delivery_audit.audited_at is 'When it was compared last, by our clock';
comment on column subledger.delivery_audit.made is
  'Notifications that Apple''s notification history has: arrived + fetched + refused';
comment on column subledger.delivery_audit.delivered is
  'Those of which Apple says that an attempt was answered with success';
comment on column subledger.delivery_audit.arrived is 'Those that are in the log because Apple posted them';
comment on column subledger.delivery_audit.fetched is
  'Those that are in the log because they were fetched from the history, even if they arrived later';
comment on column subledger.delivery_audit.refused is 'Those that are not in the log because they are not verified';
comment on column subledger.delivery_audit.lost is
  'Fetched ones that Apple says it had delivered before: they were acknowledged and are missing, which must not happen';
comment on column subledger.delivery_audit.before is
  'Fetched ones that Apple delivered to another URL before this installation listened to the app: since its first '
  'notification, or since the operator says';
comment on column subledger.delivery_audit.answered_late is
  'Arrived ones that Apple delivered again half an hour later or more: they were stored, and the answer was lost';
comment on column subledger.delivery_audit.only_in_log is
  'Events of source apple-v2 that Apple signed on that day and its history does not have';
comment on column subledger.delivery_audit.attempts is 'Attempts to deliver them';
comment on column subledger.delivery_audit.results is 'The attempts by result, as Apple spells it';
comment on column subledger.delivery_audit.lags is
  'Seconds as {"p50": …, "p99": …, "max": …}. sent: from the signature to the first attempt; retried: from there to the '
  'one with success; arrived: from there to received_at, negative if the clocks differ. Missing if there are none';

-- Google Play ========================================================================================================
-- What Google Play is asked about. Its notifications state no facts: the answer to a question does.

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.google_intake (
  stream_id integer not null,
  position  bigint  not null,
  constraint google_intake_pkey primary key (stream_id),
  constraint google_intake_position_check check (position >= 0)
);

grant select, insert, update on subledger.google_intake to subledger_poller;
grant select on subledger.google_intake to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.google_intake is
  'How far the notifications of Google Play in the log have become questions. Kept by a rebuild';
comment on column subledger.google_intake.position is 'Notifications up to this position have';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.google_purchase (
  app                  text        not null,
  token_sha256         bytea       not null,
  purchase_token       text        not null,
  resource             text,
  product_id           text,
  environment          text,
  noticed_at           timestamptz not null,
  notices              bigint      not null default 1,
  notification_type    text,
  expected_states      text,
  notified_at          timestamptz,
  mismatches           integer     not null default 0,
  failures             integer     not null default 0,
  rank                 integer,
  due_at               timestamptz,
  asking_until         timestamptz,
  asked_at             timestamptz,
  result               text,
  answer_position      bigint,
  customer_ids         text[]      not null default '{}',
  unacknowledged_since timestamptz,
  acknowledged_at      timestamptz,
  state                text,
  order_id             text,
  account_ids          jsonb       not null default '{}',
  constraint google_purchase_pkey primary key (app, token_sha256),
  constraint google_purchase_app_check check (app <> ''),
  constraint google_purchase_token_sha256_check check (token_sha256 = sha256(convert_to(purchase_token, 'UTF8'))),
  constraint google_purchase_resource_check check (resource in ('subscription', 'one_time')),
  constraint google_purchase_environment_check check (environment in ('production', 'sandbox')),
  constraint google_purchase_notification_check check (
    (notification_type is null) = (notified_at is null) and (notification_type is null) = (expected_states is null)
  ),
  constraint google_purchase_rank_check check (rank between 0 and 2),
  constraint google_purchase_due_at_check check ((due_at is null) = (rank is null)),
  constraint google_purchase_result_check check (
    result in (
      'appended', 'unchanged', 'not_found', 'gone', 'refused', 'credentials_rejected', 'forbidden', 'unreadable',
      'unavailable'
    )
  ),
  constraint google_purchase_answer_position_check check (answer_position > 0),
  constraint google_purchase_account_ids_check check (jsonb_typeof(account_ids) = 'object')
)
-- Updated by every question: free space keeps the new row version on the same page.
with (fillfactor = 80);

-- Finds the purchases to ask about.
create index google_purchase_due_at_idx on subledger.google_purchase (app, rank, due_at) where due_at is not null;

-- Finds the purchases of which nothing proves that they exist.
create index google_purchase_unanswered_idx on subledger.google_purchase (app, due_at) where environment is null;

create index google_purchase_unacknowledged_idx on subledger.google_purchase (app, unacknowledged_since)
  where unacknowledged_since is not null;

-- The receiver asks about the purchases that backends hand in, and records the checks.
grant select, insert, update on subledger.google_purchase to subledger_receiver, subledger_poller;
grant delete on subledger.google_purchase to subledger_poller;
grant select on subledger.google_purchase to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.google_purchase is
  'Purchases of Google Play by their token, when each is asked about next, and what came of the last question. A '
  'question is due after a notification about the purchase, after a failed one, and when something may have happened '
  'without a notification. Kept by a rebuild';
comment on column subledger.google_purchase.app is 'Package name';
comment on column subledger.google_purchase.token_sha256 is 'SHA-256 of the token, which may be longer than an index allows';
comment on column subledger.google_purchase.resource is
  'subscription or one_time: where it is asked about; null if a backend handed it in and nothing has said it yet';
comment on column subledger.google_purchase.product_id is 'As a notification or an answer named it last';
comment on column subledger.google_purchase.environment is 'That of the answers; null before the first';
comment on column subledger.google_purchase.noticed_at is 'When it was first named by a notification or handed in';
comment on column subledger.google_purchase.notices is 'How often there was a reason to ask now';
comment on column subledger.google_purchase.notification_type is
  'Type of the latest notification of which no answer has shown the effect; null if none is waited for';
comment on column subledger.google_purchase.expected_states is
  'States that the answers should have afterwards, separated by spaces; empty if they may have any';
comment on column subledger.google_purchase.notified_at is 'When that happened, according to Google';
comment on column subledger.google_purchase.mismatches is 'How many answers did not show its effect';
comment on column subledger.google_purchase.failures is 'How many questions in a row had no answer';
comment on column subledger.google_purchase.rank is
  'Order of the questions: 0 after a notification or a proven hand-in, 1 repeated or unproven, 2 scheduled; null if none '
  'is planned';
comment on column subledger.google_purchase.due_at is 'When to ask; null if only a notification or a hand-in leads to it';
comment on column subledger.google_purchase.asking_until is
  'Until when a process asks about it at most, so that no other does; null if none does';
comment on column subledger.google_purchase.asked_at is 'When it was asked about last';
comment on column subledger.google_purchase.result is
  'What came of that: appended, unchanged; not_found; gone: not known any more; refused; credentials_rejected; '
  'forbidden: the account may not ask; unreadable; unavailable. Only an event ever changes access';
comment on column subledger.google_purchase.answer_position is
  'Position of the last answer that is in the log, in the stream of its environment; null before the first';
comment on column subledger.google_purchase.customer_ids is
  'The backend''s customers who handed it in and are not linked to it yet: they are after the next answer';
comment on column subledger.google_purchase.account_ids is
  'By those customers: the account id that the backend gave the app for each, if it named one';
comment on column subledger.google_purchase.unacknowledged_since is
  'When it was bought, until it is acknowledged: Google refunds it after three days. Null if it need not be';
comment on column subledger.google_purchase.acknowledged_at is 'When the server acknowledged it; null if it did not';
comment on column subledger.google_purchase.state is
  'Google''s state in the last answer whose orders are known; null before the first';
comment on column subledger.google_purchase.order_id is
  'The newest order of that answer. Orders between two answers, and after account hold and pauses, are asked about: only '
  'they say when their periods began';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.google_notification (
  app          text    not null,
  token_sha256 bytea   not null,
  stream_id    integer not null,
  position     bigint  not null,
  constraint google_notification_pkey primary key (app, token_sha256, stream_id, position)
);

grant select, insert, delete on subledger.google_notification to subledger_poller;
grant select, delete on subledger.google_notification to subledger_receiver;
grant select on subledger.google_notification to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.google_notification is
  'Notifications in the log that say more than an answer does: a void, a revocation, the time of a recovery. An event in '
  'the stream of the purchase states it once that stream is known; then the row is deleted. Kept by a rebuild';
comment on column subledger.google_notification.token_sha256 is 'As in google_purchase';
comment on column subledger.google_notification.stream_id is 'The stream of the notification, not of the purchase';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.google_void (
  app        text        not null,
  row_sha256 bytea       not null,
  listed_at  timestamptz not null,
  constraint google_void_pkey primary key (app, row_sha256),
  constraint google_void_row_sha256_check check (octet_length(row_sha256) = 32)
);

grant select, insert on subledger.google_void to subledger_poller;
grant select on subledger.google_void to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.google_void is
  'Rows of Google Play''s list of voided purchases that are in the log. Kept by a rebuild';
comment on column subledger.google_void.row_sha256 is 'SHA-256 of the body of its event';
comment on column subledger.google_void.listed_at is 'When it was first in the list';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.google_void_audit (
  app                text        not null,
  audited_at         timestamptz not null,
  seen_until         timestamptz not null,
  listed             bigint      not null,
  appended           bigint      not null,
  requested_at       timestamptz,
  orders_compared_at timestamptz,
  constraint google_void_audit_pkey primary key (app),
  constraint google_void_audit_app_check check (app <> ''),
  constraint google_void_audit_seen_until_check check (seen_until <= audited_at),
  constraint google_void_audit_appended_check check (appended between 0 and listed)
);

grant select, insert, update on subledger.google_void_audit to subledger_poller;
grant select on subledger.google_void_audit to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.google_void_audit is
  'The last comparison of the log with Google Play''s list of voided purchases. Kept by a rebuild';
comment on column subledger.google_void_audit.seen_until is 'Voids that Google saw until then have been listed';
comment on column subledger.google_void_audit.listed is 'Voids in the list of that comparison';
comment on column subledger.google_void_audit.appended is 'Those that were not in the log before';
comment on column subledger.google_void_audit.requested_at is
  'When a push without authentication last named a void: the list is compared again for an hour';
comment on column subledger.google_void_audit.orders_compared_at is
  'When the newest orders of recent purchases were last compared with Google''s, all of them; null if they never were';

-- Work ===============================================================================================================
-- Rows instead of advisory locks, which any role can hold. Only the roles that do the work may write or lock these rows.

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.lease (
  work      text        not null,
  stream_id integer     not null,
  holder    text        not null,
  until     timestamptz not null,
  constraint lease_pkey primary key (work, stream_id),
  constraint lease_holder_check check (holder <> '')
);

grant select, insert, update on subledger.lease to subledger_poller;
grant select on subledger.lease to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.lease is
  'Which process does which work that the servers divide among themselves, such as checks with a store';
comment on column subledger.lease.work is 'checks, audits, refunds, backfills, google, voids or endpoints';
comment on column subledger.lease.stream_id is 'The stream; 0 if one process does the work for all';
comment on column subledger.lease.holder is 'An id that the process made when it started';
comment on column subledger.lease.until is 'The holder renews it in time; afterwards any process may take it';

-- Once ---------------------------------------------------------------------------------------------------------------

-- A process that holds a row does what may be done by one process at a time. Rows are never committed.
create table subledger.turn (
  work        text not null,
  app         text not null,
  environment text not null,
  constraint turn_pkey primary key (work, app, environment)
);

-- Customer links, and requests of operators, are stated by one process at a time, after it has read those before.
grant select, insert, update on subledger.turn to subledger_receiver, subledger_poller;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.turn is
  'Locked while one process does what several must not do at once. Rows are never committed';
comment on column subledger.turn.work is 'links or writes';
comment on column subledger.turn.app is 'The app';
comment on column subledger.turn.environment is 'The environment';

-- Products ===========================================================================================================
-- The owner's settings of products, in addition to Apple's data. `subledger product` and the private listener write
-- them as subledger_products.

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.product (
  app        text not null,
  product_id text not null,
  kind       text,
  duration   text,
  level      integer,
  name       text,
  constraint product_pkey primary key (app, product_id),
  constraint product_app_check check (app <> '' and app !~ '[\u0001-\u001f]'),
  constraint product_product_id_check check (product_id <> '' and product_id !~ '[\u0001-\u001f]'),
  constraint product_kind_check check (kind in ('auto-renewable', 'non-renewing', 'consumable', 'non-consumable')),
  constraint product_name_check check (name <> '' and name !~ '[\u0001-\u001f]'),
  constraint product_level_check check (
    level is null or level between 1 and 1000 and coalesce(kind, 'auto-renewable') = 'auto-renewable'
  ),
  constraint product_duration_check check ((kind is not distinct from 'non-renewing') = (duration is not null)),
  constraint product_duration_format_check check (
    duration ~ '^P([0-9]{1,4}Y)?([0-9]{1,4}M)?([0-9]{1,4}W)?([0-9]{1,5}D)?$' and duration ~ '[1-9]'
  )
);

grant select, insert, update, delete on subledger.product to subledger_products;
grant select on subledger.product to subledger_projector, subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.product is
  'The owner''s settings of products, in addition to Apple''s data, for all environments of an app. Members of '
  'subledger_owner and subledger_products may change them in SQL; the projector then recomputes the app''s '
  'subscriptions';
comment on column subledger.product.app is 'Bundle ID or package name';
comment on column subledger.product.kind is
  'auto-renewable, non-renewing, consumable or non-consumable; null to derive it from the transactions';
comment on column subledger.product.duration is
  'How long one purchase lasts, ISO 8601 without hours (P3M, P1Y, P10D); required for non-renewing products, null for '
  'all others';
comment on column subledger.product.level is
  'The place of a plan among those of the app: a change to a higher one is an upgrade. Null to compare prices per month';
comment on column subledger.product.name is 'What people call it, for the console; null if it has no name but its id';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.product_entitlement (
  app         text not null,
  product_id  text not null,
  entitlement text not null,
  constraint product_entitlement_pkey primary key (app, product_id, entitlement),
  constraint product_entitlement_app_check check (app <> '' and app !~ '[\u0001-\u001f]'),
  constraint product_entitlement_product_id_check check (product_id <> '' and product_id !~ '[\u0001-\u001f]'),
  constraint product_entitlement_entitlement_check check (entitlement <> '' and entitlement !~ '[\u0001-\u001f]')
);

grant select, insert, update, delete on subledger.product_entitlement to subledger_products;
grant select on subledger.product_entitlement to subledger_projector, subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.product_entitlement is
  'Entitlements granted by products, many to many. A product without a row grants the entitlement named after its own '
  'id. Looked up on each read, so a change applies immediately and to the past too';

create or replace view subledger.product_catalog as
select
  app,
  string_agg(
    kind || coalesce(' ' || duration, '') || E'\t' || product_id, E'\n' order by product_id collate "C"
  ) as products
from subledger.product
where kind is not null
group by app;

comment on view subledger.product_catalog is
  'Kinds of an app''s products as one text, one product per line: rows are computed from it. Compare '
  'checkpoint.products';

grant select on subledger.product_catalog
  to subledger_projector, subledger_poller, subledger_reader, subledger_analyst;

-- Money ==============================================================================================================

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.exchange_rate (
  currency text    not null,
  day      date    not null,
  per_euro numeric not null,
  constraint exchange_rate_pkey primary key (currency, day),
  constraint exchange_rate_currency_check check (currency ~ '^[A-Z]{3}$' and currency <> 'EUR'),
  constraint exchange_rate_per_euro_check check (per_euro > 0 and per_euro < 'infinity')
);

grant select, insert, update, delete on subledger.exchange_rate to subledger_products;
grant select on subledger.exchange_rate to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.exchange_rate is
  'Exchange rates that `subledger rate import` read. A currency without a rate in the last 7 days is not converted';
comment on column subledger.exchange_rate.currency is 'ISO 4217; never EUR, whose rate is 1';
comment on column subledger.exchange_rate.day is 'The day of the rate';
comment on column subledger.exchange_rate.per_euro is 'Units of the currency for one euro';

-- Once ---------------------------------------------------------------------------------------------------------------

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

grant select, insert, update, delete on subledger.commission to subledger_products;
grant select on subledger.commission to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.commission is
  'The share that a store keeps of a price without tax, from a day on until the next row of the same store, kind and '
  'country; from `subledger commission import`';
comment on column subledger.commission.store is 'apple or google';
comment on column subledger.commission.kind is 'subscription if the store renews it, else one_time';
comment on column subledger.commission.country is
  'ISO 3166-1 alpha-3; empty for all countries, until the first day of a row of their own';
comment on column subledger.commission.starts_on is 'The first day, UTC';
comment on column subledger.commission.percent is 'Of the price without tax';
comment on column subledger.commission.later_percent is
  'The same for a subscription that was paid for at least 365 days before';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.tax_rate (
  country   text    not null default '',
  starts_on date    not null,
  percent   numeric not null,
  constraint tax_rate_pkey primary key (country, starts_on),
  constraint tax_rate_country_check check (country ~ '^([A-Z]{3})?$'),
  constraint tax_rate_percent_check check (percent >= 0 and percent < 1000)
);

grant select, insert, update, delete on subledger.tax_rate to subledger_products;
grant select on subledger.tax_rate to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.tax_rate is
  'The tax that is part of prices, from a day on until the next row of the same country; from `subledger tax import`';
comment on column subledger.tax_rate.country is
  'ISO 3166-1 alpha-3; empty for all countries, until the first day of a row of their own';
comment on column subledger.tax_rate.starts_on is 'The first day, UTC';
comment on column subledger.tax_rate.percent is 'Of the price without tax: 19 means that 119 was paid for 100';

-- Once ---------------------------------------------------------------------------------------------------------------

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

grant select, insert on subledger.store_report to subledger_products;
grant select on subledger.store_report to subledger_reader, subledger_analyst;

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

-- Find the product ids of Apple's numbers.
create index store_report_row_apple_id_idx on subledger.store_report_row (apple_id, day)
  where apple_id is not null and product_id is not null;

grant select, insert on subledger.store_report_row to subledger_products;
grant select on subledger.store_report_row to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.store_report is
  'Files that the stores offer for download, as `subledger report import` read them. None is changed or removed: '
  'of those '
  'with the same kind and name, the one that was imported last counts';
comment on column subledger.store_report.sha256 is
  'SHA-256 of the file as it was downloaded. Files without rows may have the same';
comment on column subledger.store_report.kind is
  'What its header says it is: apple_sales (Sales Summary), apple_subscription, apple_subscription_event, '
  'apple_subscriber, '
  'apple_financial, apple_finance_detail; google_sales (estimated sales), google_earnings';
comment on column subledger.store_report.name is 'Name of the file, without what compression and browsers add';
comment on column subledger.store_report.first_day is
  'First day of its rows, by the store''s calendar; of a file without rows, that in its name; of apple_finance_detail, '
  'of the period in which it was settled';
comment on column subledger.store_report.last_day is 'Last day of its rows, or of that period';

comment on table subledger.store_report_row is 'Rows of these files';
comment on column subledger.store_report_row.line is 'Line of the file';
comment on column subledger.store_report_row.day is
  'By the store''s calendar; of apple_financial, the last day of its period; of apple_finance_detail, that of the '
  'transaction';
comment on column subledger.store_report_row.event is
  'sale and refund for what was paid and paid back, partial_refund for a refund without units, other for rows of '
  'something '
  'else, such as downloads; of an event or earnings report what the row says';
comment on column subledger.store_report_row.app is 'Package name; null for Apple';
comment on column subledger.store_report_row.product_id is
  'The SKU, which is the product id of an in-app purchase; null in reports that name products by apple_id';
comment on column subledger.store_report_row.apple_id is 'Apple''s number of the product; null for Google Play';
comment on column subledger.store_report_row.country is 'ISO 3166-1 alpha-3';
comment on column subledger.store_report_row.currency is 'Of amount: what the customer pays with';
comment on column subledger.store_report_row.units is 'Negative for refunds';
comment on column subledger.store_report_row.amount is
  'What customers paid for all units, taxes included where the store includes them, in the currency unit; negative '
  'for refunds';
comment on column subledger.store_report_row.proceeds is 'What the developer receives, in proceeds_currency';
comment on column subledger.store_report_row.order_id is 'Order of Google Play; null for Apple, which names none';
comment on column subledger.store_report_row.fields is
  'All columns by their names in the file, without city, state and postal code of the buyer';

-- Customers ==========================================================================================================
-- Whose purchase it is: projections of the log, computed by the app's policy.

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.app_ownership (
  app                          text    not null,
  policy                       text    not null,
  store_accounts_per_token_max integer not null default 10,
  constraint app_ownership_pkey primary key (app),
  constraint app_ownership_policy_check check (policy in ('latest-buyer', 'first-buyer', 'shared')),
  constraint app_ownership_store_accounts_check check (store_accounts_per_token_max between 1 and 1000)
);

grant select, insert, update, delete on subledger.app_ownership to subledger_projector;
grant select on subledger.app_ownership to subledger_receiver, subledger_poller, subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.app_ownership is
  'Who owns a subscription that several app users bought or linked: the rules of each configured app. The projector '
  'writes them when it starts. Compare checkpoint.ownership';
comment on column subledger.app_ownership.policy is
  'latest-buyer: the app user of each purchase, from its purchase date on; first-buyer: the app user of the first '
  'purchase; shared: all of them';
comment on column subledger.app_ownership.store_accounts_per_token_max is
  'An account token with which more people buy identifies no app user, see shared_account_token';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.app_join (
  app        text not null,
  joined_app text not null,
  constraint app_join_pkey primary key (app),
  constraint app_join_joined_app_check check (joined_app <> app)
);

grant select, insert, update, delete on subledger.app_join to subledger_projector;
grant select on subledger.app_join to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.app_join is
  'Pairs of an app of the App Store and one of Google Play that are one product: an app user''s purchases in both are one '
  'customer''s when they are read. Each pair has two rows, one for each direction. The projector writes them when it '
  'starts. Streams stay apart: no projection depends on this table';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.customer_edge (
  stream_id               integer not null,
  original_transaction_id text    not null,
  kind                    text    not null,
  id                      text    not null,
  position                bigint  not null,
  store_account           text,
  constraint customer_edge_pkey primary key (stream_id, original_transaction_id, kind, id),
  constraint customer_edge_kind_check check (kind in ('account', 'app_transaction', 'subscription')),
  constraint customer_edge_store_account_check check ((kind = 'account') = (store_account is not null))
);

-- Finds the subscriptions of an id, and counts the store accounts of a token by jumping from one to the next.
create index customer_edge_id_idx
  on subledger.customer_edge (stream_id, kind, id, store_account, original_transaction_id);

grant select, insert, update, delete on subledger.customer_edge to subledger_projector;
grant select on subledger.customer_edge to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.customer_edge is
  'What says whose a subscription is, according to Apple: the account token of a purchase (not the buyer''s if '
  'family-shared, and not the nil UUID), its appTransactionId, or another subscription in the same notification';
comment on column subledger.customer_edge.kind is
  'account: an appAccountToken, in lower case; app_transaction: an appTransactionId; subscription: the smallest '
  'original_transaction_id of the notification, or the one before a migration. The last two make a store account';
comment on column subledger.customer_edge.position is 'First event that reported it';
comment on column subledger.customer_edge.store_account is
  'For account: the smallest appTransactionId of the subscription; empty if none was reported. The store accounts of a '
  'token are counted by it. On Google Play: outside, if the subscription was bought outside the app and only continues '
  'another one of the account';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.shared_account_token (
  stream_id     integer not null,
  account_token text    not null,
  constraint shared_account_token_pkey primary key (stream_id, account_token)
);

grant select, insert, update, delete on subledger.shared_account_token to subledger_projector;
grant select on subledger.shared_account_token
  to subledger_receiver, subledger_poller, subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.shared_account_token is
  'Account tokens with which more people buy than the app''s rules allow, such as one constant token of an app for '
  'everybody. People are store accounts, and where none is stated, subscriptions to one product that are active at one '
  'instant. The tokens lead to no customer, and neither purchases with them nor links on them say whose a '
  'subscription is';
comment on column subledger.shared_account_token.account_token is 'As customer_edge.id: in lower case';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.customer_link (
  stream_id           integer not null,
  backend_customer_id text    not null,
  position            bigint  not null,
  kind                text    not null,
  id                  text    not null,
  replaced_position   bigint,
  basis               text    not null,
  constraint customer_link_pkey primary key (stream_id, backend_customer_id, position, kind, id),
  constraint customer_link_kind_check check (kind in ('account', 'app_transaction', 'subscription')),
  constraint customer_link_basis_check check (basis in ('transfer', 'statement', 'purchase', 'id', 'seat')),
  constraint customer_link_replaced_position_check check (replaced_position > position)
);

create index customer_link_id_idx on subledger.customer_link (stream_id, kind, id);

-- The receiver and the poller read who owns what before they link a purchase to a customer.
grant select, insert, update, delete on subledger.customer_link to subledger_projector;
grant select on subledger.customer_link to subledger_receiver, subledger_poller, subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.customer_link is
  'Customer links set by a backend, or by handing purchases in. A link event has the complete links of a customer, or adds '
  'to them; the links of earlier events are kept as a record of what was believed then. Which link counts is shown by '
  'ownership and customer_identity: the latest one on an id, if replaced_position is null and its basis takes the id from '
  'whoever owned it; all of them if the app''s policy is shared';
comment on column subledger.customer_link.backend_customer_id is 'The backend''s own id of the customer';
comment on column subledger.customer_link.position is 'Event that set the link';
comment on column subledger.customer_link.kind is
  'As in customer_edge, but with original_transaction_ids of any subscription';
comment on column subledger.customer_link.replaced_position is
  'Next event with the complete links of this customer; null while the link stands';
comment on column subledger.customer_link.basis is
  'transfer: the backend demanded it, and events of releases before there was a basis; statement: the word of the backend; '
  'purchase: a purchase that was handed in; id: an id alone, which takes nothing from another customer; seat: a seat of the '
  'subscription, which leads the customer to it and says nothing about whose it is';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.ownership (
  stream_id               integer     not null,
  original_transaction_id text        not null,
  starts_at               timestamptz not null,
  ends_at                 timestamptz not null,
  customer_kind           text        not null,
  customer_id             text        not null,
  reason                  text        not null,
  position                bigint,
  constraint ownership_pkey
    primary key (stream_id, original_transaction_id, starts_at, customer_kind, customer_id),
  constraint ownership_ends_at_check check (ends_at > starts_at),
  constraint ownership_customer_kind_check check (customer_kind in ('link', 'account', 'subscription')),
  constraint ownership_reason_check check (reason in ('link', 'account', 'store_account', 'unclaimed', 'seat')),
  constraint ownership_position_check check ((reason = 'unclaimed') = (position is null))
);

create index ownership_customer_idx on subledger.ownership (stream_id, customer_kind, customer_id);

create index ownership_starts_at_idx on subledger.ownership (stream_id, starts_at) where starts_at > '-infinity';

create index ownership_seat_ends_at_idx on subledger.ownership (stream_id, ends_at) where reason = 'seat';

grant select, insert, update, delete on subledger.ownership to subledger_projector;
grant select on subledger.ownership to subledger_receiver, subledger_poller, subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.ownership is
  'Who owns a subscription, and when. The intervals of a subscription cover all time. They do not overlap, except under '
  'the policy shared, and except those of seats, whose customers have access beside the owner. A customer has access where a '
  'period of access and an interval of ownership overlap';
comment on column subledger.ownership.starts_at is 'Included; -infinity for the first owner, who owns the past too';
comment on column subledger.ownership.ends_at is 'Excluded; infinity for the current owner';
comment on column subledger.ownership.customer_kind is
  'link: a customer of the backend; account: an app user that no backend has linked; subscription: a store account '
  'whose app user is not known';
comment on column subledger.ownership.customer_id is
  'The backend''s own id, the appAccountToken, or the smallest original_transaction_id of the store account';
comment on column subledger.ownership.reason is
  'link: a link on the subscription; account: the account token of a purchase; store_account: the app user of the store '
  'account; unclaimed: no app user is known; seat: a seat that the backend gave to the customer, who does not own the '
  'subscription';
comment on column subledger.ownership.position is 'First event that reported the reason; null if unclaimed';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.customer_identity (
  stream_id     integer     not null,
  kind          text        not null,
  id            text        not null,
  starts_at     timestamptz not null,
  ends_at       timestamptz not null,
  customer_kind text        not null,
  customer_id   text        not null,
  constraint customer_identity_pkey primary key (stream_id, kind, id, starts_at),
  constraint customer_identity_kind_check check (kind in ('link', 'account', 'app_transaction', 'subscription')),
  constraint customer_identity_ends_at_check check (ends_at > starts_at),
  constraint customer_identity_customer_kind_check check (customer_kind in ('link', 'account', 'subscription'))
);

create index customer_identity_customer_idx on subledger.customer_identity (stream_id, customer_kind, customer_id);

create index customer_identity_id_idx on subledger.customer_identity (id);

grant select, insert, update, delete on subledger.customer_identity to subledger_projector;
grant select on subledger.customer_identity
  to subledger_receiver, subledger_poller, subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.customer_identity is
  'Which customer an id leads to, and when. The intervals of an id cover all time and do not overlap: under the policy '
  'shared, a subscription leads to one of its owners. Streams never mix';
comment on column subledger.customer_identity.kind is
  'link: the backend''s own id; account: an appAccountToken, in lower case; app_transaction: an appTransactionId; '
  'subscription: an original_transaction_id';
comment on column subledger.customer_identity.starts_at is 'Included; may be -infinity';
comment on column subledger.customer_identity.ends_at is 'Excluded; may be infinity';
comment on column subledger.customer_identity.customer_kind is 'See ownership.customer_kind';
comment on column subledger.customer_identity.customer_id is 'See ownership.customer_id';

create or replace function subledger.joined_customer(
  of_stream_id integer, of_kind text, of_id text, instant timestamptz
)
returns table (
  stream_id integer, app text, customer_kind text, customer_id text, joined_kind text, joined_id text
)
language sql stable as $$
  select part.stream_id, part.app, part.customer_kind, part.customer_id, joined.kind, joined.id
  from subledger.stream as own
  left join subledger.app_join on app_join.app = own.app
  left join subledger.stream as other
    on other.app = app_join.joined_app
    and other.environment = own.environment
  left join subledger.customer_identity as linked
    on linked.stream_id = other.stream_id
    and linked.kind = 'account'
    and linked.id = joined_customer.of_id
    and linked.customer_kind = 'link'
    and linked.starts_at <= joined_customer.instant
    and linked.ends_at > joined_customer.instant
    and joined_customer.of_kind = 'account'
  cross join lateral (
    select
      coalesce(linked.customer_kind, joined_customer.of_kind) as kind,
      coalesce(linked.customer_id, joined_customer.of_id) as id
  ) as joined
  cross join lateral (
    select own.stream_id, own.app, joined_customer.of_kind as customer_kind, joined_customer.of_id as customer_id
    union
    -- The customer of the same name in each of the two streams.
    select here.stream_id, here.app, identity.customer_kind, identity.customer_id
    from (
      select own.stream_id, own.app
      union all
      select other.stream_id, other.app
    ) as here
    join subledger.customer_identity as identity
      on identity.stream_id = here.stream_id
      and identity.kind = joined.kind
      and identity.id = joined.id
      and identity.customer_kind = joined.kind
      and identity.starts_at <= joined_customer.instant
      and identity.ends_at > joined_customer.instant
    where joined.kind in ('link', 'account')
    union
    -- The app users whose tokens the links of the other app give to the backend's customer.
    select here.stream_id, here.app, identity.customer_kind, identity.customer_id
    from (
      select own.stream_id, own.app, other.stream_id as linking_stream_id
      union all
      select other.stream_id, other.app, own.stream_id
    ) as here
    join subledger.customer_identity as token
      on token.stream_id = here.linking_stream_id
      and token.customer_kind = 'link'
      and token.customer_id = joined.id
      and token.kind = 'account'
      and token.starts_at <= joined_customer.instant
      and token.ends_at > joined_customer.instant
    join subledger.customer_identity as identity
      on identity.stream_id = here.stream_id
      and identity.kind = 'account'
      and identity.id = token.id
      and identity.customer_kind = 'account'
      and identity.starts_at <= joined_customer.instant
      and identity.ends_at > joined_customer.instant
    where joined.kind = 'link'
  ) as part
  where own.stream_id = joined_customer.of_stream_id
$$;

comment on function subledger.joined_customer is
  'The parts of a customer in the streams of two joined apps at an instant, see app_join; the customer itself if its app '
  'is not joined. Parts are one customer if they are the same backend''s customer or the same account token, or if the '
  'links of one app give the token to the backend''s customer. joined_kind and joined_id name the whole: the backend''s '
  'customer if there is one. Apps whose links give a token to different customers of the backend are not joined by it';

create or replace function subledger.customer_entitlement(
  stream_id integer, app text, customer_kind text, customer_id text, instant timestamptz
)
returns table (
  entitlement text, until timestamptz, positions bigint[], product_ids text[], original_transaction_ids text[]
)
language sql stable as $$
  select distinct on (entitlement)
    entitlement, ends_at, positions, product_ids, original_transaction_ids
  from (
    select
      entitlement,
      min(starts_at) as starts_at,
      max(ends_at) as ends_at,
      coalesce(array_agg(distinct position order by position) filter (where is_own), '{}') as positions,
      array_agg(distinct product_id) as product_ids,
      array_agg(distinct original_transaction_id) as original_transaction_ids
    from (
      select
        entitlement, starts_at, ends_at, position, product_id, original_transaction_id, is_own,
        count(*) filter (where covered_until is null or covered_until < starts_at)
          over (partition by entitlement order by starts_at, ends_at) as run
      from (
        select
          coalesce(product_entitlement.entitlement, owned.product_id) as entitlement,
          owned.starts_at, owned.ends_at, owned.position, owned.product_id, owned.original_transaction_id, owned.is_own,
          max(owned.ends_at) over (
            partition by coalesce(product_entitlement.entitlement, owned.product_id)
            order by owned.starts_at, owned.ends_at
            rows between unbounded preceding and 1 preceding
          ) as covered_until
        from (
          select
            greatest(access_period.starts_at, ownership.starts_at) as starts_at,
            least(access_period.ends_at, ownership.ends_at) as ends_at,
            access_period.position, access_period.product_id, access_period.original_transaction_id, part.app,
            part.stream_id = customer_entitlement.stream_id as is_own
          from (
            select
              customer_entitlement.stream_id, customer_entitlement.app, customer_entitlement.customer_kind,
              customer_entitlement.customer_id
            where not exists (select from subledger.app_join where app_join.app = customer_entitlement.app)
            union all
            select joined.stream_id, joined.app, joined.customer_kind, joined.customer_id
            from subledger.joined_customer(
              customer_entitlement.stream_id, customer_entitlement.customer_kind, customer_entitlement.customer_id,
              customer_entitlement.instant
            ) as joined
            where exists (select from subledger.app_join where app_join.app = customer_entitlement.app)
          ) as part
          join subledger.ownership
            on ownership.stream_id = part.stream_id
            and ownership.customer_kind = part.customer_kind
            and ownership.customer_id = part.customer_id
          join subledger.access_period
            on access_period.stream_id = ownership.stream_id
            and access_period.original_transaction_id = ownership.original_transaction_id
            -- No index fits ranges: without statistics, the planner would take one by the ends of periods.
            and tstzrange(access_period.starts_at, access_period.ends_at)
              && tstzrange(ownership.starts_at, ownership.ends_at)
          where access_period.product_id is not null
        ) as owned
        left join subledger.product_entitlement
          on product_entitlement.app = owned.app
          and product_entitlement.product_id = owned.product_id
      ) as period
    ) as numbered
    group by entitlement, run
  ) as run
  where starts_at <= customer_entitlement.instant
  order by entitlement, starts_at desc
$$;

comment on function subledger.customer_entitlement is
  'What a customer is or was entitled to at an instant: for each entitlement, the last unbroken run of access that '
  'had begun by then, over all subscriptions while the customer owns them; periods that overlap or touch form one run. '
  'It is in force if until is after the instant. If the app is joined with another, see app_join, the subscriptions of '
  'both count, and positions are those in the stream that was asked for';

create or replace function subledger.entitlement_at(instant timestamptz)
returns table (
  app text, environment text, customer text, known_as text, owner_kind text, owner_id text, entitlement text,
  active boolean, until timestamptz, positions bigint[]
)
language sql stable as $$
  select
    stream.app,
    stream.environment,
    identity.id,
    identity.kind,
    coalesce(joined.kind, identity.customer_kind),
    coalesce(joined.id, identity.customer_id),
    given.entitlement,
    given.until > entitlement_at.instant,
    given.until,
    given.positions
  from subledger.customer_identity as identity
  join subledger.stream using (stream_id)
  cross join lateral subledger.customer_entitlement(
    identity.stream_id, stream.app, identity.customer_kind, identity.customer_id, entitlement_at.instant
  ) as given
  left join lateral (
    select whole.joined_kind as kind, whole.joined_id as id
    from subledger.joined_customer(
      identity.stream_id, identity.customer_kind, identity.customer_id, entitlement_at.instant
    ) as whole
    where exists (select from subledger.app_join where app_join.app = stream.app)
    limit 1
  ) as joined on true
  where identity.starts_at <= entitlement_at.instant
    and identity.ends_at > entitlement_at.instant
$$;

comment on function subledger.entitlement_at is 'View entitlement as of an instant, according to what is known today';

create or replace view subledger.entitlement as
select app, environment, customer, known_as, owner_kind, owner_id, entitlement, active, until, positions
from subledger.entitlement_at(now());

comment on view subledger.entitlement is
  'What each customer is entitled to now, and was before: one row for each id of the customer (known_as, see '
  'customer_identity.kind) and each entitlement. Filter by customer, known_as and environment: the same text can be '
  'ids of different customers, each of another kind';
comment on column subledger.entitlement.app is 'Bundle ID or package name';
comment on column subledger.entitlement.environment is 'production, sandbox, xcode, local_testing or unknown';
comment on column subledger.entitlement.customer is 'An id that leads to the customer now';
comment on column subledger.entitlement.known_as is 'Kind of that id, see customer_identity.kind';
comment on column subledger.entitlement.owner_kind is 'See ownership.customer_kind';
comment on column subledger.entitlement.owner_id is
  'Equal for all ids of a customer, with owner_kind, also in a joined app, see app_join: count their distinct pairs';
comment on column subledger.entitlement.entitlement is
  'Entitlement to which the product is mapped; the product''s own id if there is no mapping';
comment on column subledger.entitlement.active is 'Whether until is in the future';
comment on column subledger.entitlement.until is
  'End of the current unbroken access, over all purchases that grant the entitlement; infinity if owned permanently; '
  'if not active, the end of the last access';
comment on column subledger.entitlement.positions is
  'Positions of the first events that reported that access, ascending; only those of this app if it is joined with '
  'another';

grant select on subledger.entitlement to subledger_reader, subledger_analyst;

create or replace view subledger.subscription_defect as
select
  stream.app, stream.environment, customer_edge.original_transaction_id, 'shared_account_token' as defect,
  customer_edge.id as account_token, customer_edge.position, null as product_id
from subledger.shared_account_token
join subledger.stream using (stream_id)
join subledger.customer_edge
  on customer_edge.stream_id = shared_account_token.stream_id
  and customer_edge.kind = 'account'
  and customer_edge.id = shared_account_token.account_token
union all
select
  stream.app, stream.environment, transaction.original_transaction_id, transaction.gap, null,
  transaction.positions[1], transaction.product_id
from subledger.transaction
join subledger.stream using (stream_id)
where transaction.gap is not null;

comment on view subledger.subscription_defect is
  'Subscriptions with data that cannot be used because of other subscriptions, or because a product is not configured. A '
  'defect of one field of one event is in event.defects';
comment on column subledger.subscription_defect.app is 'Bundle ID or package name';
comment on column subledger.subscription_defect.environment is 'production, sandbox, xcode, local_testing or unknown';
comment on column subledger.subscription_defect.original_transaction_id is 'The subscription';
comment on column subledger.subscription_defect.defect is
  'shared_account_token: too many store accounts have purchases with the account token, so it identifies no customer; '
  'else what the configuration of the product does not say, see transaction.gap';
comment on column subledger.subscription_defect.account_token is 'The token, in lower case; null for other defects';
comment on column subledger.subscription_defect.position is 'First event that reported the token, or the purchase';
comment on column subledger.subscription_defect.product_id is 'Product to configure; null for a token';

grant select on subledger.subscription_defect to subledger_reader, subledger_analyst;

-- Changes ============================================================================================================
-- The changes published to readers, in order. The projector writes them in the transaction that causes the change, when
-- a period begins or ends, and after a rebuild. They record what was published, and cannot be recomputed from the log.

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.change_head (
  stream_id       integer     not null,
  number          bigint      not null,
  published_until timestamptz not null,
  next_at         timestamptz,
  constraint change_head_pkey primary key (stream_id),
  constraint change_head_number_check check (number >= 0)
)
with (fillfactor = 10);

grant select, insert, update on subledger.change_head to subledger_projector;
grant select on subledger.change_head to subledger_products, subledger_poller, subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.change_head is 'Last published change of each stream';
comment on column subledger.change_head.number is 'Number of the last change; changes are numbered from 1 without gaps';
comment on column subledger.change_head.published_until is
  'Every start and end of an access period or of ownership up to and including this instant has been published';
comment on column subledger.change_head.next_at is 'When the next start or end is due; null if there is none';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.change (
  stream_id               integer     not null,
  number                  bigint      not null,
  published_at            timestamptz not null,
  kind                    text        not null,
  original_transaction_id text        not null,
  at                      timestamptz not null,
  cause                   text        not null,
  position                bigint,
  product_id              text,
  until                   timestamptz,
  auto_renew              boolean,
  next_product_id         text,
  customer_kind           text,
  customer_id             text,
  seats_before            integer,
  seats                   integer,
  reason                  text,
  constraint change_pkey primary key (stream_id, number),
  constraint change_kind_check check (
    kind in (
      'opened', 'extended', 'shortened', 'closed', 'product_changed', 'product_added', 'product_removed',
      'renewal_switched', 'next_product', 'seats_changed', 'customer_changed', 'consent_rescinded',
      'unanswerable_request', 'unknown_order_voided', 'customer_erased'
    )
  ),
  constraint change_cause_check check (cause in ('event', 'clock', 'products', 'ownership', 'rebuild')),
  constraint change_seats_check check (
    (kind = 'seats_changed') = (seats is not null) and (seats is null) = (seats_before is null)
  ),
  constraint change_position_check check ((cause = 'event') = (position is not null)),
  constraint change_customer_check check (
    (
      kind in (
        'customer_changed', 'consent_rescinded', 'unanswerable_request', 'unknown_order_voided', 'customer_erased'
      )
    ) = (customer_kind is not null)
    and (customer_kind is null) = (customer_id is null)
  )
);

-- What an event changed.
create index change_position_idx on subledger.change (stream_id, position) where position is not null;

-- Where an endpoint begins is a place in the feed, which those who configure it look up.
grant select, insert on subledger.change to subledger_projector;
grant select on subledger.change to subledger_poller, subledger_reader, subledger_analyst;
grant select (stream_id, number, original_transaction_id) on subledger.change to subledger_products;

-- Logical replication of what is only ever inserted. Who may create objects in this database has it; for others, the owner
-- of the database can create it.
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

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.change is
  'Changes to the access or the intent of a subscription, in the order of publication. After a transaction that adds '
  'changes, channel subledger_change is notified with the stream_id, if possible: readers also poll';
comment on column subledger.change.number is
  'From 1 without gaps, in commit order: a reader that has read up to a number has missed nothing before it';
comment on column subledger.change.published_at is 'When it was published, by the projector''s clock';
comment on column subledger.change.kind is
  'opened, extended, shortened, closed, product_changed, product_added (beside others), product_removed (others '
  'stay): access; renewal_switched, next_product: intent; seats_changed: the store reports another number of seats; '
  'customer_changed: the subscription has another customer, now or in the past; published for each customer that lost '
  'or gained it or some of its past access; consent_rescinded: a parent or guardian withdrew the consent for the app; '
  'unanswerable_request: Apple asked about a refund and named no purchase; unknown_order_voided: Google took back an '
  'order that no answer has shown; customer_erased: an operator erased the person''s data';
comment on column subledger.change.at is
  'When it took effect: the start or end of a period or of ownership if cause is clock, published_at if not';
comment on column subledger.change.cause is
  'event: see position; clock: a period began or ended, or the time of another customer began; products: product '
  'settings changed; ownership: the app''s ownership rules changed; rebuild: recomputing the log gave a different '
  'result';
comment on column subledger.change.position is
  'The event that reported the access, if it was just applied; if not, the last applied event about the subscription';
comment on column subledger.change.product_id is
  'Product that gives access; for closed, the one that gave it; null if customer_changed is about the past only';
comment on column subledger.change.until is
  'End of the unbroken access, infinity if owned permanently; null if there is none';
comment on column subledger.change.auto_renew is 'For renewal_switched: whether auto-renewal is on';
comment on column subledger.change.customer_kind is
  'For customer_changed: the customer that lost or gained the subscription; until is null unless it owns the '
  'subscription now and has access. For consent_rescinded, unanswerable_request, unknown_order_voided and customer_erased: '
  'the customer that it is about. See ownership.customer_kind';
comment on column subledger.change.customer_id is 'See ownership.customer_id';
comment on column subledger.change.seats_before is 'For seats_changed: the number of seats before';
comment on column subledger.change.seats is 'For seats_changed: the number of seats from now on';
comment on column subledger.change.reason is
  'Why there is access from the change on, or none, as explanations say it when it is published; for renewal_switched, what '
  'follows for the end; for customer_changed, why the customer owns it. Null for other kinds, and of a former owner';
comment on column subledger.change.next_product_id is
  'For next_product: product of the next renewal; null if it is the current one';

create or replace view subledger.change_feed as
select
  stream.app, stream.environment, change.number, change.published_at, change.kind,
  change.original_transaction_id, change.at, change.cause, change.position, change.product_id, change.until,
  change.auto_renew, change.next_product_id, change.customer_kind, change.customer_id, change.seats_before,
  change.seats, change.reason
from subledger.change
join subledger.stream using (stream_id);

comment on view subledger.change_feed is 'Changes with their app and environment; columns as in change';

grant select on subledger.change_feed to subledger_reader, subledger_analyst;

-- Receipts ===========================================================================================================
-- Receipts that backends handed in, and what Apple answered. They are records, which cannot be recomputed from the log.

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.receipt (
  receipt_id     uuid        not null,
  app            text        not null,
  received_at    timestamptz not null,
  receipt_sha256 bytea       not null,
  receipt        bytea       not null,
  customer_id    text,
  state          text        not null,
  attempts       integer     not null,
  next_at        timestamptz,
  asking_until   timestamptz,
  asked_at       timestamptz,
  problem        text,
  status         integer,
  environment    text,
  registered     text,
  linked         boolean,
  subscriptions  text[]      not null default '{}',
  stream_id      integer,
  position       bigint,
  account_id     text,
  is_signed      boolean     not null default false,
  constraint receipt_pkey primary key (receipt_id),
  constraint receipt_app_receipt_sha256_customer_id_key unique nulls not distinct (app, receipt_sha256, customer_id),
  constraint receipt_receipt_sha256_check check (
    receipt_sha256 = sha256(receipt) or state = 'refused' and receipt = ''
  ),
  constraint receipt_customer_id_check check (octet_length(customer_id) between 1 and 256),
  constraint receipt_state_check check (state in ('pending', 'answered', 'refused')),
  constraint receipt_attempts_check check (attempts > 0),
  constraint receipt_next_at_check check ((state = 'pending') = (next_at is not null)),
  constraint receipt_asking_until_check check (state = 'pending' or asking_until is null),
  constraint receipt_asked_at_check check (state = 'pending' or asked_at is not null),
  constraint receipt_problem_check check (state = 'pending' or (state = 'refused') = (problem is not null)),
  constraint receipt_registered_check check (registered in ('new', 'known', 'other_customer')),
  constraint receipt_position_check check ((stream_id is null) = (position is null)),
  constraint receipt_account_id_check
    check (account_id is null or customer_id is not null and octet_length(account_id) between 1 and 256)
);

-- Finds the receipts to ask about, those that anyone can hand in apart from the others.
create index receipt_is_signed_next_at_idx on subledger.receipt (is_signed, next_at) where state = 'pending';

-- Finds the receipts to forget.
create index receipt_refused_idx on subledger.receipt (asked_at) where state = 'refused' and receipt = '';

-- Finds the receipts that name a subscription.
create index receipt_subscriptions_idx on subledger.receipt using gin (subscriptions);

-- Which receipt a row is, and who handed it in, never changes: a constraint ties the bytes to their digest, or lets
-- them go once the receipt is refused. Only those who ask with a receipt may read its bytes.
grant select, insert on subledger.receipt to subledger_receiver;
grant select, delete on subledger.receipt to subledger_poller;
grant update (
  receipt, state, attempts, next_at, asking_until, asked_at, problem, status, environment, registered, linked,
  subscriptions, stream_id, position, account_id, is_signed
) on subledger.receipt to subledger_receiver;
grant select (
  receipt_id, app, received_at, receipt_sha256, customer_id, state, attempts, next_at, asking_until, asked_at, problem,
  status, environment, registered, linked, subscriptions, stream_id, position, account_id, is_signed
) on subledger.receipt to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.receipt is
  'Receipts that backends handed in, each once for each app and customer, with what Apple answered last';
comment on column subledger.receipt.receipt_id is 'Random';
comment on column subledger.receipt.app is 'Bundle ID for which it was handed in; what Apple says may differ';
comment on column subledger.receipt.received_at is 'When it was handed in first, by our clock';
comment on column subledger.receipt.receipt_sha256 is 'SHA-256 of the bytes';
comment on column subledger.receipt.receipt is
  'The bytes; empty once it is refused, unless it was answered before. Reading roles cannot read them';
comment on column subledger.receipt.customer_id is 'The backend''s customer who handed it in; null if it named none';
comment on column subledger.receipt.account_id is
  'The account id that the backend gave the app for that customer, as it named it last; null if it named none';
comment on column subledger.receipt.state is
  'pending until Apple has answered; answered; or refused, by Apple or by a check of its answer';
comment on column subledger.receipt.attempts is 'How often Apple was asked since the receipt became pending';
comment on column subledger.receipt.next_at is 'When to ask again; null unless pending';
comment on column subledger.receipt.asking_until is
  'The server that asks has this long; another one may ask from then on. Null while no server asks';
comment on column subledger.receipt.asked_at is 'When Apple was asked last, by our clock; null if never';
comment on column subledger.receipt.problem is
  'Why it was refused, or why there was no answer to the last question; null if there is none';
comment on column subledger.receipt.status is 'Status number of Apple''s last answer; null if there was none';
comment on column subledger.receipt.environment is 'Environment of the purchases; null if not answered';
comment on column subledger.receipt.registered is
  'Of the subscriptions before this answer: new, none was known; known; or other_customer, another customer owned one';
comment on column subledger.receipt.linked is
  'Whether the customer was linked to the subscriptions; null without a customer';
comment on column subledger.receipt.subscriptions is 'originalTransactionIds in the answer';
comment on column subledger.receipt.stream_id is
  'Stream of the event that the answer became; null if it stated nothing new';
comment on column subledger.receipt.position is 'Position of that event';
comment on column subledger.receipt.is_signed is
  'Whether Apple signed it for the app, by its own signature. Those that it did not sign have fewer places in the queue';

-- Quarantine =========================================================================================================
-- Signed notifications of apps that are not configured, until they are. The bytes and days are bounded by settings of
-- the receivers; the oldest rows are deleted first. Every change of the rows begins with a lock of quarantine_size.

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.quarantine (
  number      bigint      not null generated always as identity,
  received_at timestamptz not null,
  app         text        not null,
  environment text        not null,
  body_sha256 bytea       not null,
  body        bytea compression lz4 not null,
  body_bytes  integer     not null generated always as (octet_length(body)) stored,
  constraint quarantine_pkey primary key (number),
  constraint quarantine_body_sha256_key unique (body_sha256),
  constraint quarantine_app_check check (app <> ''),
  constraint quarantine_environment_check check (environment in ('production', 'sandbox', 'unknown')),
  constraint quarantine_body_sha256_check check (body_sha256 = sha256(body))
);

-- Finds the notifications of an app in their order.
create index quarantine_app_idx on subledger.quarantine (app, number);

-- Which notification a row is never changes. Readers may not read bodies.
grant select, insert, delete on subledger.quarantine to subledger_receiver;
grant select (
  number, received_at, app, environment, body_sha256, body_bytes
) on subledger.quarantine to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.quarantine is
  'Signed notifications of apps that are not configured. A receiver verifies a notification before it stores it here, '
  'and again before it takes it into the log';
comment on column subledger.quarantine.number is 'The order in which they arrived; may have gaps';
comment on column subledger.quarantine.received_at is
  'When the notification arrived first, by our clock; also that of its event later';
comment on column subledger.quarantine.app is 'Bundle ID';
comment on column subledger.quarantine.environment is 'production, sandbox, or unknown if the body names none of them';
comment on column subledger.quarantine.body_sha256 is 'SHA-256 of the body';
comment on column subledger.quarantine.body is
  'The body as in event: the signed text as it arrived. Reading roles cannot read it';
comment on column subledger.quarantine.body_bytes is 'Length of the body';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.quarantine_size (
  singleton boolean not null default true,
  bytes     bigint  not null,
  constraint quarantine_size_pkey primary key (singleton),
  constraint quarantine_size_singleton_check check (singleton),
  constraint quarantine_size_bytes_check check (bytes >= 0)
)
-- Updated with every row of quarantine: free space keeps the new row version on the same page.
with (fillfactor = 10);

insert into subledger.quarantine_size (bytes) values (0);

grant select, update on subledger.quarantine_size to subledger_receiver;
grant select on subledger.quarantine_size to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.quarantine_size is 'One row: the size of quarantine';
comment on column subledger.quarantine_size.singleton is 'Always true';
comment on column subledger.quarantine_size.bytes is 'Sum of quarantine.body_bytes; recomputed hourly';

-- Refund requests ====================================================================================================
-- The answer to a store about a purchase for which its customer requested a refund. Never anything without the customer's
-- consent. The requests themselves are events; see view refund_request.

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.consumption_policy (
  app                     text        not null,
  product_id              text        not null,
  stated_at               timestamptz not null,
  sample_content_provided boolean     not null,
  delivery_status         text        not null,
  consumption_percentage  integer,
  refund_preference       text,
  constraint consumption_policy_pkey primary key (app, product_id),
  constraint consumption_policy_app_check check (app <> ''),
  constraint consumption_policy_product_id_check check (product_id <> ''),
  constraint consumption_policy_delivery_status_check check (
    delivery_status in (
      'DELIVERED', 'UNDELIVERED_QUALITY_ISSUE', 'UNDELIVERED_WRONG_ITEM', 'UNDELIVERED_SERVER_OUTAGE',
      'UNDELIVERED_OTHER'
    )
  ),
  constraint consumption_policy_consumption_percentage_check check (consumption_percentage between 0 and 100000),
  constraint consumption_policy_undelivered_check check (consumption_percentage = 0 or delivery_status = 'DELIVERED'),
  constraint consumption_policy_refund_preference_check
    check (refund_preference in ('DECLINE', 'GRANT_FULL', 'GRANT_PRORATED'))
);

grant select, insert, update, delete on subledger.consumption_policy to subledger_products;
grant select on subledger.consumption_policy to subledger_poller, subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.consumption_policy is
  'The answer to Apple about purchases of a product for which a refund is requested. A policy states that '
  'all customers of the product have consented';
comment on column subledger.consumption_policy.app is 'Bundle ID';
comment on column subledger.consumption_policy.product_id is 'The product';
comment on column subledger.consumption_policy.stated_at is 'When it was stated last, by our clock';
comment on column subledger.consumption_policy.sample_content_provided is
  'Whether customers get a sample, a trial or information before they buy';
comment on column subledger.consumption_policy.delivery_status is 'As Apple spells it';
comment on column subledger.consumption_policy.consumption_percentage is
  'How much was consumed, in thousandths of a percent; null if not stated. Not for auto-renewable subscriptions';
comment on column subledger.consumption_policy.refund_preference is
  'DECLINE, GRANT_FULL or GRANT_PRORATED; null for no preference';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.consumption_answer (
  stream_id               integer     not null,
  position                bigint      not null,
  transaction_id          text        not null,
  deadline_at             timestamptz not null,
  stated_by               text        not null,
  stated_at               timestamptz not null,
  sample_content_provided boolean,
  delivery_status         text,
  consumption_percentage  integer,
  refund_preference       text,
  state                   text        not null,
  attempts                integer     not null default 0,
  next_at                 timestamptz,
  asked_at                timestamptz,
  problem                 text,
  operator_name           text,
  constraint consumption_answer_pkey primary key (stream_id, position),
  constraint consumption_answer_stated_by_check check (stated_by in ('policy', 'backend', 'operator')),
  constraint consumption_answer_operator_name_check check ((stated_by = 'operator') = (operator_name is not null)),
  constraint consumption_answer_consent_check check (
    (state = 'no_consent') = (sample_content_provided is null)
    and (state = 'no_consent') = (delivery_status is null)
    and (state <> 'no_consent' or num_nonnulls(consumption_percentage, refund_preference) = 0)
  ),
  constraint consumption_answer_delivery_status_check check (
    delivery_status in (
      'DELIVERED', 'UNDELIVERED_QUALITY_ISSUE', 'UNDELIVERED_WRONG_ITEM', 'UNDELIVERED_SERVER_OUTAGE',
      'UNDELIVERED_OTHER'
    )
  ),
  constraint consumption_answer_consumption_percentage_check check (consumption_percentage between 0 and 100000),
  constraint consumption_answer_undelivered_check check (consumption_percentage = 0 or delivery_status = 'DELIVERED'),
  constraint consumption_answer_refund_preference_check
    check (refund_preference in ('DECLINE', 'GRANT_FULL', 'GRANT_PRORATED')),
  constraint consumption_answer_state_check check (state in ('pending', 'accepted', 'refused', 'late', 'no_consent')),
  constraint consumption_answer_attempts_check check (attempts >= 0),
  constraint consumption_answer_next_at_check check ((state = 'pending') = (next_at is not null)),
  constraint consumption_answer_asked_at_check check (state <> 'accepted' or asked_at is not null),
  constraint consumption_answer_problem_check check (state <> 'refused' or problem is not null)
);

-- Finds the answers to send.
create index consumption_answer_next_at_idx on subledger.consumption_answer (stream_id, next_at)
  where state = 'pending';

grant select, insert, update on subledger.consumption_answer to subledger_receiver, subledger_poller;
grant select on subledger.consumption_answer to subledger_reader, subledger_analyst;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.consumption_answer is
  'The answer to Apple about a purchase for which a refund was requested: one row for each refund_request that '
  'was answered';
comment on column subledger.consumption_answer.position is 'refund_request.position: the first event of the request';
comment on column subledger.consumption_answer.transaction_id is 'The purchase';
comment on column subledger.consumption_answer.deadline_at is 'See refund_request';
comment on column subledger.consumption_answer.stated_by is
  'policy, backend, or operator: a person in the console';
comment on column subledger.consumption_answer.stated_at is 'When, by our clock';
comment on column subledger.consumption_answer.sample_content_provided is
  'See consumption_policy; null without consent, as the next three';
comment on column subledger.consumption_answer.delivery_status is 'See consumption_policy';
comment on column subledger.consumption_answer.consumption_percentage is 'See consumption_policy';
comment on column subledger.consumption_answer.refund_preference is 'See consumption_policy';
comment on column subledger.consumption_answer.state is
  'pending, not sent yet; accepted by Apple; refused by Apple, or because it contradicts the purchase; late: the '
  'deadline passed, or Apple decided, before it was accepted; no_consent: nothing is sent';
comment on column subledger.consumption_answer.attempts is 'How often it was sent';
comment on column subledger.consumption_answer.next_at is 'When it is sent next; null unless pending';
comment on column subledger.consumption_answer.asked_at is 'When it was sent last, by our clock; null if never';
comment on column subledger.consumption_answer.operator_name is 'Who stated it in the console; null for others';
comment on column subledger.consumption_answer.problem is
  'Why it was refused, or why the last attempt failed: a word, and Apple''s error code if there is one';

-- Both window functions partition by stream and transaction, so a query's conditions on these apply first.
create or replace view subledger.refund_request as
with asked as (
  select
    stream_id,
    coalesce(
      facts #>> '{transactions,0,transactionId}',
      facts #>> '{notification,notification,pendingRefundReviewNotification,orderId}',
      facts #>> '{notification,notification,voidedPurchaseNotification,orderId}'
    ) as transaction_id,
    position,
    received_at,
    occurred_at,
    kind,
    source,
    facts,
    facts #>> '{notification,notification,pendingRefundReviewNotification,pendingRefundToken}' as token
  from subledger.event
  where kind in ('consumption_request', 'refund', 'refund_declined', 'refund_reversal')
    and source in ('apple-v2', 'apple-history', 'google-rtdn')
    and coalesce(
      facts #>> '{transactions,0,transactionId}',
      facts #>> '{notification,notification,pendingRefundReviewNotification,orderId}',
      facts #>> '{notification,notification,voidedPurchaseNotification,orderId}'
    ) is not null
),
statement as (
  select
    asked.*,
    -- Google asks a new question with a new token; Apple repeats its question.
    kind = 'consumption_request'
      and (
        lag(kind) over (partition by stream_id, transaction_id order by occurred_at, position)
          is distinct from 'consumption_request'
        or lag(token) over (partition by stream_id, transaction_id order by occurred_at, position)
          is distinct from token
      ) as opens
  from asked
),
numbered as (
  select
    statement.*,
    count(*) filter (where opens) over (
      partition by stream_id, transaction_id
      order by occurred_at, position
    ) as number
  from statement
)
select
  numbered.stream_id,
  min(numbered.position) filter (where numbered.kind = 'consumption_request') as position,
  numbered.transaction_id,
  min(numbered.facts #>> '{transactions,0,originalTransactionId}') as original_transaction_id,
  min(numbered.facts #>> '{transactions,0,productId}') as product_id,
  min(numbered.facts #>> '{transactions,0,type}') as product_type,
  min(numbered.facts #>> '{transactions,0,appAccountToken}') as app_account_token,
  bool_or(numbered.facts #> '{transactions,0,additional,advancedCommerceInfo}' is not null) as is_advanced_commerce,
  count(*) filter (where numbered.kind = 'consumption_request') as requests,
  min(numbered.occurred_at) filter (where numbered.kind = 'consumption_request') as requested_at,
  min(numbered.received_at) filter (where numbered.kind = 'consumption_request') as received_at,
  (
    array_agg(
      coalesce(
        numbered.facts #>> '{notification,data,consumptionRequestReason}',
        numbered.facts #>> '{notification,notification,pendingRefundReviewNotification,refundReason}'
      )
      order by numbered.position
    ) filter (where numbered.kind = 'consumption_request')
  )[1] as reason,
  (
    array_agg(
      case numbered.kind when 'refund' then 'granted' else 'declined' end
      order by numbered.occurred_at, numbered.position
    ) filter (where numbered.kind in ('refund', 'refund_declined'))
  )[1] as decision,
  min(numbered.occurred_at) filter (where numbered.kind in ('refund', 'refund_declined')) as decided_at,
  min(numbered.occurred_at) filter (where numbered.kind = 'refund_reversal') as reversed_at,
  case when bool_or(numbered.source = 'google-rtdn') then 'google' else 'apple' end as store,
  case
    when bool_or(numbered.source = 'google-rtdn') then
      min(coalesce(numbered.occurred_at, numbered.received_at)) filter (where numbered.kind = 'consumption_request')
        + interval '24 hours'
    else
      min(numbered.received_at) filter (where numbered.kind = 'consumption_request') + interval '12 hours'
  end as deadline_at,
  min(numbered.token) as pending_refund_token
from numbered
where numbered.number > 0
group by numbered.stream_id, numbered.transaction_id, numbered.number;

comment on view subledger.refund_request is
  'The refund requests of customers about which Apple asked, and the chargebacks about which Google did, with what the store '
  'decided. Apple may ask several times about one request. A request after a decision is a new one. Google''s are in the '
  'stream of the app in environment unknown, as its notifications';
comment on column subledger.refund_request.position is 'The first event that reported it';
comment on column subledger.refund_request.transaction_id is 'The purchase; for Google, the id of the order';
comment on column subledger.refund_request.original_transaction_id is
  'The subscription; null for Google, whose notification names the order only, as the next three';
comment on column subledger.refund_request.product_id is 'What was bought';
comment on column subledger.refund_request.product_type is 'Type of the product, as Apple spells it';
comment on column subledger.refund_request.app_account_token is 'As in the purchase; null if it has none';
comment on column subledger.refund_request.is_advanced_commerce is
  'Whether the purchase is one of the Advanced Commerce API, which takes an older form of the answer';
comment on column subledger.refund_request.requests is 'How often Apple asked';
comment on column subledger.refund_request.requested_at is 'When Apple asked first';
comment on column subledger.refund_request.received_at is
  'When that was received first, by our clock';
comment on column subledger.refund_request.reason is
  'The customer''s reason, as Apple spells it; for Google its number: 7 is a chargeback';
comment on column subledger.refund_request.decision is
  'granted or declined; null if the store has not decided. Google says only what it has voided';
comment on column subledger.refund_request.decided_at is 'When';
comment on column subledger.refund_request.reversed_at is 'When a granted refund was reversed; null if it was not';
comment on column subledger.refund_request.store is 'apple or google';
comment on column subledger.refund_request.deadline_at is
  'Until when the store takes an answer: Apple twelve hours after the request was received, Google a day after it asked';
comment on column subledger.refund_request.pending_refund_token is
  'What an answer to Google must repeat; null for Apple';

grant select on subledger.refund_request to subledger_receiver, subledger_poller, subledger_reader, subledger_analyst;

-- Endpoints ==========================================================================================================
-- Where changes are delivered and notifications are passed on. The cursor of an endpoint passes what was delivered, and
-- what is recorded as waiting, so only that has rows. Secrets are in a file, never here.

-- Once ---------------------------------------------------------------------------------------------------------------

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
  constraint endpoint_purpose_check check (purpose = case left(endpoint_id, 3) when 'end' then 'changes' else 'events' end),
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

-- URLs of endpoints can contain secrets, so analysts may not read them. The apps file names those of notifications, and
-- the poller records these.
grant select, insert, update on subledger.endpoint to subledger_products, subledger_poller;
grant select on subledger.endpoint to subledger_reader;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.endpoint is 'Where changes are delivered, or notifications are passed on';
comment on column subledger.endpoint.endpoint_id is
  'end_ and a random number for changes; fwd_ and a digest of app, environment and URL for notifications';
comment on column subledger.endpoint.purpose is
  'changes: each change, signed; events: the body of each notification as the store sent it';
comment on column subledger.endpoint.app is 'Bundle ID or package name';
comment on column subledger.endpoint.environment is 'See stream';
comment on column subledger.endpoint.url is 'Can contain a secret: not for logs';
comment on column subledger.endpoint.kinds is
  'Only changes of these kinds, see change.kind, or events of these sources, see event.source; null for all';
comment on column subledger.endpoint.signature is
  'v1: with a secret of the endpoint; v1a: with the key of the server; none: the store has signed';
comment on column subledger.endpoint.state is
  'active or disabled. The cursor of a disabled endpoint stays, so it misses nothing once it is active again';
comment on column subledger.endpoint.disabled_for is
  'operator: on request; gone: it answered 410; failing: five days without a success; removed: the apps file no longer '
  'names it';
comment on column subledger.endpoint.disabled_at is 'When, by our clock';
comment on column subledger.endpoint.created_at is 'When it was added, by our clock';

-- Once ---------------------------------------------------------------------------------------------------------------

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

grant select, insert, update on subledger.endpoint_cursor to subledger_products, subledger_poller;
grant select on subledger.endpoint_cursor to subledger_reader;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.endpoint_cursor is 'Up to where each endpoint was served';
comment on column subledger.endpoint_cursor.number is
  'change.number or event.position: everything up to it was delivered, is of no interest to the endpoint, or has a row in '
  'endpoint_delivery';
comment on column subledger.endpoint_cursor.generation is
  'Raised by what operators change. The process that delivers writes only if it knows the latest one';
comment on column subledger.endpoint_cursor.failing_since is
  'The first failed attempt after the last success; null if the last attempt succeeded';
comment on column subledger.endpoint_cursor.succeeded_at is 'The last success; null if there was none';

-- Once ---------------------------------------------------------------------------------------------------------------

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

grant select, insert, update, delete on subledger.endpoint_delivery to subledger_products, subledger_poller;
grant select on subledger.endpoint_delivery to subledger_reader;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.endpoint_delivery is 'Messages up to the cursor that were not delivered';
comment on column subledger.endpoint_delivery.number is 'See endpoint_cursor.number';
comment on column subledger.endpoint_delivery.line is
  'The subscription, whose messages are sent one after the other; for a notification about none, its position';
comment on column subledger.endpoint_delivery.state is
  'waiting: it is sent again; exhausted: its attempts are used up, and it is kept to be sent on request; lost: the log '
  'has no body of the event, as after damage, and it is kept to be sent on request once the body is restored';
comment on column subledger.endpoint_delivery.attempts is 'How many failed';
comment on column subledger.endpoint_delivery.next_at is
  'When it is due; null if it waits for those before it in its line';
comment on column subledger.endpoint_delivery.ended_at is 'When it was given up; null while it waits';

-- Once ---------------------------------------------------------------------------------------------------------------

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

grant select, insert, delete on subledger.endpoint_attempt to subledger_poller;
grant select on subledger.endpoint_attempt to subledger_products, subledger_reader;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.endpoint_attempt is 'The attempts of the last 30 days';
comment on column subledger.endpoint_attempt.attempted_at is 'When it began';
comment on column subledger.endpoint_attempt.number is 'See endpoint_cursor.number';
comment on column subledger.endpoint_attempt.result is
  'success, redirect, gone, client_error, server_error, timeout, unreachable, certificate, address_refused, no_key or '
  'body_lost';
comment on column subledger.endpoint_attempt.status is 'The HTTP status; null without a response';
comment on column subledger.endpoint_attempt.milliseconds is 'Until the response was read, or the attempt failed';

-- Tokens =============================================================================================================
-- Backends send a token with each request to the private listener. A token is valid for all streams. The owner of the
-- schema creates and revokes tokens; the server reads them as subledger_authenticator, which also keeps the logins to the
-- console, and can read no other table. It cannot write a login: functions with the owner's rights do, for whoever proves to
-- know the secret of a token or a ticket.

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.token (
  token_id      text        not null,
  secret_sha256 bytea       not null,
  scope         text        not null,
  name          text        not null,
  created_at    timestamptz not null default now(),
  revoked_at    timestamptz,
  app           text,
  constraint token_pkey primary key (token_id),
  constraint token_token_id_check check (token_id ~ '^[0-9a-f]{12}$'),
  constraint token_secret_sha256_check check (octet_length(secret_sha256) = 32),
  constraint token_scope_check check (scope in ('publishable', 'submit', 'read', 'link', 'operate', 'webhooks', 'admin')),
  constraint token_app_check check ((app is not null) = (scope = 'publishable'))
);

create index token_in_force_idx on subledger.token (token_id) where revoked_at is null;

grant select (token_id, secret_sha256, scope, name, revoked_at, app) on subledger.token to subledger_authenticator;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.token is
  'Access tokens for the private listener. A token cannot be derived from the stored values';
comment on column subledger.token.token_id is 'Part of the token by which it is looked up; not secret';
comment on column subledger.token.secret_sha256 is 'SHA-256 of the secret part, 32 random bytes';
comment on column subledger.token.scope is
  'publishable, for apps; submit, for handing receipts in; read; link, which includes both; operate, for grants, '
  'which includes link; webhooks, for endpoints; or '
  'admin, which includes all: see the routes in the OpenAPI document';
comment on column subledger.token.name is 'Holder of the token, in the operator''s words';
comment on column subledger.token.revoked_at is 'When it was revoked; null while it is active';
comment on column subledger.token.app is 'The app of a publishable token; null for the others';

-- Once ---------------------------------------------------------------------------------------------------------------

-- Logins to the console. Secrets are random and only their digests are stored: reading the table does not let anyone in.
create table subledger.console_session (
  session_sha256 bytea       not null,
  token_id       text        not null,
  csrf           text        not null,
  made           timestamptz not null default now(),
  seen           timestamptz not null default now(),
  expires        timestamptz not null,
  constraint console_session_pkey primary key (session_sha256),
  constraint console_session_session_sha256_check check (octet_length(session_sha256) = 32),
  constraint console_session_csrf_check check (csrf ~ '^[0-9a-f]{64}$'),
  constraint console_session_expires_check check (expires > made)
);

grant select, delete on subledger.console_session to subledger_authenticator;
grant update (seen) on subledger.console_session to subledger_authenticator;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.console_session is
  'Logins to the console. A session ends when its token is revoked, at expires, and an hour after it was seen last';
comment on column subledger.console_session.session_sha256 is 'SHA-256 of the cookie, 32 random bytes';
comment on column subledger.console_session.token_id is 'The token that logged in';
comment on column subledger.console_session.csrf is 'Random; every form of the session contains it';
comment on column subledger.console_session.made is 'When it was made';
comment on column subledger.console_session.seen is 'When it was last used, to within a minute';
comment on column subledger.console_session.expires is 'When it ends at the latest';

-- Once ---------------------------------------------------------------------------------------------------------------

create table subledger.console_ticket (
  ticket_sha256 bytea       not null,
  token_id      text        not null,
  expires       timestamptz not null,
  constraint console_ticket_pkey primary key (ticket_sha256),
  constraint console_ticket_ticket_sha256_check check (octet_length(ticket_sha256) = 32)
);

-- Nobody's but the owner's: functions use tickets up.
revoke all on subledger.console_ticket from public;

-- Repeatable ---------------------------------------------------------------------------------------------------------

comment on table subledger.console_ticket is
  'One-time logins to the console, from `subledger token link`. Using one deletes its row';
comment on column subledger.console_ticket.ticket_sha256 is 'SHA-256 of the ticket, 32 random bytes';
comment on column subledger.console_ticket.token_id is 'The token whose scope the session gets';
comment on column subledger.console_ticket.expires is 'Until when it can be used';

-- A proof is 32 bytes: the secret, of which each bit is changed or not as in the SHA-256 of its stored digest and of the
-- session's. So a proof shows the secret to nobody who reads it in the database's log.
create or replace function subledger.proven_secret(proof bytea, secret_sha256 bytea, session_sha256 bytea) returns bytea
language sql immutable
set search_path = pg_catalog, pg_temp as $$
  select string_agg(
    set_byte('\x00', 0, get_byte(proven_secret.proof, place) # get_byte(mask.bytes, place)), '' order by place
  )
  from sha256(proven_secret.secret_sha256 || proven_secret.session_sha256) as mask (bytes)
  cross join generate_series(0, 31) as place
  where octet_length(proven_secret.proof) = 32
$$;

create or replace function subledger.begin_console_session(
  of_token text, proof bytea, session_sha256 bytea, csrf text, seconds bigint
) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
declare
  stored bytea;
begin
  select token.secret_sha256 into stored
  from subledger.token
  where token.token_id = of_token
    and token.revoked_at is null;
  if sha256(subledger.proven_secret(proof, stored, session_sha256)) is distinct from stored or stored is null then
    return false;
  end if;
  insert into subledger.console_session (session_sha256, token_id, csrf, expires)
  values (
    begin_console_session.session_sha256, of_token, begin_console_session.csrf, now() + make_interval(secs => seconds)
  );
  return true;
end
$$;

create or replace function subledger.redeem_console_ticket(
  ticket_digest bytea, proof bytea, session_sha256 bytea, csrf text, seconds bigint
) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
declare
  of_token text;
begin
  -- A ticket is known by its text, 64 hexadecimal digits.
  if sha256(convert_to(encode(subledger.proven_secret(proof, ticket_digest, session_sha256), 'hex'), 'UTF8'))
    is distinct from ticket_digest
  then
    return false;
  end if;
  delete from subledger.console_ticket
  using subledger.token
  where console_ticket.ticket_sha256 = ticket_digest
    and console_ticket.expires > now()
    and token.token_id = console_ticket.token_id
    and token.revoked_at is null
  returning console_ticket.token_id into of_token;
  if of_token is null then
    return false;
  end if;
  insert into subledger.console_session (session_sha256, token_id, csrf, expires)
  values (
    redeem_console_ticket.session_sha256, of_token, redeem_console_ticket.csrf, now() + make_interval(secs => seconds)
  );
  return true;
end
$$;

comment on function subledger.proven_secret is 'The secret that a proof is made of';
comment on function subledger.begin_console_session is
  'Begins a login to the console for whoever knows the secret of an active token; says whether it did';
comment on function subledger.redeem_console_ticket is
  'Begins a login to the console for whoever knows a ticket, and uses it up; says whether it did';

revoke execute
  on function
    subledger.begin_console_session(text, bytea, bytea, text, bigint),
    subledger.redeem_console_ticket(bytea, bytea, bytea, text, bigint)
  from public;
grant execute
  on function
    subledger.begin_console_session(text, bytea, bytea, text, bigint),
    subledger.redeem_console_ticket(bytea, bytea, bytea, text, bigint)
  to subledger_authenticator;

-- Analysts ===========================================================================================================
-- Views for analysts. They are computed from the log and the projections when they are read, and nothing is
-- accumulated: a late event corrects every figure it affects.
--
-- Each summary view (trials) is based on a detail view (trials_detail) with one row per fact. Its positions are those
-- of the events that reported the fact; look them up in analyst.events. Days and months are in UTC. Every view has the
-- columns app and environment, so sum over them only on purpose. The views leave out bodies, device ids and the app's
-- own user ids.
--
-- Some are written for the planner, with a comment at the place.

-- Repeatable ---------------------------------------------------------------------------------------------------------

-- The comments of the release before, so that the block at the end of this chapter finds what is stated here and no more.
do $$
declare
  found record;
begin
  for found in
    select attrelid::regclass as relation, attname as name
    from pg_attribute
    join pg_class on pg_class.oid = attrelid
    where relnamespace = 'analyst'::regnamespace
      and relkind = 'v'
      and attnum > 0
      and not attisdropped
      and col_description(attrelid, attnum) is not null
  loop
    execute format('comment on column %s.%I is null', found.relation, found.name);
  end loop;
end
$$;

create or replace view analyst.events as
select
  stream.app,
  stream.environment,
  event.position,
  event.received_at,
  event.occurred_at,
  event.source,
  event.type,
  event.subtype,
  event.kind,
  case when octet_length(event.dedupe_key) = 16 then encode(event.dedupe_key, 'hex')::uuid end as notification_uuid,
  encode(event.fingerprint, 'hex') as fingerprint,
  coalesce(
    event.facts #>> '{transactions,0,originalTransactionId}', event.facts #>> '{renewals,0,originalTransactionId}',
    event.facts #>> '{accountDeletions,0,originalTransactionId}', event.facts #>> '{write,originalTransactionId}',
    event.facts #>> '{erasure,subscriptions,0}', event.facts #>> '{seat,originalTransactionId}'
  ) as original_transaction_id,
  event.facts #>> '{transactions,0,transactionId}' as transaction_id,
  event.facts #>> '{transactions,0,productId}' as product_id,
  coalesce(jsonb_array_length(event.defects), 0) as defects
from subledger.event
join subledger.stream using (stream_id);

comment on view analyst.events is
  'Every accepted notification and stored answer of a store, in commit order within its app and environment';
comment on column analyst.events.position is
  'From 1 without gaps within its app and environment; positions in other views refer to it';
comment on column analyst.events.received_at is 'When it was received, by our clock';
comment on column analyst.events.occurred_at is
  'When the store signed or sent it; for V1, which has no such date, when it happened by the dates in it; for an '
  'answer, when the store gave it';
comment on column analyst.events.source is
  'apple-v1, apple-v2, apple-history for notifications that were fetched, apple-receipt for answers about receipts, '
  'apple-device for signed data of devices, apple-api for that of answers of the App Store Server API, google-rtdn for '
  'notifications of Google Play, google-api for answers of its Developer API, google-device for those about purchases '
  'that were handed in, google-voided for voided purchases, backend for customer links, or operator for what is asked of '
  'the store, by whomever, and for what operators state';
comment on column analyst.events.type is 'As the store spells it; null if unreadable';
comment on column analyst.events.subtype is 'As Apple spells it; V1 and Google Play have none';
comment on column analyst.events.kind is 'What happened, in one vocabulary for all sources: see subledger.event';
comment on column analyst.events.notification_uuid is 'The store''s id of the notification; V1 has none';
comment on column analyst.events.fingerprint is
  'Equal for V1 notifications with the same content, most of which are one notification sent again with another '
  'receipt; null for other sources';
comment on column analyst.events.original_transaction_id is
  'The subscription; the first one if a V1 body contains several';
comment on column analyst.events.transaction_id is 'The first transaction in it';
comment on column analyst.events.product_id is 'Product of that transaction';
comment on column analyst.events.defects is 'Number of its fields that could not be read';

create or replace function analyst.store(original_transaction_id text) returns text
language sql immutable parallel safe as $$
  select
    case
      when original_transaction_id ~ '^([0-9]+|erased-[0-9a-f]{32}-apple-[0-9]+)$' then 'apple'
      when original_transaction_id not like 'grant:%' then 'google'
    end
$$;

comment on function analyst.store is
  'The store of a subscription or one-time purchase: Apple''s ids are numbers, or say apple since an erasure, and '
  'Google''s purchase tokens are not; null for access that was given by hand';

create or replace function analyst.refund(
  revocation_date timestamptz, revocation_type text, revocation_reason integer, is_upgraded boolean,
  in_app_ownership_type text, is_whole boolean
) returns text
language sql immutable parallel safe as $$
  select
    case
      when revocation_date is null then null
      when in_app_ownership_type in ('FAMILY_SHARED', 'ASSIGNED') then null
      when revocation_type in ('REFUND_UNITS', 'REFUND_AMOUNT') then case when is_whole then 'full' else 'part' end
      when revocation_type = 'REFUND_PRORATED' then 'part'
      when revocation_type in ('REFUND_FULL', 'REVOKED') then 'full'
      -- Without a kind, as in V1, a revocation is a refund. What this version does not know is none.
      when revocation_type is null and not is_upgraded and coalesce(revocation_reason, 0) in (0, 1)
        and coalesce(in_app_ownership_type, 'PURCHASED') = 'PURCHASED' then 'full'
    end
$$;

comment on function analyst.refund is
  'Whether a revocation is a refund of all (full) or of a part, such as the rest (part); null for none and for an unknown '
  'kind. is_whole says whether all was paid back of a purchase that the customer keeps';

create or replace function analyst.country(storefront text) returns text
language sql immutable parallel safe as $$
  select case when length(storefront) = 2 then coalesce('{
    "AD": "AND", "AE": "ARE", "AF": "AFG", "AG": "ATG", "AI": "AIA", "AL": "ALB", "AM": "ARM", "AO": "AGO",
    "AQ": "ATA", "AR": "ARG", "AS": "ASM", "AT": "AUT", "AU": "AUS", "AW": "ABW", "AX": "ALA", "AZ": "AZE",
    "BA": "BIH", "BB": "BRB", "BD": "BGD", "BE": "BEL", "BF": "BFA", "BG": "BGR", "BH": "BHR", "BI": "BDI",
    "BJ": "BEN", "BL": "BLM", "BM": "BMU", "BN": "BRN", "BO": "BOL", "BQ": "BES", "BR": "BRA", "BS": "BHS",
    "BT": "BTN", "BV": "BVT", "BW": "BWA", "BY": "BLR", "BZ": "BLZ", "CA": "CAN", "CC": "CCK", "CD": "COD",
    "CF": "CAF", "CG": "COG", "CH": "CHE", "CI": "CIV", "CK": "COK", "CL": "CHL", "CM": "CMR", "CN": "CHN",
    "CO": "COL", "CR": "CRI", "CU": "CUB", "CV": "CPV", "CW": "CUW", "CX": "CXR", "CY": "CYP", "CZ": "CZE",
    "DE": "DEU", "DJ": "DJI", "DK": "DNK", "DM": "DMA", "DO": "DOM", "DZ": "DZA", "EC": "ECU", "EE": "EST",
    "EG": "EGY", "EH": "ESH", "ER": "ERI", "ES": "ESP", "ET": "ETH", "FI": "FIN", "FJ": "FJI", "FK": "FLK",
    "FM": "FSM", "FO": "FRO", "FR": "FRA", "GA": "GAB", "GB": "GBR", "GD": "GRD", "GE": "GEO", "GF": "GUF",
    "GG": "GGY", "GH": "GHA", "GI": "GIB", "GL": "GRL", "GM": "GMB", "GN": "GIN", "GP": "GLP", "GQ": "GNQ",
    "GR": "GRC", "GS": "SGS", "GT": "GTM", "GU": "GUM", "GW": "GNB", "GY": "GUY", "HK": "HKG", "HM": "HMD",
    "HN": "HND", "HR": "HRV", "HT": "HTI", "HU": "HUN", "ID": "IDN", "IE": "IRL", "IL": "ISR", "IM": "IMN",
    "IN": "IND", "IO": "IOT", "IQ": "IRQ", "IR": "IRN", "IS": "ISL", "IT": "ITA", "JE": "JEY", "JM": "JAM",
    "JO": "JOR", "JP": "JPN", "KE": "KEN", "KG": "KGZ", "KH": "KHM", "KI": "KIR", "KM": "COM", "KN": "KNA",
    "KP": "PRK", "KR": "KOR", "KW": "KWT", "KY": "CYM", "KZ": "KAZ", "LA": "LAO", "LB": "LBN", "LC": "LCA",
    "LI": "LIE", "LK": "LKA", "LR": "LBR", "LS": "LSO", "LT": "LTU", "LU": "LUX", "LV": "LVA", "LY": "LBY",
    "MA": "MAR", "MC": "MCO", "MD": "MDA", "ME": "MNE", "MF": "MAF", "MG": "MDG", "MH": "MHL", "MK": "MKD",
    "ML": "MLI", "MM": "MMR", "MN": "MNG", "MO": "MAC", "MP": "MNP", "MQ": "MTQ", "MR": "MRT", "MS": "MSR",
    "MT": "MLT", "MU": "MUS", "MV": "MDV", "MW": "MWI", "MX": "MEX", "MY": "MYS", "MZ": "MOZ", "NA": "NAM",
    "NC": "NCL", "NE": "NER", "NF": "NFK", "NG": "NGA", "NI": "NIC", "NL": "NLD", "NO": "NOR", "NP": "NPL",
    "NR": "NRU", "NU": "NIU", "NZ": "NZL", "OM": "OMN", "PA": "PAN", "PE": "PER", "PF": "PYF", "PG": "PNG",
    "PH": "PHL", "PK": "PAK", "PL": "POL", "PM": "SPM", "PN": "PCN", "PR": "PRI", "PS": "PSE", "PT": "PRT",
    "PW": "PLW", "PY": "PRY", "QA": "QAT", "RE": "REU", "RO": "ROU", "RS": "SRB", "RU": "RUS", "RW": "RWA",
    "SA": "SAU", "SB": "SLB", "SC": "SYC", "SD": "SDN", "SE": "SWE", "SG": "SGP", "SH": "SHN", "SI": "SVN",
    "SJ": "SJM", "SK": "SVK", "SL": "SLE", "SM": "SMR", "SN": "SEN", "SO": "SOM", "SR": "SUR", "SS": "SSD",
    "ST": "STP", "SV": "SLV", "SX": "SXM", "SY": "SYR", "SZ": "SWZ", "TC": "TCA", "TD": "TCD", "TF": "ATF",
    "TG": "TGO", "TH": "THA", "TJ": "TJK", "TK": "TKL", "TL": "TLS", "TM": "TKM", "TN": "TUN", "TO": "TON",
    "TR": "TUR", "TT": "TTO", "TV": "TUV", "TW": "TWN", "TZ": "TZA", "UA": "UKR", "UG": "UGA", "UM": "UMI",
    "US": "USA", "UY": "URY", "UZ": "UZB", "VA": "VAT", "VC": "VCT", "VE": "VEN", "VG": "VGB", "VI": "VIR",
    "VN": "VNM", "VU": "VUT", "WF": "WLF", "WS": "WSM", "YE": "YEM", "YT": "MYT", "ZA": "ZAF", "ZM": "ZMB",
    "ZW": "ZWE"
  }'::jsonb ->> storefront, storefront) else storefront end
$$;

comment on function analyst.country is
  'The country of a storefront, ISO 3166-1 alpha-3: Apple states three letters, and Google two';

create or replace function analyst.offer_identifier(
  offer_identifier text, promotional_offer_id text, offer_code_ref_name text
) returns text
language sql immutable parallel safe as $$
  select coalesce(offer_identifier, promotional_offer_id, offer_code_ref_name)
$$;

comment on function analyst.offer_identifier is 'Name of the offer of any type';

create or replace view analyst.transactions as
select
  stream.app,
  stream.environment,
  transaction.original_transaction_id,
  transaction.transaction_id,
  transaction.web_order_line_item_id,
  transaction.product_id,
  transaction.type,
  transaction.subscription_group_identifier,
  transaction.quantity,
  transaction.purchase_date,
  transaction.original_purchase_date,
  transaction.expires_date,
  transaction.transaction_reason,
  round(transaction.price / 1000.0, 3) as price,
  transaction.currency,
  transaction.storefront,
  coalesce(transaction.in_app_ownership_type = 'FAMILY_SHARED', false) as is_family_shared,
  coalesce(transaction.offer_discount_type = 'FREE_TRIAL', transaction.is_trial_period, false) as is_trial,
  transaction.offer_type,
  analyst.offer_identifier(
    transaction.offer_identifier, transaction.promotional_offer_id, transaction.offer_code_ref_name
  ) as offer_identifier,
  transaction.offer_discount_type,
  transaction.offer_period,
  transaction.is_upgraded,
  transaction.revocation_date,
  transaction.revocation_reason,
  transaction.revocation_type,
  analyst.refund(
    transaction.revocation_date, transaction.revocation_type, transaction.revocation_reason, transaction.is_upgraded,
    transaction.in_app_ownership_type,
    coalesce(transaction.refunded_price >= transaction.price, transaction.revocation_percentage >= 100000, false)
  ) as refund,
  case
    when transaction.revocation_type in ('REFUND_PRORATED', 'REFUND_UNITS', 'REFUND_AMOUNT') then
      transaction.revocation_percentage / 1000.0
    -- The order of a revoked purchase says how much of it was paid back.
    when transaction.revocation_date is not null and not transaction.is_upgraded and transaction.price > 0
      and transaction.refunded_price < transaction.price
    then transaction.refunded_price * 100.0 / transaction.price
    when transaction.revocation_date is not null then coalesce(transaction.revocation_percentage / 1000.0, 100)
  end as refund_percent,
  transaction.positions,
  case when seats.info is not null then transaction.quantity end as seats,
  case when jsonb_typeof(seats.info -> 'revokedSeatQuantity') = 'number' then
    (seats.info ->> 'revokedSeatQuantity')::numeric
  end as seats_revoked,
  coalesce(seats.info ->> 'invitationManagement', transaction.additional ->> 'invitationManagement')
    as invitation_management,
  transaction.refunds,
  coalesce(transaction.additional ->> 'additionalTransactionReason' = 'SEAT_ADDITION', false) as is_for_added_seats
from subledger.transaction
cross join lateral (
  select case when jsonb_typeof(transaction.additional -> 'multiSeatInfo') = 'object' then
    transaction.additional -> 'multiSeatInfo'
  end as info
) as seats
join subledger.stream using (stream_id);

comment on view analyst.transactions is
  'Current state of every purchase and renewal. Only signed notifications (V2) contain price and currency: both are '
  'null if only V1 reported the purchase';
comment on column analyst.transactions.original_transaction_id is 'The subscription it belongs to';
comment on column analyst.transactions.transaction_id is 'Apple''s id of the purchase';
comment on column analyst.transactions.web_order_line_item_id is
  'Equal for copies of one period restored on several devices';
comment on column analyst.transactions.type is
  'Type of the product in Apple''s words, for Google Play too; null in V1 and if unknown';
comment on column analyst.transactions.subscription_group_identifier is
  'Group of products of which only one is active at a time';
comment on column analyst.transactions.quantity is 'Number bought';
comment on column analyst.transactions.purchase_date is 'When the period starts, or when the purchase was made';
comment on column analyst.transactions.original_purchase_date is 'When the subscription was first bought';
comment on column analyst.transactions.expires_date is 'End of the period as reported; null if it does not expire';
comment on column analyst.transactions.transaction_reason is 'PURCHASE or RENEWAL; null in V1';
comment on column analyst.transactions.price is 'In the currency unit; null in V1';
comment on column analyst.transactions.storefront is 'Country of the store, ISO 3166-1 alpha-3; null in V1';
comment on column analyst.transactions.is_family_shared is
  'Whether it is used by a family member, who does not pay for it';
comment on column analyst.transactions.is_trial is
  'Whether it is a free trial, by the offer or by V1''s is_trial_period';
comment on column analyst.transactions.offer_type is '1 introductory, 2 promotional, 3 offer code, 4 win-back';
comment on column analyst.transactions.offer_identifier is 'Name of the offer of any type';
comment on column analyst.transactions.offer_discount_type is 'FREE_TRIAL, PAY_AS_YOU_GO or PAY_UP_FRONT; null in V1';
comment on column analyst.transactions.is_upgraded is 'Whether an upgrade replaced it, according to Apple';
comment on column analyst.transactions.revocation_date is 'When it was refunded, or revoked from a family member';
comment on column analyst.transactions.revocation_reason is
  'Apple: 1 an issue with the app, 0 other. Google Play: 1 remorse, 2 not received, 3 defective, 4 bought by accident, '
  '5 fraud, 6 friendly fraud, 7 chargeback, 8 not acknowledged, 0 other. Null if not stated';
comment on column analyst.transactions.revocation_type is 'In Apple''s words, for Google Play too; null in V1';
comment on column analyst.transactions.refund is
  'full (all of it), part (some of it, or the rest from revocation_date on), null if not refunded';
comment on column analyst.transactions.refund_percent is
  'Percentage of the price that was refunded, 0 to 100; null if not revoked, or if not reported for a refund in part. '
  'Use it only where refund is not null: other revocations, such as of a family member, have 100 too';
comment on column analyst.transactions.seats is
  'Number of seats that it pays for, those that were refunded included; null without seats';
comment on column analyst.transactions.seats_revoked is 'How many of them were refunded; null if the store does not say it';
comment on column analyst.transactions.invitation_management is
  'Who invites the members of a group, in Apple''s words: APPLE or DEVELOPER; null without seats';
comment on column analyst.transactions.refunds is 'See subledger.transaction.refunds';
comment on column analyst.transactions.is_for_added_seats is
  'Whether it is one of several purchases that pay for one period, because seats were added to it';
comment on column analyst.transactions.positions is 'Positions of the events that reported it, ascending';

create or replace view analyst.plans as
with lasting as (
  -- Count by days first, so that the length is found once for each number of days, and not for each purchase.
  select
    stream_id,
    product_id,
    -- Double precision, because numeric takes several times as long.
    floor(date_part('epoch', expires_date - purchase_date) / 86400 + 0.5) as days,
    count(*) as transactions
  from subledger.transaction
  where product_id is not null
    and expires_date is not null
    and offer_type is null
    and is_trial_period is not true
    and billing_plan_type is distinct from 'MONTHLY'
    and in_app_ownership_type is distinct from 'GRANTED'
  group by 1, 2, 3
), period as (
  select
    stream_id,
    product_id,
    case
      when days = 7 then 'P1W'
      when days between 28 and 31 then 'P1M'
      when days between 59 and 62 then 'P2M'
      when days between 89 and 92 then 'P3M'
      when days between 181 and 184 then 'P6M'
      when days between 365 and 366 then 'P1Y'
    end as length,
    transactions
  from lasting
), counted as (
  select stream_id, product_id, length, sum(transactions)::bigint as transactions
  from period
  where length is not null
  group by stream_id, product_id, length
), commonest as (
  select distinct on (stream_id, product_id) stream_id, product_id, length, transactions
  from counted
  order by stream_id, product_id, transactions desc, length
)
select
  stream.app,
  stream.environment,
  commonest.stream_id,
  commonest.product_id,
  commonest.length,
  case commonest.length
    when 'P1W' then 12 / 52.0
    else extract(year from commonest.length::interval) * 12 + extract(month from commonest.length::interval)
  end as months,
  commonest.transactions
from commonest
join subledger.stream using (stream_id);

comment on view analyst.plans is
  'Length of a product''s period, derived from its transactions because Apple does not report it: the most common '
  'length of those without an offer that are not charges of a year billed monthly. The short periods of the sandbox '
  'match no length, so they have no monthly value';
comment on column analyst.plans.length is 'P1W, P1M, P2M, P3M, P6M or P1Y';
comment on column analyst.plans.months is 'The length in months; a year has 52 weeks';
comment on column analyst.plans.transactions is 'Number of transactions of this length';

create or replace view analyst.ordered_periods as
select
  stream.app,
  stream.environment,
  access_period.stream_id,
  access_period.original_transaction_id,
  access_period.transaction_id,
  access_period.product_id,
  access_period.payer_state,
  access_period.cut,
  false as is_refunded,
  coalesce(access_period.effective_start, access_period.starts_at) as starts_at,
  coalesce(access_period.effective_end, access_period.ends_at) as ends_at,
  access_period.first_start,
  access_period.previous_end,
  access_period.previous_cut,
  case
    when access_period.previous_end is not null then
      coalesce(access_period.previous_product_id, access_period.product_id)
  end as previous_product_id,
  access_period.churned_at,
  access_period.first_month,
  access_period.last_month,
  access_period.price,
  access_period.currency,
  access_period.price_period,
  transaction.offer_discount_type,
  transaction.offer_period,
  case when access_period.cause = 'grace' then array[access_period.position] else transaction.positions end
    as positions,
  access_period.churn_reason,
  access_period.reason_stated,
  access_period.movement
from subledger.access_period
join subledger.stream using (stream_id)
-- An outer join by key, so that the planner removes it if a query uses none of its columns.
left join subledger.transaction using (stream_id, original_transaction_id, transaction_id)
where access_period.payer_state <> 'granted'
union all
select
  stream.app,
  stream.environment,
  refunded_period.stream_id,
  refunded_period.original_transaction_id,
  refunded_period.transaction_id,
  refunded_period.product_id,
  refunded_period.payer_state,
  refunded_period.cut,
  true as is_refunded,
  coalesce(refunded_period.effective_start, refunded_period.starts_at) as starts_at,
  coalesce(refunded_period.effective_end, refunded_period.ends_at) as ends_at,
  refunded_period.first_start,
  refunded_period.previous_end,
  refunded_period.previous_cut,
  case
    when refunded_period.previous_end is not null then
      coalesce(refunded_period.previous_product_id, refunded_period.product_id)
  end as previous_product_id,
  refunded_period.churned_at,
  refunded_period.first_month,
  refunded_period.last_month,
  refunded_period.price,
  refunded_period.currency,
  refunded_period.price_period,
  transaction.offer_discount_type,
  transaction.offer_period,
  transaction.positions,
  refunded_period.churn_reason,
  refunded_period.reason_stated,
  refunded_period.movement
from subledger.refunded_period
join subledger.stream using (stream_id)
left join subledger.transaction using (stream_id, original_transaction_id, transaction_id);

comment on view analyst.ordered_periods is
  'Periods of each subscription in order, with the periods before and after; refunded ones until the refund. If '
  'periods overlap, such as a purchase and its restored copy, the overlapping part of the later one is cut off: if '
  'nothing is left, starts_at is not before ends_at. Use analyst.held_periods, which omits such rows';
comment on column analyst.ordered_periods.transaction_id is
  'Transaction that pays for it; for grace, the period whose renewal failed';
comment on column analyst.ordered_periods.cut is
  'Why it ended early: upgraded, family_revoked, refunded_in_part, refunded, revoked (by Google), switched_off (during '
  'grace), ended_by_status (the App Store said so before the end that it stated)';
comment on column analyst.ordered_periods.is_refunded is 'Whether the purchase was refunded in full';
comment on column analyst.ordered_periods.ends_at is
  'Exclusive; grace and refunded periods end when the next period begins';
comment on column analyst.ordered_periods.first_start is 'Start of the subscription''s first period';
comment on column analyst.ordered_periods.previous_end is 'When the access before it ended; null for the first period';
comment on column analyst.ordered_periods.previous_cut is 'Why the previous period ended early';
comment on column analyst.ordered_periods.previous_product_id is 'Product of the previous period';
comment on column analyst.ordered_periods.churned_at is
  'When access ended, if it ended with this period and began again later; null for the last end of access';
comment on column analyst.ordered_periods.price is
  'In thousandths of the currency unit; null in V1';
comment on column analyst.ordered_periods.positions is
  'Positions of the events that reported the transaction, ascending; for grace, of the first one that reported it';
comment on column analyst.ordered_periods.churn_reason is 'Why access ended at churned_at; see movements_detail';
comment on column analyst.ordered_periods.reason_stated is 'Whether the store stated the reason';
comment on column analyst.ordered_periods.movement is
  'What its beginning is to the number of subscriptions: see movements_detail; null if nothing';

-- With the zone as an interval, which is a subtraction; a zone name would be looked up for each row.
create or replace function analyst.day_from(instant timestamptz) returns date
language sql immutable parallel safe as $$
  select ((instant at time zone interval '0') - interval '1 microsecond')::date + 1
$$;

create or replace function analyst.month_of(instant timestamptz) returns date
language sql immutable parallel safe as $$
  select date_trunc('month', instant at time zone interval '0')::date
$$;

create or replace function analyst.months_between(starts_at timestamptz, ends_at timestamptz) returns numeric
language sql immutable parallel safe as $$
  select case when days < 27 then days / 30.4375 else round(days / 30.4375) end
  from (select extract(epoch from ends_at - starts_at) / 86400 as days) as length
$$;

comment on function analyst.day_from is 'First day whose 00:00 UTC is not before an instant';
comment on function analyst.month_of is 'First day of the month of an instant, UTC';
comment on function analyst.months_between is
  'The length of a period in months, in whole ones unless it is shorter than one';

create or replace view analyst.held_periods as
select
  app,
  environment,
  stream_id,
  original_transaction_id,
  transaction_id,
  product_id,
  payer_state,
  cut,
  is_refunded,
  starts_at,
  ends_at,
  analyst.day_from(starts_at) as first_day,
  analyst.day_from(ends_at) - 1 as last_day,
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
-- `is distinct from false` makes the planner expect nearly all rows.
where (starts_at < ends_at) is distinct from false;

comment on view analyst.held_periods is
  'When customers held a subscription, with each instant once: if periods overlap, the one that began first counts, '
  'and grace ends when a paid period begins. A fully refunded period ends at the refund, and one replaced by an '
  'upgrade when the upgrade began. Figures that count subscriptions use this view. Purchases that do not renew are '
  'omitted';
comment on column analyst.held_periods.transaction_id is
  'Transaction that pays for it; for grace, the period whose renewal failed';
comment on column analyst.held_periods.cut is
  'Why it ended early: upgraded, family_revoked, refunded_in_part, refunded, revoked (by Google), switched_off (during '
  'grace), ended_by_status (the App Store said so before the end that it stated)';
comment on column analyst.held_periods.is_refunded is 'Whether the purchase was refunded in full';
comment on column analyst.held_periods.first_start is 'Start of the subscription''s first period';
comment on column analyst.held_periods.price is 'In thousandths of the currency unit; null in V1';
comment on column analyst.held_periods.positions is
  'Positions of the events that reported the transaction, ascending; for grace, of the first one that reported it';

create or replace view analyst.periods as
select
  app,
  environment,
  stream_id,
  original_transaction_id,
  transaction_id,
  product_id,
  payer_state,
  cut,
  starts_at,
  ends_at,
  first_day,
  last_day,
  first_start,
  first_month,
  last_month,
  price,
  currency,
  price_period,
  offer_discount_type,
  offer_period,
  positions
from analyst.held_periods
where not is_refunded;

comment on view analyst.periods is
  'held_periods without the fully refunded ones, which count as never bought: figures of money and of trials use this '
  'view';
comment on column analyst.periods.transaction_id is
  'Transaction that pays for it; for grace, the period whose renewal failed';
comment on column analyst.periods.cut is
  'Why it ended early: upgraded, family_revoked, refunded_in_part, revoked (by Google), switched_off (during grace), '
  'ended_by_status (the App Store said so before the end that it stated)';
comment on column analyst.periods.first_start is 'Start of the subscription''s first period';
comment on column analyst.periods.price is 'In thousandths of the currency unit; null in V1';
comment on column analyst.periods.positions is
  'Positions of the events that reported the transaction, ascending; for grace, of the first one that reported it';

create or replace view analyst.active_subscriptions_detail as
select
  app,
  environment,
  stream_id,
  payer_state,
  product_id,
  original_transaction_id,
  transaction_id,
  starts_at,
  ends_at,
  first_day,
  last_day,
  positions
from analyst.held_periods
where (first_day <= last_day) is distinct from false;

comment on view analyst.active_subscriptions_detail is
  'The period for which a subscription counts in active_subscriptions, on each day from first_day to last_day';
comment on column analyst.active_subscriptions_detail.payer_state is 'paying, trial, grace, family or assigned';
comment on column analyst.active_subscriptions_detail.transaction_id is
  'Transaction that pays for the period; for grace, the one whose renewal failed';

create or replace view analyst.active_subscriptions as
with alike as (
  -- Group periods with the same days first: there are few distinct combinations.
  select stream_id, product_id, payer_state, first_day, last_day, count(*) as subscriptions
  from analyst.active_subscriptions_detail
  group by stream_id, product_id, payer_state, first_day, last_day
), daily as (
  select
    alike.stream_id,
    alike.product_id,
    change.day,
    sum(change.by * alike.subscriptions) filter (where alike.payer_state = 'paying') as paying,
    sum(change.by * alike.subscriptions) filter (where alike.payer_state = 'trial') as in_trial,
    sum(change.by * alike.subscriptions) filter (where alike.payer_state = 'grace') as in_grace,
    sum(change.by * alike.subscriptions) filter (where alike.payer_state in ('family', 'assigned')) as family
  from alike
  cross join lateral (values (alike.first_day, 1), (alike.last_day + 1, -1)) as change (day, by)
  group by alike.stream_id, alike.product_id, change.day
), span as (
  select stream_id, product_id, min(day) as first_day, least(max(day) - 1, (now() at time zone 'UTC')::date) as last_day
  from daily
  group by stream_id, product_id
), filled as (
  -- Add the days without changes.
  select stream_id, product_id, day, paying, in_trial, in_grace, family
  from daily
  union all
  select stream_id, product_id, generate_series(first_day, last_day, interval '1 day')::date, 0, 0, 0, 0
  from span
)
select
  filled.day,
  stream.app,
  stream.environment,
  filled.product_id,
  coalesce(sum(sum(filled.paying)) over running, 0)::bigint as paying,
  coalesce(sum(sum(filled.in_trial)) over running, 0)::bigint as in_trial,
  coalesce(sum(sum(filled.in_grace)) over running, 0)::bigint as in_grace,
  coalesce(sum(sum(filled.family)) over running, 0)::bigint as family
from filled
join subledger.stream using (stream_id)
where filled.day <= (now() at time zone 'UTC')::date
group by filled.stream_id, filled.product_id, filled.day, stream.app, stream.environment
window running as (partition by filled.stream_id, filled.product_id order by filled.day);

comment on view analyst.active_subscriptions is
  'Subscriptions with access at 00:00 UTC of each day up to today, by product; for the number at the end of a month, '
  'use the first day of the next month. A fully refunded period counts until the refund. A missing row means zero. '
  'From active_subscriptions_detail';
comment on column analyst.active_subscriptions.day is 'Counted at 00:00 UTC of this day';
comment on column analyst.active_subscriptions.paying is 'Subscriptions in a period that the customer pays for';
comment on column analyst.active_subscriptions.in_trial is 'Subscriptions in a free trial';
comment on column analyst.active_subscriptions.in_grace is
  'Subscriptions with access after a failed renewal; not paying';
comment on column analyst.active_subscriptions.family is 'Subscriptions of family members and of holders of assigned seats, who do not pay';

create or replace view analyst.movements_detail as
with movement as (
  select
    app,
    environment,
    stream_id,
    product_id,
    movement as kind,
    starts_at as at,
    first_start,
    payer_state,
    null::text as churn_reason,
    null::boolean as reason_stated,
    original_transaction_id,
    transaction_id
  from analyst.ordered_periods
  where movement is not null
  union all
  select
    app, environment, stream_id, product_id, case when payer_state = 'trial' then 'trial_lost' else 'churn' end,
    churned_at, first_start, payer_state, churn_reason, reason_stated, original_transaction_id, transaction_id
  from analyst.ordered_periods
  where churned_at <= now()
  union all
  -- The end of the last period is stored with the subscription, so that the next period does not update its row.
  -- Each part joins the stream: for a join after the union, the planner expects only a few rows.
  select
    stream.app, stream.environment, subscription.stream_id, subscription.last_product_id,
    case when subscription.last_payer_state = 'trial' then 'trial_lost' else 'churn' end,
    subscription.last_ends_at, subscription.first_start, subscription.last_payer_state,
    subscription.last_churn_reason, subscription.last_reason_stated, subscription.original_transaction_id,
    subscription.last_transaction_id
  from subledger.subscription
  join subledger.stream using (stream_id)
  where subscription.last_ends_at <= now()
    and subscription.last_payer_state is not null
)
select
  analyst.month_of(movement.at) as month,
  movement.app,
  movement.environment,
  movement.stream_id,
  movement.product_id,
  movement.kind as movement,
  movement.at,
  analyst.month_of(movement.first_start) as cohort,
  movement.payer_state,
  movement.churn_reason,
  movement.reason_stated,
  movement.original_transaction_id,
  movement.transaction_id,
  transaction.positions
from movement
left join subledger.transaction using (stream_id, original_transaction_id, transaction_id)
where movement.payer_state not in ('family', 'assigned');

comment on view analyst.movements_detail is
  'Changes to subscriptions, of which each has one kind. Access begins with trial_start (the first period, free), new '
  '(the first period, paid), recovered (a failed renewal was charged, or a pause ended, after at most 60 days without '
  'access, or 90 of a commitment that is billed monthly) or '
  'resubscribed (after any other gap). It ends with trial_lost (after a free trial) or churn (after a paid period or '
  'grace). It continues with conversion (the first paid period, directly after a trial) or renewal (any other period '
  'directly after one). Grace is access, and an upgrade is a change of plan. A fully refunded period ends at the '
  'refund. Family members are left out';
comment on column analyst.movements_detail.month is 'First day of the month of at, UTC';
comment on column analyst.movements_detail.product_id is
  'Product of the period that began; for trial_lost and churn, of the one that ended';
comment on column analyst.movements_detail.movement is
  'trial_start, new, conversion, renewal, recovered, resubscribed, trial_lost or churn. V1 does not report whether a '
  'purchase was a renewal: after a failed renewal, it counts as recovered';
comment on column analyst.movements_detail.at is 'When the period began; for trial_lost and churn, when it ended';
comment on column analyst.movements_detail.cohort is 'First day of the month in which the subscription started, UTC';
comment on column analyst.movements_detail.payer_state is 'payer_state of that period: paying, trial or grace';
comment on column analyst.movements_detail.churn_reason is
  'Why it ended: refund, voluntary (auto-renewal switched off), billing (the renewal was not charged), price (a price '
  'increase was not accepted), unavailable (the product was no longer for sale), other (not named by the store), unknown. '
  'Reports that came after access had begun again do not count';
comment on column analyst.movements_detail.reason_stated is
  'Whether the store stated the reason, by a refund or an expiration intent. If not, it is inferred from the renewal in '
  'force when access ended: switched off, or in billing retry';
comment on column analyst.movements_detail.transaction_id is 'Transaction of that period';
comment on column analyst.movements_detail.positions is
  'Positions of the events that reported the transaction; for trial_lost and churn, of the period that ended';

create or replace view analyst.movements as
with counted as (
  select month, stream_id, product_id, movement, count(*) as subscriptions
  from analyst.movements_detail
  group by month, stream_id, product_id, movement
), kinds as (
  select
    month,
    stream_id,
    product_id,
    coalesce(sum(subscriptions) filter (where movement = 'trial_start'), 0)::bigint as trial_starts,
    coalesce(sum(subscriptions) filter (where movement = 'new'), 0)::bigint as new,
    coalesce(sum(subscriptions) filter (where movement = 'recovered'), 0)::bigint as recovered,
    coalesce(sum(subscriptions) filter (where movement = 'resubscribed'), 0)::bigint as resubscribed,
    coalesce(sum(subscriptions) filter (where movement = 'trial_lost'), 0)::bigint as trials_lost,
    coalesce(sum(subscriptions) filter (where movement = 'churn'), 0)::bigint as churned,
    coalesce(sum(subscriptions) filter (where movement = 'conversion'), 0)::bigint as conversions,
    coalesce(sum(subscriptions) filter (where movement = 'renewal'), 0)::bigint as renewals
  from counted
  group by month, stream_id, product_id
)
select
  kinds.month,
  stream.app,
  stream.environment,
  kinds.product_id,
  kinds.trial_starts,
  kinds.new,
  kinds.recovered,
  kinds.resubscribed,
  kinds.trials_lost,
  kinds.churned,
  kinds.trial_starts + kinds.new + kinds.recovered + kinds.resubscribed - kinds.trials_lost - kinds.churned as net,
  kinds.conversions,
  kinds.renewals
from kinds
join subledger.stream using (stream_id);

comment on view analyst.movements is
  'How subscriptions began, ended and continued in each month, by product. From movements_detail';
comment on column analyst.movements.product_id is
  'Product of the periods that began; for trials_lost and churned, of those that ended';
comment on column analyst.movements.trial_starts is 'Subscriptions that began with a free trial';
comment on column analyst.movements.new is 'Subscriptions that began with a paid period';
comment on column analyst.movements.recovered is
  'Subscriptions that began again because a failed renewal was charged or a pause ended, after at most 60 days without '
  'access, or 90 of a commitment that is billed monthly';
comment on column analyst.movements.resubscribed is 'Subscriptions that began again after any other gap';
comment on column analyst.movements.trials_lost is 'Subscriptions whose access ended after a free trial';
comment on column analyst.movements.churned is 'Subscriptions whose access ended after a paid period or grace';
comment on column analyst.movements.net is
  'Change in the number of subscriptions with access: trial_starts, new, recovered and resubscribed less trials_lost '
  'and churned. Changes of plan '
  'are not included, so it explains the change of all products together, not of one';
comment on column analyst.movements.conversions is 'First paid periods directly after a trial';
comment on column analyst.movements.renewals is 'Other periods directly after one, except upgrades';

create or replace view analyst.churn_rate_detail as
select
  month,
  app,
  environment,
  stream_id,
  product_id,
  at,
  case
    when churn_reason in ('voluntary', 'price') then 'voluntary'
    when churn_reason = 'billing' then 'involuntary'
    else 'other'
  end as cause,
  churn_reason,
  reason_stated,
  original_transaction_id,
  transaction_id,
  positions
from analyst.movements_detail
where movement = 'churn';

comment on view analyst.churn_rate_detail is
  'Every end of access to a subscription that was paying or in grace, with its cause: voluntary (auto-renewal switched '
  'off, or a price increase not accepted), involuntary (the renewal was not charged), other';
comment on column analyst.churn_rate_detail.month is 'First day of the month of at, UTC';
comment on column analyst.churn_rate_detail.product_id is 'Product of the period that ended';
comment on column analyst.churn_rate_detail.at is 'When access ended';
comment on column analyst.churn_rate_detail.cause is 'voluntary, involuntary or other';
comment on column analyst.churn_rate_detail.churn_reason is 'See movements_detail';
comment on column analyst.churn_rate_detail.reason_stated is 'Whether the store stated the reason; if not, it is inferred';
comment on column analyst.churn_rate_detail.transaction_id is 'Transaction of the period that ended';

create or replace view analyst.churn_rate as
with opening as (
  select day as month, app, environment, product_id, paying + in_grace as subscriptions
  from analyst.active_subscriptions
  where extract(day from day) = 1
    and paying + in_grace > 0
), counted as (
  select
    month,
    stream_id,
    product_id,
    count(*) as churned,
    count(*) filter (where cause = 'voluntary') as voluntary,
    count(*) filter (where cause = 'involuntary') as involuntary
  from analyst.churn_rate_detail
  group by month, stream_id, product_id
), ended as (
  select
    counted.month, stream.app, stream.environment, counted.product_id, counted.churned, counted.voluntary,
    counted.involuntary
  from counted
  join subledger.stream using (stream_id)
)
select
  month,
  app,
  environment,
  product_id,
  coalesce(opening.subscriptions, 0) as subscriptions,
  coalesce(ended.churned, 0) as churned,
  coalesce(ended.voluntary, 0) as voluntary,
  coalesce(ended.involuntary, 0) as involuntary,
  round(100.0 * coalesce(ended.churned, 0) / opening.subscriptions, 1) as churn_percent,
  round(100.0 * coalesce(ended.voluntary, 0) / opening.subscriptions, 1) as voluntary_percent,
  round(100.0 * coalesce(ended.involuntary, 0) / opening.subscriptions, 1) as involuntary_percent
from opening
full join ended using (month, app, environment, product_id);

comment on view analyst.churn_rate is
  'Subscriptions that ended in each month, as a share of those that were paying or in grace at its start, by product. '
  'Trials are not included. A subscription that began in the month can end in it, so the share can exceed 100 percent, '
  'above all for weekly plans. From active_subscriptions and churn_rate_detail';
comment on column analyst.churn_rate.product_id is 'The product; of those that ended, the last one';
comment on column analyst.churn_rate.subscriptions is
  'Subscriptions paying or in grace at 00:00 UTC of the first day of the month';
comment on column analyst.churn_rate.churned is 'Subscriptions whose access ended in the month, after payment or grace';
comment on column analyst.churn_rate.voluntary is
  'Of these, those whose customer switched auto-renewal off or did not accept a price increase';
comment on column analyst.churn_rate.involuntary is 'Of these, those whose renewal was not charged';
comment on column analyst.churn_rate.churn_percent is
  'churned as a percentage of subscriptions; null if there were none. For several products, divide the sums';
comment on column analyst.churn_rate.voluntary_percent is 'voluntary as a percentage of subscriptions';
comment on column analyst.churn_rate.involuntary_percent is 'involuntary as a percentage of subscriptions';

create or replace view analyst.customers as
select
  stream.app,
  stream.environment,
  ownership.stream_id,
  ownership.customer_kind,
  ownership.customer_id,
  ownership.original_transaction_id,
  ownership.starts_at,
  ownership.ends_at,
  ownership.reason,
  ownership.position
from subledger.ownership
join subledger.stream using (stream_id);

comment on view analyst.customers is
  'Customers with their subscriptions and one-time purchases: one row for each interval in which a subscription '
  'belongs to a customer. Under the policy shared, several customers can own a subscription at the same time. A '
  'customer is identified by app, environment, customer_kind and customer_id';
comment on column analyst.customers.customer_kind is
  'link: a customer of the backend; account: an app user that no backend has linked; subscription: a store account '
  'whose app user is not known';
comment on column analyst.customers.customer_id is
  'The backend''s own id, the appAccountToken, or the smallest original_transaction_id of the store account';
comment on column analyst.customers.starts_at is 'Inclusive; -infinity for the first owner';
comment on column analyst.customers.ends_at is 'Exclusive; infinity for the current owner';
comment on column analyst.customers.reason is
  'What makes the customer the owner: link, account, store_account; unclaimed if no app user is known. seat: the customer has '
  'a seat of the subscription and does not own it; figures of customers and money do not count it';
comment on column analyst.customers.position is
  'Position of the first event that reported the reason; null if unclaimed';

create or replace view analyst.grants as
with statement as (
  select
    transaction.stream_id,
    transaction.transaction_id,
    event.position,
    event.received_at,
    event.source,
    event.kind,
    event.facts #> '{transactions,0,additional,grant}' as stated
  from subledger.transaction
  join subledger.event
    on event.stream_id = transaction.stream_id
    and event.position = any (transaction.positions)
  where transaction.in_app_ownership_type = 'GRANTED'
),
grants as (
  select
    stream_id,
    transaction_id,
    min(received_at) filter (where kind = 'grant') as given_at,
    min(position) filter (where kind = 'grant') as position,
    (array_agg(stated order by received_at desc, position desc) filter (where kind = 'grant'))[1] as given,
    (array_agg(source order by received_at desc, position desc) filter (where kind = 'grant'))[1] as source,
    (array_agg(stated order by received_at desc, position desc))[1] as last,
    (array_agg(kind order by received_at desc, position desc))[1] as last_kind,
    max(received_at) as changed_at
  from statement
  group by stream_id, transaction_id
)
select
  stream.app,
  stream.environment,
  grants.last ->> 'id' as grant_id,
  grants.last ->> 'customerId' as customer_id,
  grants.last ->> 'entitlement' as entitlement,
  (grants.last ->> 'from')::timestamptz as starts_at,
  (grants.last ->> 'until')::timestamptz as ends_at,
  grants.given_at,
  grants.given ->> 'by' as given_by,
  grants.source,
  grants.given ->> 'reason' as reason,
  case when grants.last_kind = 'grant_revoked' then grants.changed_at end as revoked_at,
  case when grants.last_kind = 'grant_revoked' then grants.last ->> 'by' end as revoked_by,
  case when grants.last_kind = 'grant_revoked' then grants.last ->> 'reason' end as revoked_because,
  grants.position
from grants
join subledger.stream using (stream_id);

comment on view analyst.grants is
  'Access that was given by hand, one row for each grant as it stands now. Nobody pays for it, so no figure counts it';
comment on column analyst.grants.environment is 'production, sandbox, xcode or local';
comment on column analyst.grants.grant_id is 'Chosen by the one who gave it; unique in the app and environment';
comment on column analyst.grants.customer_id is 'The backend''s own id of the customer';
comment on column analyst.grants.entitlement is 'What the customer got';
comment on column analyst.grants.starts_at is 'Inclusive';
comment on column analyst.grants.ends_at is 'Exclusive; null without an end. Of a grant that was taken back, when it was';
comment on column analyst.grants.given_at is 'When that was received, by our clock';
comment on column analyst.grants.given_by is
  'Who gave it, or changed it last before it was taken back; null if the backend did not say';
comment on column analyst.grants.source is 'operator for a person, in the console or by command; backend for a request of the API';
comment on column analyst.grants.reason is 'Why, in the words of the one who gave it';
comment on column analyst.grants.revoked_at is 'When it was taken back, by our clock; null if it was not';
comment on column analyst.grants.revoked_by is 'Who took it back; null if it was not, or the backend did not say';
comment on column analyst.grants.revoked_because is 'Why it was taken back; null if it was not';
comment on column analyst.grants.position is
  'Position of the event that states it: a later statement about the grant replaces an earlier one';

create or replace view analyst.customer_periods as
with held as (
  -- Like held_periods. Each part joins the ownership: for a join after the union, the planner expects only a few rows.
  select
    stream.app, stream.environment, ownership.stream_id, ownership.customer_kind, ownership.customer_id,
    ownership.original_transaction_id, access_period.transaction_id, access_period.payer_state,
    greatest(coalesce(access_period.effective_start, access_period.starts_at), ownership.starts_at) as starts_at,
    least(coalesce(access_period.effective_end, access_period.ends_at), ownership.ends_at) as ends_at
  from subledger.access_period
  join subledger.ownership using (stream_id, original_transaction_id)
  join subledger.stream using (stream_id)
  where access_period.payer_state not in ('family', 'assigned', 'granted')
    and ownership.reason <> 'seat'
  union all
  select
    stream.app, stream.environment, ownership.stream_id, ownership.customer_kind, ownership.customer_id,
    ownership.original_transaction_id, refunded_period.transaction_id, refunded_period.payer_state,
    greatest(coalesce(refunded_period.effective_start, refunded_period.starts_at), ownership.starts_at),
    least(coalesce(refunded_period.effective_end, refunded_period.ends_at), ownership.ends_at)
  from subledger.refunded_period
  join subledger.ownership using (stream_id, original_transaction_id)
  join subledger.stream using (stream_id)
  where ownership.reason <> 'seat'
)
select
  app,
  environment,
  stream_id,
  customer_kind,
  customer_id,
  original_transaction_id,
  transaction_id,
  payer_state,
  starts_at,
  ends_at,
  max(ends_at) over earlier as held_until,
  max(ends_at) filter (where payer_state <> 'trial') over earlier as past_trial_until,
  max(ends_at) filter (where payer_state = 'paying') over earlier as paying_until
from held
-- `is distinct from false` makes the planner expect nearly all rows.
where (starts_at < ends_at) is distinct from false
-- By the id first: it tells most customers apart, so that a sort compares little else.
window earlier as (
  partition by customer_id, customer_kind, stream_id
  order by starts_at
  rows between unbounded preceding and 1 preceding
);

comment on view analyst.customer_periods is
  'When a customer held a subscription: held_periods, as far as the subscription belonged to the customer. The periods '
  'of a customer with several subscriptions overlap. The last three columns say until when the customer''s earlier '
  'periods lasted, so that each instant can be counted once. Family members are left out';
comment on column analyst.customer_periods.transaction_id is
  'Transaction that pays for it; for grace, the period whose renewal failed';
comment on column analyst.customer_periods.payer_state is 'paying, grace or trial';
comment on column analyst.customer_periods.held_until is
  'Latest end of the customer''s periods that began before it; null for the first one';
comment on column analyst.customer_periods.past_trial_until is 'The same, of those that are paying or grace';
comment on column analyst.customer_periods.paying_until is 'The same, of those that are paying';

create or replace view analyst.active_customers as
with part as (
  -- A period adds the days after those of the periods before it. With infinity, it adds none.
  select
    stream_id,
    analyst.day_from(starts_at) as first_day,
    analyst.day_from(ends_at) as end_day,
    analyst.day_from(held_until) as held_until,
    case when payer_state = 'trial' then 'infinity' else analyst.day_from(past_trial_until) end as past_trial_until,
    case when payer_state = 'paying' then analyst.day_from(paying_until) else 'infinity' end as paying_until,
    count(*) as customers
  from analyst.customer_periods
  group by 1, 2, 3, 4, 5, 6
), daily as (
  select
    part.stream_id,
    change.day,
    sum(change.by * part.customers) filter (where change.state = 'held') as held,
    sum(change.by * part.customers) filter (where change.state = 'past_trial') as past_trial,
    sum(change.by * part.customers) filter (where change.state = 'paying') as paying
  from part
  cross join lateral (
    values
      ('held', greatest(part.first_day, part.held_until), 1),
      ('held', greatest(part.end_day, part.held_until), -1),
      ('past_trial', greatest(part.first_day, part.past_trial_until), 1),
      ('past_trial', greatest(part.end_day, part.past_trial_until), -1),
      ('paying', greatest(part.first_day, part.paying_until), 1),
      ('paying', greatest(part.end_day, part.paying_until), -1)
  ) as change (state, day, by)
  group by part.stream_id, change.day
), filled as (
  -- Add the days without changes.
  select stream_id, day, held, past_trial, paying
  from daily
  union all
  select stream_id, generate_series(min(day), (now() at time zone 'UTC')::date, interval '1 day')::date, 0, 0, 0
  from daily
  group by stream_id
), counted as (
  select
    stream_id,
    day,
    coalesce(sum(sum(held)) over running, 0)::bigint as held,
    coalesce(sum(sum(past_trial)) over running, 0)::bigint as past_trial,
    coalesce(sum(sum(paying)) over running, 0)::bigint as paying
  from filled
  where day <= (now() at time zone 'UTC')::date
  group by stream_id, day
  window running as (partition by stream_id order by day)
)
select
  counted.day,
  stream.app,
  stream.environment,
  counted.paying,
  counted.held - counted.past_trial as in_trial,
  counted.past_trial - counted.paying as in_grace
from counted
join subledger.stream using (stream_id);

comment on view analyst.active_customers is
  'Customers with access at 00:00 UTC of each day up to today. A customer counts once, however many subscriptions it '
  'holds: as paying if any of them is, else in grace if any is, else in trial. Family members are left out. A missing '
  'row means zero. From customer_periods';
comment on column analyst.active_customers.day is 'Counted at 00:00 UTC of this day';
comment on column analyst.active_customers.paying is 'Customers who pay for at least one subscription';
comment on column analyst.active_customers.in_trial is 'Customers with free trials only';
comment on column analyst.active_customers.in_grace is
  'Customers with access after a failed renewal, who do not pay for another subscription';

create or replace view analyst.customer_movements_detail as
with stretch as (
  -- Periods of a customer that overlap or follow each other without a gap are one stretch of access.
  select
    stream_id,
    customer_kind,
    customer_id,
    number,
    min(starts_at) as starts_at,
    max(ends_at) as ends_at,
    bool_or(payer_state <> 'trial') as has_paid
  from (
    select
      stream_id, customer_kind, customer_id, payer_state, starts_at, ends_at,
      count(*) filter (where (held_until < starts_at) is not false) over (
        partition by customer_id, customer_kind, stream_id order by starts_at
      ) as number
    from analyst.customer_periods
  ) as numbered
  group by stream_id, customer_kind, customer_id, number
), ended as (
  -- The ends of subscriptions, with the customer to whom each belonged until then; one at a time.
  select distinct on (stream_id, ownership.customer_kind, ownership.customer_id, movements_detail.at)
    stream_id,
    ownership.customer_kind,
    ownership.customer_id,
    movements_detail.at,
    movements_detail.movement,
    movements_detail.churn_reason,
    movements_detail.reason_stated
  from analyst.movements_detail
  join subledger.ownership using (stream_id, original_transaction_id)
  where movements_detail.movement in ('churn', 'trial_lost')
    and ownership.starts_at < movements_detail.at
    and ownership.ends_at >= movements_detail.at
    and ownership.reason <> 'seat'
  order by
    stream_id, ownership.customer_kind, ownership.customer_id, movements_detail.at, movements_detail.movement,
    movements_detail.churn_reason = 'unknown', movements_detail.churn_reason, movements_detail.reason_stated
), movement as (
  select
    stream_id, customer_kind, customer_id, case when number = 1 then 'new' else 'returned' end as movement,
    starts_at as at, null::text as churn_reason, null::boolean as reason_stated
  from stretch
  union all
  select
    stream_id,
    customer_kind,
    customer_id,
    case
      when stretch.has_paid then 'churn'
      when stretch.has_paid is not null then 'trial_lost'
      else 'contraction'
    end,
    at,
    case when ended.at is null then 'transferred' else ended.churn_reason end,
    ended.reason_stated
  from (
    select stream_id, customer_kind, customer_id, ends_at as at, has_paid
    from stretch
  ) as stretch
  full join ended using (stream_id, customer_kind, customer_id, at)
  where stretch.has_paid is not null
    or ended.movement = 'churn'
)
select
  analyst.month_of(movement.at) as month,
  stream.app,
  stream.environment,
  movement.stream_id,
  movement.customer_kind,
  movement.customer_id,
  movement.movement,
  movement.at,
  movement.churn_reason,
  movement.reason_stated
from movement
join subledger.stream using (stream_id)
where movement.at <= now();

comment on view analyst.customer_movements_detail is
  'Changes to customers. Access begins with new (the first time) or returned. It ends when the customer''s last '
  'subscription ends or goes to another customer: with trial_lost if the customer only had free trials since it began, '
  'else with churn. If the customer still holds another subscription, the end of one after a paid period or grace is a '
  'contraction. Family members are left out. From customer_periods and movements_detail';
comment on column analyst.customer_movements_detail.month is 'First day of the month of at, UTC';
comment on column analyst.customer_movements_detail.movement is 'new, returned, contraction, churn or trial_lost';
comment on column analyst.customer_movements_detail.at is
  'When access began or ended; for contraction, when a subscription ended';
comment on column analyst.customer_movements_detail.churn_reason is
  'Why the subscription ended, see movements_detail; transferred if it went to another customer, whose access then '
  'begins. If several ended at the same time, the reason of one: after a paid period rather than a trial, and known '
  'rather than unknown';
comment on column analyst.customer_movements_detail.reason_stated is
  'Whether the store stated the reason; if not, it is inferred. Null if transferred';

create or replace view analyst.customer_movements as
with counted as (
  select month, stream_id, movement, count(*) as customers
  from analyst.customer_movements_detail
  group by month, stream_id, movement
), kinds as (
  select
    month,
    stream_id,
    coalesce(sum(customers) filter (where movement = 'new'), 0)::bigint as new,
    coalesce(sum(customers) filter (where movement = 'returned'), 0)::bigint as returned,
    coalesce(sum(customers) filter (where movement = 'trial_lost'), 0)::bigint as trials_lost,
    coalesce(sum(customers) filter (where movement = 'churn'), 0)::bigint as churned,
    coalesce(sum(customers) filter (where movement = 'contraction'), 0)::bigint as contracted
  from counted
  group by month, stream_id
)
select
  kinds.month,
  stream.app,
  stream.environment,
  kinds.new,
  kinds.returned,
  kinds.trials_lost,
  kinds.churned,
  kinds.new + kinds.returned - kinds.trials_lost - kinds.churned as net,
  kinds.contracted
from kinds
join subledger.stream using (stream_id);

comment on view analyst.customer_movements is
  'How many customers gained and lost access in each month. The customers at the start of a month, with net, are those '
  'at its end. From customer_movements_detail';
comment on column analyst.customer_movements.new is 'Customers who had access for the first time, trials included';
comment on column analyst.customer_movements.returned is 'Customers who had access again after a time without';
comment on column analyst.customer_movements.trials_lost is 'Customers whose access ended after free trials only';
comment on column analyst.customer_movements.churned is
  'Customers whose last subscription ended, after a paid period or grace, or went to another customer';
comment on column analyst.customer_movements.net is
  'Change in the number of customers with access: new and returned less trials_lost and churned';
comment on column analyst.customer_movements.contracted is
  'Times that a subscription ended, after a paid period or grace, while its customer held another';

create or replace view analyst.customer_churn_rate as
with opening as (
  select day as month, app, environment, paying + in_grace as customers
  from analyst.active_customers
  where extract(day from day) = 1
    and paying + in_grace > 0
), counted as (
  select
    month,
    stream_id,
    count(*) as churned,
    count(*) filter (where churn_reason in ('voluntary', 'price')) as voluntary,
    count(*) filter (where churn_reason = 'billing') as involuntary
  from analyst.customer_movements_detail
  where movement = 'churn'
  group by month, stream_id
), ended as (
  select counted.month, stream.app, stream.environment, counted.churned, counted.voluntary, counted.involuntary
  from counted
  join subledger.stream using (stream_id)
)
select
  month,
  app,
  environment,
  coalesce(opening.customers, 0) as customers,
  coalesce(ended.churned, 0) as churned,
  coalesce(ended.voluntary, 0) as voluntary,
  coalesce(ended.involuntary, 0) as involuntary,
  round(100.0 * coalesce(ended.churned, 0) / opening.customers, 1) as churn_percent,
  round(100.0 * coalesce(ended.voluntary, 0) / opening.customers, 1) as voluntary_percent,
  round(100.0 * coalesce(ended.involuntary, 0) / opening.customers, 1) as involuntary_percent
from opening
full join ended using (month, app, environment);

comment on view analyst.customer_churn_rate is
  'Customers whose last subscription ended in each month, as a share of those who were paying or in grace at its '
  'start. Trials are not included. The rate of subscriptions is churn_rate. From active_customers and '
  'customer_movements_detail';
comment on column analyst.customer_churn_rate.customers is
  'Customers paying or in grace at 00:00 UTC of the first day of the month';
comment on column analyst.customer_churn_rate.churned is 'See customer_movements';
comment on column analyst.customer_churn_rate.voluntary is
  'Of these, those who switched auto-renewal off or did not accept a price increase';
comment on column analyst.customer_churn_rate.involuntary is 'Of these, those whose renewal was not charged';
comment on column analyst.customer_churn_rate.churn_percent is
  'churned as a percentage of customers; null if there were none';
comment on column analyst.customer_churn_rate.voluntary_percent is 'voluntary as a percentage of customers';
comment on column analyst.customer_churn_rate.involuntary_percent is 'involuntary as a percentage of customers';

create or replace function analyst.price_months(price_period text, plan_months numeric) returns numeric
language sql immutable parallel safe as $$
  select
    case
      when price_period ~ '^P[1-9][0-9]?[DWMY]$' then
        substr(price_period, 2, length(price_period) - 2)::numeric
          * case right(price_period, 1)
            when 'D' then 12 / 365.0
            when 'W' then 12 / 52.0
            when 'M' then 1
            else 12
          end
      else plan_months
    end
$$;

create or replace function analyst.monthly_price(price bigint, months numeric) returns numeric
language sql immutable parallel safe as $$
  select round(round(price / months, 6)) / 1000
$$;

comment on function analyst.price_months is
  'Number of months that a price covers: the offer''s if it was paid up front, 1 if a year is billed '
  'monthly, and the plan''s if neither';
comment on function analyst.monthly_price is
  'A price, in thousandths, per month: in the currency unit, rounded to thousandths';

create or replace view analyst.mrr_detail as
select
  periods.app,
  periods.environment,
  periods.stream_id,
  periods.currency,
  periods.product_id,
  periods.original_transaction_id,
  periods.transaction_id,
  round(periods.price / 1000.0, 3) as price,
  analyst.price_months(periods.price_period, plans.months) as months,
  analyst.monthly_price(periods.price, analyst.price_months(periods.price_period, plans.months)) as mrr,
  periods.first_day,
  periods.last_day,
  periods.positions,
  analyst.store(periods.original_transaction_id) as store,
  analyst.country(bought.storefront) as country,
  plans.length,
  bought.offer_type,
  analyst.offer_identifier(bought.offer_identifier, bought.promotional_offer_id, bought.offer_code_ref_name)
    as offer_identifier
from analyst.periods
left join analyst.plans
  on plans.stream_id = periods.stream_id
  and plans.product_id = periods.product_id
-- By key, so that the planner removes it if a query uses none of its columns.
left join subledger.transaction as bought
  on bought.stream_id = periods.stream_id
  and bought.original_transaction_id = periods.original_transaction_id
  and bought.transaction_id = periods.transaction_id
where periods.payer_state = 'paying'
  and (periods.first_day <= periods.last_day) is distinct from false
  and not exists (
    -- Of the purchases of Google Play that show one order, one counts.
    select
    from subledger.transaction as other
    where other.stream_id = periods.stream_id
      and other.transaction_id = periods.transaction_id
      and other.original_transaction_id < periods.original_transaction_id
      and analyst.store(other.original_transaction_id) = 'google'
  );

comment on view analyst.mrr_detail is
  'Monthly value of a paid period, on each day from first_day to last_day. Trials, grace and family members are left '
  'out, and so are orders of Google Play that another purchase shows. mrr is null if the price is unknown (V1) or the '
  'length of the plan is (short periods of the sandbox)';
comment on column analyst.mrr_detail.price is 'Price of the period, in the currency unit; null in V1';
comment on column analyst.mrr_detail.months is
  'Number of months that the price covers: the offer''s if it was paid up front, 1 if a year is billed '
  'monthly, and the plan''s if neither';
comment on column analyst.mrr_detail.mrr is 'price divided by months, rounded to thousandths';

create or replace view analyst.plan_mix as
with alike as (
  -- Group periods with the same days and price first: there are few distinct combinations.
  select
    periods.stream_id,
    analyst.store(periods.original_transaction_id) as store,
    periods.product_id,
    bought.storefront,
    periods.currency,
    bought.offer_type,
    periods.price,
    periods.price_period,
    periods.first_day,
    periods.last_day,
    count(*) as subscriptions
  from analyst.periods
  left join subledger.transaction as bought
    on bought.stream_id = periods.stream_id
    and bought.original_transaction_id = periods.original_transaction_id
    and bought.transaction_id = periods.transaction_id
  where periods.payer_state = 'paying'
    and (periods.first_day <= periods.last_day) is distinct from false
    and not exists (
      -- Of the purchases of Google Play that show one order, one counts.
      select
      from subledger.transaction as other
      where other.stream_id = periods.stream_id
        and other.transaction_id = periods.transaction_id
        and other.original_transaction_id < periods.original_transaction_id
        and analyst.store(other.original_transaction_id) = 'google'
    )
  group by
    periods.stream_id, analyst.store(periods.original_transaction_id), periods.product_id, bought.storefront,
    periods.currency, bought.offer_type, periods.price, periods.price_period, periods.first_day, periods.last_day
), held as (
  select
    alike.stream_id, alike.store, alike.product_id, plans.length, analyst.country(alike.storefront) as country,
    alike.currency, alike.offer_type, at.day, alike.subscriptions, monthly.price
  from alike
  left join analyst.plans
    on plans.stream_id = alike.stream_id
    and plans.product_id = alike.product_id
  cross join lateral analyst.monthly_price(
    alike.price, analyst.price_months(alike.price_period, plans.months)
  ) as monthly (price)
  cross join lateral (
    select first_of_month::date as day
    from generate_series(
      date_trunc('month', (alike.first_day - 1)::timestamp) + interval '1 month',
      least(alike.last_day, (now() at time zone 'UTC')::date)::timestamp, interval '1 month'
    ) as first_of_month
    union
    select (now() at time zone 'UTC')::date
    where (now() at time zone 'UTC')::date between alike.first_day and alike.last_day
  ) as at
)
select
  held.day,
  stream.app,
  stream.environment,
  held.store,
  held.product_id,
  held.length,
  held.country,
  held.currency,
  held.offer_type,
  coalesce(sum(held.subscriptions) filter (where held.price is not null), 0)::bigint as subscriptions,
  coalesce(round(sum(held.subscriptions * held.price), 3), 0) as mrr,
  coalesce(sum(held.subscriptions) filter (where held.price is null), 0)::bigint as unpriced
from held
join subledger.stream using (stream_id)
group by
  held.day, stream.app, stream.environment, held.store, held.product_id, held.length, held.country, held.currency,
  held.offer_type;

comment on view analyst.plan_mix is
  'Paying subscriptions and their monthly value at 00:00 UTC of the first day of each month, and of today, by product, '
  'length, country, currency and offer. From mrr_detail; mrr has each day';
comment on column analyst.plan_mix.day is 'The first of a month, or today';
comment on column analyst.plan_mix.subscriptions is 'Paying subscriptions whose price and plan length are known';
comment on column analyst.plan_mix.mrr is 'Their monthly value, in the currency unit, before the share of the store';
comment on column analyst.plan_mix.unpriced is 'Paying subscriptions that are not included in mrr';

create or replace view analyst.mrr as
with alike as (
  -- Group periods with the same days and price first: there are few distinct combinations.
  select
    periods.stream_id,
    periods.currency,
    periods.first_day,
    periods.last_day,
    periods.subscriptions,
    case when monthly.price is not null then periods.subscriptions else 0 end as priced,
    periods.subscriptions * monthly.price as mrr
  from (
    select stream_id, product_id, currency, price, price_period, first_day, last_day, count(*) as subscriptions
    from analyst.periods
    where payer_state = 'paying'
      and (first_day <= last_day) is distinct from false
      and not exists (
        -- Of the purchases of Google Play that show one order, one counts.
        select
        from subledger.transaction as other
        where other.stream_id = periods.stream_id
          and other.transaction_id = periods.transaction_id
          and other.original_transaction_id < periods.original_transaction_id
          and analyst.store(other.original_transaction_id) = 'google'
      )
    group by stream_id, product_id, currency, price, price_period, first_day, last_day
  ) as periods
  left join analyst.plans
    on plans.stream_id = periods.stream_id
    and plans.product_id = periods.product_id
  cross join lateral analyst.monthly_price(
    periods.price, analyst.price_months(periods.price_period, plans.months)
  ) as monthly (price)
), daily as (
  select
    alike.stream_id,
    alike.currency,
    change.day,
    sum(change.by * alike.subscriptions) as subscriptions,
    sum(change.by * alike.priced) as priced,
    sum(change.by * alike.mrr) as mrr
  from alike
  cross join lateral (values (alike.first_day, 1), (alike.last_day + 1, -1)) as change (day, by)
  group by alike.stream_id, alike.currency, change.day
), span as (
  select stream_id, currency, min(day) as first_day, least(max(day) - 1, (now() at time zone 'UTC')::date) as last_day
  from daily
  group by stream_id, currency
), filled as (
  -- Add the days without changes.
  select stream_id, currency, day, subscriptions, priced, mrr
  from daily
  union all
  select stream_id, currency, generate_series(first_day, last_day, interval '1 day')::date, 0, 0, 0
  from span
)
select
  filled.day,
  stream.app,
  stream.environment,
  filled.currency,
  coalesce(sum(sum(filled.priced)) over running, 0)::bigint as subscriptions,
  coalesce(sum(sum(filled.mrr)) over running, 0)::numeric(20, 3) as mrr,
  (coalesce(sum(sum(filled.subscriptions)) over running, 0) - coalesce(sum(sum(filled.priced)) over running, 0))::bigint
    as unpriced
from filled
join subledger.stream using (stream_id)
where filled.day <= (now() at time zone 'UTC')::date
group by filled.stream_id, filled.currency, filled.day, stream.app, stream.environment
window running as (partition by filled.stream_id, filled.currency order by filled.day);

comment on view analyst.mrr is
  'Monthly recurring revenue by currency at 00:00 UTC of each day up to today. A missing row means zero. From '
  'mrr_detail';
comment on column analyst.mrr.day is 'Counted at 00:00 UTC of this day';
comment on column analyst.mrr.currency is 'ISO 4217; null if only V1 reported the purchase, without a price';
comment on column analyst.mrr.subscriptions is 'Paying subscriptions whose price and plan length are known';
comment on column analyst.mrr.mrr is 'Their monthly value, in the currency unit, before Apple''s share';
comment on column analyst.mrr.unpriced is 'Paying subscriptions that are not included in mrr';

create or replace function analyst.retry_length(billing_plan_type text) returns interval
language sql immutable parallel safe as $$
  select case when billing_plan_type = 'MONTHLY' then interval '90 days' else interval '60 days' end
$$;

comment on function analyst.retry_length is
  'How long the store retries a failed renewal: longer for a commitment of twelve months that is billed monthly';

create or replace view analyst.trials_detail as
select
  analyst.month_of(trial.starts_at) as month,
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
    when subscription.in_billing_retry
      and trial.ends_at + analyst.retry_length(bought.billing_plan_type) > now() then 'retried'
    else 'lost'
  end as outcome,
  converted.starts_at as converted_at,
  trial.positions || coalesce(converted.positions, '{}') as positions
from analyst.periods as trial
left join subledger.subscription using (stream_id, original_transaction_id)
left join subledger.transaction as bought
  on bought.stream_id = trial.stream_id
  and bought.original_transaction_id = trial.original_transaction_id
  and bought.transaction_id = trial.transaction_id
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
where trial.payer_state = 'trial';

comment on view analyst.trials_detail is
  'Every free trial, and whether a paid period followed, immediately or later. A paid period that was refunded in '
  'full does not count';
comment on column analyst.trials_detail.month is 'First day of the month in which the trial began, UTC';
comment on column analyst.trials_detail.product_id is 'The product on trial';
comment on column analyst.trials_detail.transaction_id is 'Transaction of the trial';
comment on column analyst.trials_detail.outcome is
  'converted, running, retried (Apple is still retrying the charge), or lost';
comment on column analyst.trials_detail.converted_at is 'Start of the first paid period after it';
comment on column analyst.trials_detail.positions is
  'Positions of the events that reported the trial and the paid period after it';

create or replace view analyst.trials as
select
  trials_detail.month,
  trials_detail.app,
  trials_detail.environment,
  trials_detail.product_id,
  count(*) as trials,
  count(*) filter (where trials_detail.outcome = 'converted') as converted,
  count(*) filter (where trials_detail.outcome = 'lost') as lost,
  count(*) filter (where trials_detail.outcome in ('running', 'retried')) as undecided,
  round(
    100.0 * count(*) filter (where trials_detail.outcome = 'converted')
      / nullif(count(*) filter (where trials_detail.outcome in ('converted', 'lost')), 0),
    1
  ) as conversion_percent
from analyst.trials_detail
group by trials_detail.month, trials_detail.app, trials_detail.environment, trials_detail.product_id;

comment on view analyst.trials is
  'Free trials of subscriptions by the month of their start, and their outcomes. From trials_detail';
comment on column analyst.trials.month is 'First day of the month in which the trial began, UTC';
comment on column analyst.trials.product_id is 'The product on trial';
comment on column analyst.trials.trials is 'Trials that began';
comment on column analyst.trials.converted is 'Trials followed by a paid period';
comment on column analyst.trials.lost is 'Trials that ended without a paid period';
comment on column analyst.trials.undecided is 'Trials that are running, or whose charge Apple is still retrying';
comment on column analyst.trials.conversion_percent is
  'Percentage of the decided trials that converted; null if none is decided';

-- Without a subquery, so that the planner can inline the function.
create or replace function analyst.calendar_months(earlier timestamp, later timestamp) returns integer
language sql immutable parallel safe as $$
  select (
    (date_part('year', later) - date_part('year', earlier)) * 12
      + date_part('month', later) - date_part('month', earlier)
  )::integer
$$;

create or replace function analyst.months_since(first_start timestamptz, until timestamptz) returns integer
language sql immutable parallel safe as $$
  select
    analyst.calendar_months(first_start at time zone interval '0', until at time zone interval '0')
      - (
        (first_start at time zone interval '0')
          + make_interval(
            months => analyst.calendar_months(first_start at time zone interval '0', until at time zone interval '0')
          )
          >= until at time zone interval '0'
      )::integer
$$;

comment on function analyst.calendar_months is 'Number of calendar months between two times';
comment on function analyst.months_since is
  'Last monthly anniversary of an instant, at its time of day in UTC, that is before another instant';

create or replace view analyst.retention_detail as
select
  analyst.month_of(periods.first_start) as cohort,
  periods.app,
  periods.environment,
  periods.original_transaction_id,
  periods.transaction_id,
  periods.first_month,
  -- The anniversaries of an ended period are all in the past. Testing for that first avoids the count for them.
  case when periods.ends_at <= now() then periods.last_month else least(periods.last_month, reached.months) end
    as last_month,
  reached.months as months_reached,
  periods.positions
from analyst.held_periods as periods
cross join lateral (select analyst.months_since(periods.first_start, now())) as reached (months)
where periods.payer_state not in ('family', 'assigned')
  and periods.starts_at < now()
  and (periods.ends_at <= now() or periods.first_month <= reached.months) is distinct from false
  and periods.first_month is not null;

comment on view analyst.retention_detail is
  'Every period with the monthly anniversaries of its subscription''s start that lie in it. Family members are left '
  'out; grace counts as access, and a fully refunded period until the refund';
comment on column analyst.retention_detail.cohort is 'First day of the month in which the subscription started, UTC';
comment on column analyst.retention_detail.transaction_id is 'Transaction that pays for the period';
comment on column analyst.retention_detail.first_month is 'First anniversary in the period; 0 is the start itself';
comment on column analyst.retention_detail.last_month is 'Last anniversary in the period';
comment on column analyst.retention_detail.months_reached is 'Last anniversary that is not in the future';

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

comment on view analyst.retention is
  'How many subscriptions started in a month had access a number of months after their own start, up to today. If a '
  'log no longer receives events, all of its subscriptions appear to have ended. From retention_detail';
comment on column analyst.retention.cohort is 'First day of the month in which they started, UTC';
comment on column analyst.retention.months_since is
  'Whole months since the start of each subscription; 0 is the start itself';
comment on column analyst.retention.subscriptions is 'Subscriptions that started';
comment on column analyst.retention.reached is
  'Subscriptions that started at least that many months ago: divide active by this';
comment on column analyst.retention.active is 'Subscriptions with access at that anniversary';

create or replace view analyst.renewal_retention_detail as
with due as (
  select
    stream_id, original_transaction_id, transaction_id, product_id, price_period, run_start, payment_number, ends_at,
    ends_at as due_at, renewal
  from subledger.access_period
  where payment_number is not null
    and ends_at <= now()
  union all
  select
    stream_id, original_transaction_id, transaction_id, product_id, price_period, run_start, payment_number, ends_at,
    coalesce(effective_end, ends_at), renewal
  from subledger.refunded_period
  where payment_number is not null
    and ends_at <= now()
)
select
  analyst.month_of(due.run_start) as cohort,
  stream.app,
  stream.environment,
  due.stream_id,
  due.product_id,
  due.price_period,
  due.original_transaction_id,
  due.transaction_id,
  due.payment_number as renewal_number,
  due.due_at,
  case
    when outcome.kind in ('on_time', 'in_grace', 'later', 'changed_plan', 'undecided') then outcome.kind
    else 'lost'
  end as outcome,
  case
    when outcome.kind not in ('on_time', 'in_grace', 'later', 'changed_plan', 'undecided') then outcome.kind
  end as churn_reason,
  case
    when outcome.kind not in ('on_time', 'in_grace', 'later', 'changed_plan', 'undecided') then due.renewal is not null
  end as resubscribed,
  transaction.positions
from due
join subledger.stream using (stream_id)
join subledger.subscription using (stream_id, original_transaction_id)
left join subledger.transaction using (stream_id, original_transaction_id, transaction_id)
cross join lateral (
  select
    case
      when due.renewal is not null then due.renewal
      -- Another period followed on time.
      when due.ends_at < subscription.last_paid_end then 'on_time'
      when subscription.last_ends_at > now() then 'undecided'
      when subscription.in_billing_retry
        and due.ends_at + analyst.retry_length(transaction.billing_plan_type) > now() then 'undecided'
      else subscription.last_churn_reason
    end as kind
) as outcome;

comment on view analyst.renewal_retention_detail is
  'Every payment of a subscription whose period has ended, and how the renewal after it went. Payments for one product '
  'that follow each other by renewal form a run, from the first one at the standard price on. A change of plan and a '
  'purchase after a lost renewal begin another run. A payment that was refunded in full counts until the refund. '
  'Trials, payments with an offer before the run, and family members are left out';
comment on column analyst.renewal_retention_detail.cohort is
  'First day of the month in which the run''s first payment was made, UTC';
comment on column analyst.renewal_retention_detail.product_id is 'Product of the run';
comment on column analyst.renewal_retention_detail.transaction_id is 'The payment';
comment on column analyst.renewal_retention_detail.renewal_number is
  'Number of the renewal in the run: 1 after the first payment';
comment on column analyst.renewal_retention_detail.due_at is
  'When the renewal was due: the end of the payment''s period, also if an upgrade or a refund ended it early';
comment on column analyst.renewal_retention_detail.outcome is
  'on_time, in_grace (charged during grace), later (charged after a time without access, while Apple retried), '
  'changed_plan (another product followed), lost, or undecided (in grace, or Apple is still retrying)';
comment on column analyst.renewal_retention_detail.churn_reason is
  'For lost: refund, voluntary, billing, price, unavailable, other or unknown, as in movements_detail';
comment on column analyst.renewal_retention_detail.resubscribed is
  'For lost: whether the customer bought a subscription with the same id again later';
comment on column analyst.renewal_retention_detail.positions is 'Positions of the events that reported the payment';

create or replace view analyst.renewal_retention as
with counted as (
  select
    cohort,
    stream_id,
    product_id,
    -- An offer that was paid up front does not change the length of the plan.
    price_period = 'P1M' as is_monthly,
    renewal_number,
    outcome,
    churn_reason,
    resubscribed,
    count(*) as payments
  from analyst.renewal_retention_detail
  group by cohort, stream_id, product_id, is_monthly, renewal_number, outcome, churn_reason, resubscribed
)
select
  counted.cohort,
  stream.app,
  stream.environment,
  counted.product_id,
  case when plans.length = 'P1Y' and counted.is_monthly then 'P1M' else plans.length end as length,
  counted.renewal_number,
  sum(counted.payments)::bigint as due,
  coalesce(sum(counted.payments) filter (where counted.outcome = 'on_time'), 0)::bigint as on_time,
  coalesce(sum(counted.payments) filter (where counted.outcome = 'in_grace'), 0)::bigint as in_grace,
  coalesce(sum(counted.payments) filter (where counted.outcome = 'later'), 0)::bigint as later,
  coalesce(sum(counted.payments) filter (where counted.outcome = 'changed_plan'), 0)::bigint as changed_plan,
  coalesce(sum(counted.payments) filter (where counted.outcome = 'lost'), 0)::bigint as lost,
  coalesce(sum(counted.payments) filter (where counted.churn_reason in ('voluntary', 'price')), 0)::bigint
    as lost_voluntary,
  coalesce(sum(counted.payments) filter (where counted.churn_reason = 'billing'), 0)::bigint as lost_involuntary,
  coalesce(sum(counted.payments) filter (where counted.resubscribed), 0)::bigint as resubscribed,
  coalesce(sum(counted.payments) filter (where counted.outcome = 'undecided'), 0)::bigint as undecided,
  round(
    100.0 * coalesce(sum(counted.payments) filter (where counted.outcome in ('on_time', 'in_grace', 'later')), 0)
      / nullif(sum(counted.payments) filter (where counted.outcome <> 'undecided'), 0),
    1
  ) as renewed_percent
from counted
join subledger.stream using (stream_id)
left join analyst.plans
  on plans.stream_id = counted.stream_id
  and plans.product_id = counted.product_id
group by
  counted.cohort, stream.app, stream.environment, counted.product_id,
  case when plans.length = 'P1Y' and counted.is_monthly then 'P1M' else plans.length end, counted.renewal_number;

comment on view analyst.renewal_retention is
  'How many subscriptions renewed, by the month of their first payment at the standard price, by product and by the '
  'number of the renewal. A subscription that changed its plan, or was bought again after a lost renewal, begins again '
  'in the cohort of that payment. If a log no longer receives events, all of its renewals appear to be lost. From '
  'renewal_retention_detail';
comment on column analyst.renewal_retention.cohort is
  'First day of the month of the first payment at the standard price, UTC';
comment on column analyst.renewal_retention.length is
  'Length of the plan, see plans; P1M for a yearly plan that is billed monthly; null if unknown';
comment on column analyst.renewal_retention.renewal_number is '1 for the renewal after the first payment';
comment on column analyst.renewal_retention.due is 'Subscriptions whose payment of that number has ended';
comment on column analyst.renewal_retention.on_time is 'Renewed when it was due';
comment on column analyst.renewal_retention.in_grace is 'Renewed during grace';
comment on column analyst.renewal_retention.later is 'Renewed after a time without access, while Apple retried';
comment on column analyst.renewal_retention.changed_plan is 'Continued with another product';
comment on column analyst.renewal_retention.lost is 'Not renewed';
comment on column analyst.renewal_retention.lost_voluntary is
  'Those of lost whose customers switched auto-renewal off or did not accept a price increase';
comment on column analyst.renewal_retention.lost_involuntary is 'Those of lost that could not be charged';
comment on column analyst.renewal_retention.resubscribed is
  'Those of lost that were bought again later: add them to the renewed ones for all that ever paid again';
comment on column analyst.renewal_retention.undecided is 'In grace, or Apple is still retrying';
comment on column analyst.renewal_retention.renewed_percent is
  'on_time, in_grace and later as a percentage of due without undecided; null if all are undecided';

create or replace view analyst.refunds_detail as
select distinct on (app, environment, purchase.id)
  analyst.month_of(revocation_date) as month,
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
  positions,
  refunds
from analyst.transactions
-- Each of the purchases that pay for the seats of one period can be refunded by itself.
cross join lateral (
  select coalesce(case when not is_for_added_seats then web_order_line_item_id end, transaction_id) as id
) as purchase
where refund is not null
order by app, environment, purchase.id, transaction_id, original_transaction_id;

comment on view analyst.refunds_detail is
  'Every purchase that is refunded and whose refund was not reversed. A purchase restored on several devices, or an order '
  'shown by several purchases, counts once. The purchases of a deleted Apple Account count as refunded';
comment on column analyst.refunds_detail.month is 'First day of the month of the refund, UTC';
comment on column analyst.refunds_detail.transaction_id is 'The refunded purchase';
comment on column analyst.refunds_detail.revocation_date is 'When it was refunded';
comment on column analyst.refunds_detail.refund is 'full or part';
comment on column analyst.refunds_detail.refunds is
  'See subledger.transaction.refunds: revocation_date is that of the last one, and amount that of all';
comment on column analyst.refunds_detail.revocation_reason is
  'Apple: 1 an issue with the app, 0 other. Google Play: 1 remorse, 2 not received, 3 defective, 4 bought by accident, '
  '5 fraud, 6 friendly fraud, 7 chargeback, 8 not acknowledged, 0 other. Null if not stated';
comment on column analyst.refunds_detail.price is 'Price of the purchase, in the currency unit; null in V1';
comment on column analyst.refunds_detail.amount is 'Refunded amount; null if the price or the percentage is unknown';

create or replace view analyst.refunds as
select
  coalesce(part.month, refunds_detail.month) as month,
  refunds_detail.app,
  refunds_detail.environment,
  refunds_detail.product_id,
  refunds_detail.currency,
  count(*) filter (where refunds_detail.refund = 'full' and part.is_last is not false) as in_full,
  count(*) filter (where refunds_detail.refund = 'part' or not part.is_last) as in_part,
  sum(coalesce(part.amount, refunds_detail.amount)) as amount
from analyst.refunds_detail
left join lateral (
  select analyst.month_of((refund ->> 'at')::timestamptz) as month,
    round((refund ->> 'amount')::numeric / 1000, 3) as amount,
    number = jsonb_array_length(refunds_detail.refunds) as is_last
  from jsonb_array_elements(refunds_detail.refunds) with ordinality as listed (refund, number)
) as part on true
group by
  coalesce(part.month, refunds_detail.month), refunds_detail.app, refunds_detail.environment, refunds_detail.product_id,
  refunds_detail.currency;

comment on view analyst.refunds is 'Refunds by the month in which they were made. From refunds_detail';
comment on column analyst.refunds.month is 'First day of the month of the refund, UTC';
comment on column analyst.refunds.in_full is 'Refunds of a whole purchase, or of the last part of it';
comment on column analyst.refunds.in_part is 'Refunds of a part of a purchase, such as the rest of its period';
comment on column analyst.refunds.amount is 'Refunded amount, where known, in the currency unit';

create or replace view analyst.refund_requests_detail as
select
  analyst.month_of(refund_request.requested_at) as month,
  stream.app,
  stream.environment,
  refund_request.product_id,
  refund_request.original_transaction_id,
  refund_request.transaction_id,
  refund_request.reason,
  refund_request.requests,
  refund_request.requested_at,
  coalesce(answer.state, 'unanswered') as answer,
  answer.stated_by as answered_by,
  answer.refund_preference,
  case when answer.state = 'accepted' then answer.asked_at end as answered_at,
  refund_request.decision,
  refund_request.decided_at,
  round(extract(epoch from refund_request.decided_at - refund_request.requested_at) / 3600, 1) as hours,
  refund_request.reversed_at,
  refund_request.position,
  refund_request.store,
  refund_request.deadline_at
from subledger.refund_request
join subledger.stream using (stream_id)
left join subledger.consumption_answer as answer
  on answer.stream_id = refund_request.stream_id
  and answer.position = refund_request.position;

comment on view analyst.refund_requests_detail is
  'Every refund request of a customer about which Apple asked, and every chargeback about which Google did, with the '
  'answer and the decision. The stores do not ask about every refund';
comment on column analyst.refund_requests_detail.month is 'First day of the month in which the store asked first, UTC';
comment on column analyst.refund_requests_detail.environment is
  'production or sandbox; unknown for Google, whose question does not name it';
comment on column analyst.refund_requests_detail.product_id is
  'What was bought; null for Google, whose question names the order only';
comment on column analyst.refund_requests_detail.original_transaction_id is 'The subscription; null for Google';
comment on column analyst.refund_requests_detail.transaction_id is
  'The purchase; for Google, the id of the order, which is the transaction_id of transactions';
comment on column analyst.refund_requests_detail.reason is
  'The customer''s reason, as Apple spells it; for Google its number: 7 is a chargeback';
comment on column analyst.refund_requests_detail.requests is 'How often the store asked';
comment on column analyst.refund_requests_detail.requested_at is 'When the store asked first';
comment on column analyst.refund_requests_detail.answer is
  'unanswered; pending, not sent yet; accepted, refused or late; or no_consent: see consumption_answer.state';
comment on column analyst.refund_requests_detail.answered_by is
  'policy, backend or operator; null if unanswered';
comment on column analyst.refund_requests_detail.refund_preference is
  'What the store was asked to do: DECLINE, GRANT_FULL or GRANT_PRORATED; null for no preference';
comment on column analyst.refund_requests_detail.answered_at is 'When the store accepted the answer; null if it did not';
comment on column analyst.refund_requests_detail.decision is
  'granted or declined; null if the store has not decided. Google says only what it has voided';
comment on column analyst.refund_requests_detail.decided_at is 'When';
comment on column analyst.refund_requests_detail.hours is 'From the first question to the decision; null without one';
comment on column analyst.refund_requests_detail.reversed_at is 'When a granted refund was reversed; null if it was not';
comment on column analyst.refund_requests_detail.position is 'Position of the first event that reported it';
comment on column analyst.refund_requests_detail.store is 'apple or google';
comment on column analyst.refund_requests_detail.deadline_at is 'Until when the store took an answer';

create or replace view analyst.refund_requests as
select
  refund_requests_detail.month,
  refund_requests_detail.app,
  refund_requests_detail.environment,
  refund_requests_detail.product_id,
  refund_requests_detail.reason,
  count(*) as requests,
  count(*) filter (where refund_requests_detail.answer = 'accepted') as answered,
  count(*) filter (where refund_requests_detail.decision = 'granted') as granted,
  count(*) filter (where refund_requests_detail.decision = 'declined') as declined,
  count(*) filter (where refund_requests_detail.reversed_at is not null) as reversed,
  count(*) filter (where refund_requests_detail.decision is null) as open,
  percentile_disc(0.5) within group (order by refund_requests_detail.hours) as p50_hours,
  refund_requests_detail.store
from analyst.refund_requests_detail
group by
  refund_requests_detail.month, refund_requests_detail.app, refund_requests_detail.environment,
  refund_requests_detail.product_id, refund_requests_detail.reason, refund_requests_detail.store;

comment on view analyst.refund_requests is
  'Refund requests by the month in which the store asked, and what it decided. From refund_requests_detail';
comment on column analyst.refund_requests.month is 'First day of the month in which the store asked first, UTC';
comment on column analyst.refund_requests.environment is
  'production or sandbox; unknown for Google, whose question does not name it';
comment on column analyst.refund_requests.product_id is
  'What was bought; null for Google, whose question names the order only';
comment on column analyst.refund_requests.reason is
  'The customer''s reason, as Apple spells it; for Google its number: 7 is a chargeback';
comment on column analyst.refund_requests.requests is 'Number of requests';
comment on column analyst.refund_requests.answered is 'Those about which the store accepted an answer';
comment on column analyst.refund_requests.granted is 'Those that the store granted, also if it was reversed later';
comment on column analyst.refund_requests.store is 'apple or google';
comment on column analyst.refund_requests.declined is 'Those that it declined';
comment on column analyst.refund_requests.reversed is 'Those that it granted and reversed later';
comment on column analyst.refund_requests.open is 'Those that are not decided';
comment on column analyst.refund_requests.p50_hours is 'Median of the hours from the question to the decision';

create or replace view analyst.refund_rate_detail as
select
  analyst.month_of(transaction.purchase_date) as month,
  stream.app,
  stream.environment,
  transaction.stream_id,
  transaction.product_id,
  transaction.currency,
  transaction.purchase_date,
  refunded.refund,
  transaction.revocation_date,
  round(transaction.price / 1000.0, 3) as price,
  case
    when refunded.refund is not null and transaction.refunded_price is not null then
      round(transaction.refunded_price / 1000.0, 3)
    when refunded.refund = 'full' then
      round(transaction.price / 1000.0 * coalesce(transaction.revocation_percentage, 100000) / 100000, 3)
    when refunded.refund = 'part' then
      round(transaction.price / 1000.0 * transaction.revocation_percentage / 100000, 3)
  end as refunded_amount,
  transaction.original_transaction_id,
  transaction.transaction_id,
  transaction.positions,
  transaction.storefront,
  transaction.offer_type,
  analyst.offer_identifier(
    transaction.offer_identifier, transaction.promotional_offer_id, transaction.offer_code_ref_name
  ) as offer_identifier,
  transaction.type,
  transaction.expires_date,
  round(transaction.tax / 1000.0, 3) as tax,
  round(transaction.developer_revenue / 1000.0, 3) as developer_revenue,
  transaction.refunds,
  transaction.quantity,
  case when transaction.expires_date > transaction.purchase_date then
    least(
      transaction.expires_date,
      case when transaction.revocation_type = 'REFUND_PRORATED' then transaction.revocation_date end
    )
  end as served_until,
  case when transaction.expires_date > transaction.purchase_date then
    least(
      transaction.expires_date, transaction.paid_until,
      case when transaction.revocation_type = 'REFUND_PRORATED' then transaction.revocation_date end
    )
  end as paid_until
from subledger.transaction
join subledger.stream using (stream_id)
cross join lateral (
  select analyst.refund(
    transaction.revocation_date, transaction.revocation_type, transaction.revocation_reason, transaction.is_upgraded,
    transaction.in_app_ownership_type,
    coalesce(transaction.refunded_price >= transaction.price, transaction.revocation_percentage >= 100000, false)
  ) as refund
) as refunded
where transaction.purchase_date is not null
  and coalesce(transaction.in_app_ownership_type, '') not in ('FAMILY_SHARED', 'ASSIGNED', 'GRANTED')
  and not coalesce(transaction.offer_discount_type = 'FREE_TRIAL', transaction.is_trial_period, false)
  -- Nothing is paid with a promotion code of Google Play.
  and transaction.price is distinct from 0
  -- Of copies, a refunded one counts, else the first. An anti-join reads all purchases faster than a sort. Purchases that
  -- pay for the seats of one period are no copies.
  and not exists (
    select
    from subledger.transaction as copy
    where copy.stream_id = transaction.stream_id
      and copy.web_order_line_item_id = transaction.web_order_line_item_id
      and coalesce(
        copy.additional ->> 'additionalTransactionReason', transaction.additional ->> 'additionalTransactionReason', ''
      ) <> 'SEAT_ADDITION'
      and (copy.revocation_date is null, copy.transaction_id)
        < (transaction.revocation_date is null, transaction.transaction_id)
  )
  and not exists (
    -- Of the purchases of Google Play that show one order, one counts.
    select
    from subledger.transaction as other
    where other.stream_id = transaction.stream_id
      and other.transaction_id = transaction.transaction_id
      and (other.revocation_date is null, other.original_transaction_id)
        < (transaction.revocation_date is null, transaction.original_transaction_id)
      and analyst.store(other.original_transaction_id) = 'google'
  );

-- Of releases before.
drop function if exists analyst.refund(timestamptz, text, integer, boolean, text);

comment on view analyst.refund_rate_detail is
  'Every paid purchase and renewal, and whether it stands refunded; a reversed refund does not. Free trials and family '
  'members are left out. A purchase restored on several devices counts once, and so does an order of Google Play that '
  'several purchases show';
comment on column analyst.refund_rate_detail.refunds is 'See subledger.transaction.refunds';
comment on column analyst.refund_rate_detail.month is 'First day of the month of the purchase, UTC';
comment on column analyst.refund_rate_detail.purchase_date is 'When it was bought, or when its period begins';
comment on column analyst.refund_rate_detail.refund is 'full or part; null if not refunded';
comment on column analyst.refund_rate_detail.revocation_date is
  'When it was refunded; for a purchase that is not, when an upgrade replaced it, in V1';
comment on column analyst.refund_rate_detail.price is 'In the currency unit; null in V1';
comment on column analyst.refund_rate_detail.tax is
  'The tax in price, in the currency unit, as Google''s order states it; null if it does not, and for Apple';
comment on column analyst.refund_rate_detail.developer_revenue is
  'What the developer receives, in the currency unit, as Google''s order states it: without taxes, fees and refunds so far; '
  'null if it does not, and for Apple';
comment on column analyst.refund_rate_detail.refunded_amount is
  'Refunded amount, in the currency unit; null if not refunded, or if the price or the percentage is unknown. What the '
  'store states is kept, even if it is more than the price';
comment on column analyst.refund_rate_detail.storefront is 'See transactions';
comment on column analyst.refund_rate_detail.offer_type is 'See transactions';
comment on column analyst.refund_rate_detail.offer_identifier is 'See transactions';
comment on column analyst.refund_rate_detail.type is 'See transactions';
comment on column analyst.refund_rate_detail.expires_date is 'See transactions';
comment on column analyst.refund_rate_detail.quantity is 'See transactions';
comment on column analyst.refund_rate_detail.served_until is
  'End of the period, or of the part of it that was not refunded; null for one-time purchases';
comment on column analyst.refund_rate_detail.paid_until is
  'End of what was paid for: served_until without the free days that the developer added';

create or replace view analyst.refund_rate as
with counted as (
  select
    month,
    stream_id,
    product_id,
    currency,
    count(*) as purchases,
    count(refund) as refunded,
    sum(price) as amount,
    sum(refunded_amount) as refunded_amount
  from analyst.refund_rate_detail
  group by month, stream_id, product_id, currency
)
select
  counted.month,
  stream.app,
  stream.environment,
  counted.product_id,
  counted.currency,
  counted.purchases,
  counted.refunded,
  round(100.0 * counted.refunded / counted.purchases, 1) as refunded_percent,
  counted.amount,
  coalesce(counted.refunded_amount, 0) as refunded_amount,
  round(100 * coalesce(counted.refunded_amount, 0) / nullif(counted.amount, 0), 1) as refunded_amount_percent
from counted
join subledger.stream using (stream_id);

comment on view analyst.refund_rate is
  'Purchases and renewals by their month, and which of them stand refunded now, whenever that happened. Recent months '
  'still rise, since a customer can ask for a refund for weeks. From refund_rate_detail';
comment on column analyst.refund_rate.month is 'First day of the month of the purchases, UTC';
comment on column analyst.refund_rate.purchases is 'Number of paid purchases and renewals';
comment on column analyst.refund_rate.refunded is 'Number of those that are refunded, in full or in part';
comment on column analyst.refund_rate.refunded_percent is 'refunded as a percentage of purchases';
comment on column analyst.refund_rate.amount is 'Price of all purchases, in the currency unit; null in V1';
comment on column analyst.refund_rate.refunded_amount is 'Refunded amount, where known, in the currency unit';
comment on column analyst.refund_rate.refunded_amount_percent is
  'refunded_amount as a percentage of amount; null if that is unknown';

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
  -- A V1 body contains all subscriptions of an account: the one that failed is in billing retry, and so may be others
  -- that failed before.
  cross join lateral (
    select renewal ->> 'originalTransactionId' as subscription
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
      and transaction ->> 'originalTransactionId' = failing.subscription
    order by transaction ->> 'expiresDate' desc
    limit 1
  ) as failed
  where event.kind = 'renewal_failure'
), google_failure as (
  -- Google's answers state failed renewals, its notifications do not name them: grace, or account hold until a later
  -- period or until now. A pause has another reason.
  select ended.*
  from (
    select stream_id, position, original_transaction_id, transaction_id, product_id, starts_at as due_at
    from subledger.access_period
    where cause = 'grace'
    union all
    select stream_id, position, original_transaction_id, transaction_id, product_id, churned_at
    from subledger.access_period
    where cause = 'paid'
      and churned_at is not null
      and churn_reason = 'billing'
    union all
    select stream_id, position, original_transaction_id, last_transaction_id, last_product_id, last_ends_at
    from subledger.subscription
    where last_cause = 'paid'
      and last_churn_reason = 'billing'
      and last_ends_at <= now()
  ) as ended
  join subledger.event using (stream_id, position)
  where event.source like 'google-%'
), due as (
  select
    store,
    stream_id,
    original_transaction_id,
    due_at,
    min(transaction_id) as transaction_id,
    min(product_id) as product_id,
    array_agg(position order by position) as positions
  from (
    select
      analyst.store(original_transaction_id) as store, stream_id, position, original_transaction_id, transaction_id,
      product_id, due_at
    from failure
    union all
    -- A constant, by which a query of Apple's failures leaves this part out.
    select 'google', stream_id, position, original_transaction_id, transaction_id, product_id, due_at
    from google_failure
  ) as failed
  group by store, stream_id, original_transaction_id, due_at
)
select
  analyst.month_of(due.due_at) as month,
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
    when subscription.in_billing_retry
      and due.due_at + analyst.retry_length(failed.billing_plan_type) > now() then 'retried'
    else 'lost'
  end as outcome,
  due.positions || coalesce(recovered.positions, '{}') as positions,
  due.store
from due
join subledger.stream using (stream_id)
left join subledger.subscription using (stream_id, original_transaction_id)
left join subledger.transaction as failed
  on failed.stream_id = due.stream_id
  and failed.original_transaction_id = due.original_transaction_id
  and failed.transaction_id = due.transaction_id
left join lateral (
  select max(access_period.ends_at) as ends_at
  from subledger.access_period
  where access_period.stream_id = due.stream_id
    and access_period.original_transaction_id = due.original_transaction_id
    and access_period.starts_at = due.due_at
    and access_period.cause = 'grace'
) as grace on true
left join lateral (
  select next.starts_at, next.positions
  from (
    select access_period.starts_at, transaction.positions, transaction.transaction_reason
    from subledger.access_period
    join subledger.transaction using (stream_id, original_transaction_id, transaction_id)
    where access_period.stream_id = due.stream_id
      and access_period.original_transaction_id = due.original_transaction_id
      and access_period.cause = 'paid'
      and access_period.starts_at >= due.due_at
      and access_period.starts_at < due.due_at + analyst.retry_length(failed.billing_plan_type)
    order by access_period.starts_at, transaction_id
    limit 1
  ) as next
  -- After a new purchase, renewals are of that one. Another plan that is bought in grace leaves no gap.
  where next.transaction_reason is distinct from 'PURCHASE'
    or next.starts_at <= grace.ends_at
) as recovered on true;

comment on view analyst.billing_retries_detail is
  'Every renewal that failed, and its outcome. Recovered means charged within the 60 days in which Apple retries (90 of '
  'a commitment that is billed monthly); if only V1 reported it, a new purchase in that time looks the same. Another plan '
  'that is bought in grace counts as recovered in grace. For Google: '
  'every grace period, and every account hold without one';
comment on column analyst.billing_retries_detail.month is 'First day of the month in which the renewal was due, UTC';
comment on column analyst.billing_retries_detail.product_id is 'Product of the period that could not be renewed';
comment on column analyst.billing_retries_detail.transaction_id is
  'Transaction of the period that could not be renewed';
comment on column analyst.billing_retries_detail.due_at is 'When that period ended';
comment on column analyst.billing_retries_detail.grace_ends_at is 'End of the grace period; null if there was none';
comment on column analyst.billing_retries_detail.recovered_at is
  'Start of the next charged period; null if there was none. A period charged during grace starts when the failed one '
  'ended; analyst.events shows when the payment was reported';
comment on column analyst.billing_retries_detail.outcome is
  'recovered_in_grace (no gap), recovered_later, retried (the store is still retrying), or lost';
comment on column analyst.billing_retries_detail.positions is
  'Positions of the events that reported the failure, and of those that reported the period after it';

create or replace view analyst.billing_retries as
select
  billing_retries_detail.month,
  billing_retries_detail.app,
  billing_retries_detail.environment,
  billing_retries_detail.product_id,
  count(*) as failed,
  count(*) filter (where billing_retries_detail.outcome = 'recovered_in_grace') as recovered_in_grace,
  count(*) filter (where billing_retries_detail.outcome = 'recovered_later') as recovered_later,
  count(*) filter (where billing_retries_detail.outcome = 'retried') as retried,
  count(*) filter (where billing_retries_detail.outcome = 'lost') as lost,
  billing_retries_detail.store
from analyst.billing_retries_detail
group by
  billing_retries_detail.month, billing_retries_detail.app, billing_retries_detail.environment,
  billing_retries_detail.product_id, billing_retries_detail.store;

comment on view analyst.billing_retries is
  'Renewals of subscriptions that failed, by the month in which they were due, and their outcomes. From '
  'billing_retries_detail';
comment on column analyst.billing_retries.month is 'First day of the month in which the renewal was due, UTC';
comment on column analyst.billing_retries.product_id is 'Product of the periods that could not be renewed';
comment on column analyst.billing_retries.failed is 'Renewals that failed';
comment on column analyst.billing_retries.recovered_in_grace is 'Charged during grace, without a gap';
comment on column analyst.billing_retries.recovered_later is 'Charged after a gap';
comment on column analyst.billing_retries.retried is 'Not charged yet; the store is still retrying';
comment on column analyst.billing_retries.lost is 'Never charged';

create or replace view analyst.plan_changes_detail as
select
  analyst.month_of(changed.starts_at) as month,
  changed.app,
  changed.environment,
  changed.previous_product_id as from_product_id,
  changed.product_id as to_product_id,
  case
    when ranked.now > ranked.before then 'up'
    when ranked.now < ranked.before then 'down'
    when ranked.now = ranked.before then null
    when not decided.by_price then case when changed.previous_cut = 'upgraded' then 'up' else 'down' end
    -- Google charges the difference for the rest of a period only where the new plan costs more for the same time.
    when own.price > 0 and own.price < own.plan_price and own.offer_type is null then 'up'
    when after.monthly > before.monthly then 'up'
    when after.monthly < before.monthly then 'down'
  end as direction,
  changed.starts_at as at,
  changed.original_transaction_id,
  changed.transaction_id,
  changed.positions
from analyst.ordered_periods as changed
cross join lateral (
  select exists (
    select
    from subledger.event
    where event.stream_id = changed.stream_id
      and event.position = changed.positions[1]
      and event.source like 'google-%'
  ) as is_google
) as store
-- Whatever is bought in grace begins immediately: there is no period that it could wait for.
cross join lateral (
  select store.is_google or exists (
    select
    from subledger.access_period as grace
    where grace.stream_id = changed.stream_id
      and grace.original_transaction_id = changed.original_transaction_id
      and grace.product_id = changed.previous_product_id
      and grace.cause = 'grace'
      and grace.ends_at = changed.starts_at
  ) as by_price
) as decided
left join lateral (
  select now.level as now, before.level as before
  from subledger.product as now
  join subledger.product as before
    on before.app = changed.app
    and before.product_id = changed.previous_product_id
  where now.app = changed.app
    and now.product_id = changed.product_id
) as ranked on true
left join subledger.transaction as own
  on decided.by_price
  and own.stream_id = changed.stream_id
  and own.original_transaction_id = changed.original_transaction_id
  and own.transaction_id = changed.transaction_id
-- What follows a change of plan without a charge has the price of the plan, and no length of its own.
left join analyst.plans as plan_before
  on decided.by_price
  and plan_before.stream_id = changed.stream_id
  and plan_before.product_id = changed.previous_product_id
left join analyst.plans as plan_now
  on decided.by_price
  and plan_now.stream_id = changed.stream_id
  and plan_now.product_id = changed.product_id
left join lateral (
  select
    -- The list price is that of a whole period. What answers say later about the end of this one changes neither.
    coalesce(
      transaction.plan_price / plan_before.months,
      coalesce(transaction.plan_price, transaction.price)
        / analyst.months_between(transaction.purchase_date, transaction.expires_date)
    ) as monthly
  from subledger.transaction
  where decided.by_price
    and transaction.stream_id = changed.stream_id
    and transaction.original_transaction_id = changed.original_transaction_id
    and transaction.product_id = changed.previous_product_id
    and transaction.purchase_date < own.purchase_date
    and transaction.expires_date > transaction.purchase_date
    and (
      transaction.price > 0
      or (transaction.plan_price > 0 and transaction.offer_type is null and plan_before.months is not null)
    )
  -- A whole period of the plan at its own price, if there is one.
  order by transaction.offer_type is not null or coalesce(transaction.price < transaction.plan_price, false),
    transaction.purchase_date desc
  limit 1
) as before on true
left join lateral (
  select
    -- The list price is that of a whole period. What answers say later about the end of this one changes neither.
    coalesce(
      transaction.plan_price / plan_now.months,
      coalesce(transaction.plan_price, transaction.price)
        / analyst.months_between(transaction.purchase_date, transaction.expires_date)
    ) as monthly
  from subledger.transaction
  where decided.by_price
    and transaction.stream_id = changed.stream_id
    and transaction.original_transaction_id = changed.original_transaction_id
    and transaction.product_id = changed.product_id
    and transaction.purchase_date >= own.purchase_date
    and transaction.expires_date > transaction.purchase_date
    and (
      transaction.price > 0
      or (transaction.plan_price > 0 and transaction.offer_type is null and plan_now.months is not null)
    )
  -- A whole period of the plan at its own price, if there is one.
  order by transaction.offer_type is not null or coalesce(transaction.price < transaction.plan_price, false),
    transaction.purchase_date
  limit 1
) as after on true
where changed.payer_state not in ('family', 'assigned')
  and changed.starts_at < changed.ends_at
  and changed.starts_at <= changed.previous_end
  and changed.previous_product_id <> changed.product_id
  -- Beside another item of a purchase on Google Play, a product replaces nothing.
  and not exists (
    select
    from subledger.access_period as beside
    where store.is_google
      and beside.stream_id = changed.stream_id
      and beside.original_transaction_id = changed.original_transaction_id
      and beside.product_id = changed.previous_product_id
      and beside.cause = 'paid'
      and beside.starts_at <= own.purchase_date
      and beside.ends_at > own.purchase_date
  );

comment on view analyst.plan_changes_detail is
  'Every change of product without a gap, at the time it took effect, which separates upgrades from downgrades: '
  'Apple applies an upgrade immediately and a downgrade at the next renewal. A crossgrade takes effect immediately if '
  'both products have the same duration, and at the next renewal if not. Google applies either at any time, and what is '
  'bought in grace begins immediately, so there the price per month decides. Configured levels decide before that. An '
  'item that is added beside another one is no change';
comment on column analyst.plan_changes_detail.month is 'First day of the month of at, UTC';
comment on column analyst.plan_changes_detail.from_product_id is 'Product before the change';
comment on column analyst.plan_changes_detail.to_product_id is 'Product after the change';
comment on column analyst.plan_changes_detail.direction is
  'up or down, by product.level if both products have one; null if it is the same. Without, Apple: immediately, in the '
  'middle of a period, or at a renewal. Google, and Apple in grace: to a higher or a lower price per month; null if it is '
  'the same, or if a price is not known';
comment on column analyst.plan_changes_detail.at is 'When it took effect';
comment on column analyst.plan_changes_detail.transaction_id is 'First transaction of the new product';
comment on column analyst.plan_changes_detail.positions is 'Positions of the events that reported it';

create or replace view analyst.plan_changes as
select
  plan_changes_detail.month,
  plan_changes_detail.app,
  plan_changes_detail.environment,
  plan_changes_detail.from_product_id,
  plan_changes_detail.to_product_id,
  count(*) filter (where plan_changes_detail.direction = 'up') as up,
  count(*) filter (where plan_changes_detail.direction = 'down') as down
from analyst.plan_changes_detail
group by
  plan_changes_detail.month, plan_changes_detail.app, plan_changes_detail.environment,
  plan_changes_detail.from_product_id, plan_changes_detail.to_product_id;

comment on view analyst.plan_changes is
  'Changes of a subscription''s product by the month in which they took effect. From plan_changes_detail';
comment on column analyst.plan_changes.month is 'First day of the month, UTC';
comment on column analyst.plan_changes.from_product_id is 'Product before the change';
comment on column analyst.plan_changes.to_product_id is 'Product after the change';
comment on column analyst.plan_changes.up is 'Subscriptions whose change was up, see plan_changes_detail.direction';
comment on column analyst.plan_changes.down is 'Subscriptions whose change was down';

create or replace view analyst.renewal_outlook_detail as
select
  analyst.month_of(subscription.last_ends_at) as month,
  stream.app,
  stream.environment,
  subscription.stream_id,
  subscription.last_product_id as product_id,
  subscription.last_payer_state as payer_state,
  case
    when subscription.auto_renew or subscription.commitment_ends_at is not null then 'on'
    when not subscription.auto_renew then 'off'
    else 'unknown'
  end as auto_renew,
  subscription.last_ends_at as ends_at,
  subscription.auto_renew_product_id,
  coalesce(subscription.renewal_currency, transaction.currency) as currency,
  round(
    coalesce(
      subscription.renewal_price,
      -- A trial was free: its price says nothing about the next one.
      case when subscription.last_payer_state <> 'trial' then transaction.price end
    ) / 1000.0, 3
  ) as price,
  subscription.original_transaction_id,
  subscription.last_transaction_id as transaction_id,
  transaction.positions,
  analyst.store(subscription.original_transaction_id) as store,
  analyst.country(transaction.storefront) as country,
  plans.length,
  transaction.offer_type,
  analyst.offer_identifier(
    transaction.offer_identifier, transaction.promotional_offer_id, transaction.offer_code_ref_name
  ) as offer_identifier,
  case
    when not subscription.auto_renew
      then nullif(coalesce(subscription.commitment_ends_at, subscription.last_ends_at), 'infinity')
  end as will_end_at
from subledger.subscription
join subledger.stream using (stream_id)
left join analyst.plans
  on plans.stream_id = subscription.stream_id
  and plans.product_id = subscription.last_product_id
left join subledger.transaction
  on transaction.stream_id = subscription.stream_id
  and transaction.original_transaction_id = subscription.original_transaction_id
  and transaction.transaction_id = subscription.last_transaction_id
where subscription.last_ends_at > now()
  and subscription.last_payer_state not in ('family', 'assigned');

comment on view analyst.renewal_outlook_detail is
  'Every subscription with access now, and what is known about its next renewal. Family members are left out';
comment on column analyst.renewal_outlook_detail.month is 'First day of the month of ends_at, UTC';
comment on column analyst.renewal_outlook_detail.product_id is 'Product of its last period';
comment on column analyst.renewal_outlook_detail.payer_state is 'paying, trial or grace';
comment on column analyst.renewal_outlook_detail.auto_renew is
  'on, off or unknown, as last reported; on while months of a commitment that is not renewed are charged';
comment on column analyst.renewal_outlook_detail.ends_at is
  'End of its last period, when it is due to renew; for grace, when access ends if it is not charged';
comment on column analyst.renewal_outlook_detail.auto_renew_product_id is
  'Product of the next renewal, as last reported';
comment on column analyst.renewal_outlook_detail.price is
  'Price of the next renewal as last reported, in the currency unit; if it was not reported, the last price paid; null '
  'if both are unknown';
comment on column analyst.renewal_outlook_detail.transaction_id is 'Transaction of its last period';
comment on column analyst.renewal_outlook_detail.offer_type is 'Of that transaction, see transactions';
comment on column analyst.renewal_outlook_detail.offer_identifier is 'Of that transaction, see transactions';
comment on column analyst.renewal_outlook_detail.will_end_at is
  'When the subscription ends because renewal is off: with its last period, or with the commitment whose months are '
  'charged until then; null if it renews, and if the end of the commitment is unknown';

create or replace view analyst.renewal_outlook as
select
  month,
  app,
  environment,
  product_id,
  payer_state,
  auto_renew,
  currency,
  count(*) as subscriptions,
  sum(price) as amount,
  count(*) filter (where price is null) as unpriced,
  store,
  country,
  length,
  offer_type
from analyst.renewal_outlook_detail
group by
  month, app, environment, product_id, payer_state, auto_renew, currency, store, country, length, offer_type;

comment on view analyst.renewal_outlook is
  'Subscriptions with access now, by the month in which their last period ends, and what their renewal would bring. '
  'Unlike the other views, it has no past. From renewal_outlook_detail';
comment on column analyst.renewal_outlook.month is 'First day of the month in which the last period ends, UTC';
comment on column analyst.renewal_outlook.product_id is 'Product of the last period';
comment on column analyst.renewal_outlook.payer_state is 'paying, trial or grace';
comment on column analyst.renewal_outlook.auto_renew is
  'on, off or unknown, as last reported; on while months of a commitment that is not renewed are charged';
comment on column analyst.renewal_outlook.subscriptions is 'Number of subscriptions';
comment on column analyst.renewal_outlook.amount is
  'Sum of the prices of their next renewals, in the currency unit; expected only where auto_renew is on';
comment on column analyst.renewal_outlook.unpriced is 'Subscriptions whose price is unknown, not included in amount';
comment on column analyst.renewal_outlook.offer_type is 'Of the last period, see transactions';

create or replace view analyst.delivery_lag_detail as
select
  analyst.month_of(event.occurred_at) as month,
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
where event.occurred_at is not null
  -- Nothing else is delivered by a store.
  and event.source in ('apple-v1', 'apple-v2', 'google-rtdn');

comment on view analyst.delivery_lag_detail is
  'How long each notification was in transit, including the store''s retries after an outage of ours. V1 has no signing '
  'date: its lag is measured from the dates in the notification and is less meaningful';
comment on column analyst.delivery_lag_detail.month is 'First day of the month of occurred_at, UTC';
comment on column analyst.delivery_lag_detail.source is 'apple-v1, apple-v2 or google-rtdn';
comment on column analyst.delivery_lag_detail.type is 'As the store spells it';
comment on column analyst.delivery_lag_detail.subtype is 'As Apple spells it; V1 and Google Play have none';
comment on column analyst.delivery_lag_detail.position is 'Position of the event';
comment on column analyst.delivery_lag_detail.occurred_at is
  'When Apple signed it or Google sent it; for V1, when it happened';
comment on column analyst.delivery_lag_detail.received_at is 'When it was received, by our clock';
comment on column analyst.delivery_lag_detail.lag_seconds is
  'received_at minus occurred_at; negative if the clocks differ';

create or replace view analyst.delivery_lag as
select
  delivery_lag_detail.month,
  delivery_lag_detail.app,
  delivery_lag_detail.environment,
  delivery_lag_detail.source,
  delivery_lag_detail.type,
  count(*) as notifications,
  percentile_disc(0.5) within group (order by delivery_lag_detail.lag_seconds) as p50_seconds,
  percentile_disc(0.99) within group (order by delivery_lag_detail.lag_seconds) as p99_seconds,
  max(delivery_lag_detail.lag_seconds) as max_seconds
from analyst.delivery_lag_detail
group by
  delivery_lag_detail.month, delivery_lag_detail.app, delivery_lag_detail.environment, delivery_lag_detail.source,
  delivery_lag_detail.type;

comment on view analyst.delivery_lag is
  'How long notifications were in transit, by type and month. Percentiles of months cannot be combined: for several '
  'months, query delivery_lag_detail, on which this is based';
comment on column analyst.delivery_lag.month is 'First day of the month in which they were signed, UTC';
comment on column analyst.delivery_lag.source is 'apple-v1, apple-v2 or google-rtdn';
comment on column analyst.delivery_lag.type is 'As the store spells it';
comment on column analyst.delivery_lag.notifications is 'Number of notifications';
comment on column analyst.delivery_lag.p50_seconds is 'Median';
comment on column analyst.delivery_lag.p99_seconds is '99th percentile';
comment on column analyst.delivery_lag.max_seconds is 'Maximum';

create or replace view analyst.exchange_rates as
select currency, day, per_euro
from subledger.exchange_rate;

comment on view analyst.exchange_rates is
  'Exchange rates that `subledger rate import` read, such as the reference rates of the European Central Bank';
comment on column analyst.exchange_rates.currency is 'ISO 4217; never EUR, whose rate is 1';
comment on column analyst.exchange_rates.day is 'The day of the rate. It counts until the next one, for 7 days at most';
comment on column analyst.exchange_rates.per_euro is 'Units of the currency for one euro';

create or replace function analyst.rate_on(currency text, day date) returns table (per_euro numeric)
language sql stable as $$
  select 1::numeric
  where $1 = 'EUR'
  union all
  (
    select exchange_rate.per_euro
    from subledger.exchange_rate
    where exchange_rate.currency = $1
      and exchange_rate.day <= $2
      and exchange_rate.day > $2 - 7
    order by exchange_rate.day desc
    limit 1
  )
$$;

comment on function analyst.rate_on is
  'Units of a currency for one euro on a day, by the latest rate of the week that ends with it; no row if there is none';

create or replace function analyst.rates_in(target text)
returns table (day date, currency text, rate numeric)
language sql stable as $$
  with span as (
    select
      (min(transaction.purchase_date) at time zone interval '0')::date as first_day,
      (
        greatest(max(transaction.purchase_date), max(transaction.revocation_date), now()) at time zone interval '0'
      )::date as last_day
    from subledger.transaction
  ), listed as (
    -- A rate counts until the next one, for seven days at most.
    select
      exchange_rate.currency,
      exchange_rate.day as first_day,
      least(
        lead(exchange_rate.day) over (partition by exchange_rate.currency order by exchange_rate.day) - 1,
        exchange_rate.day + 6
      ) as last_day,
      exchange_rate.per_euro
    from subledger.exchange_rate
    union all
    select 'EUR', span.first_day, span.last_day, 1
    from span
  ), daily as (
    select listed.currency, at.day::date as day, listed.per_euro
    from listed
    cross join span
    cross join lateral generate_series(
      greatest(listed.first_day, span.first_day)::timestamp, least(listed.last_day, span.last_day)::timestamp,
      interval '1 day'
    ) as at (day)
  )
  select own.day, own.currency, wanted.per_euro / own.per_euro
  from daily as own
  join daily as wanted using (day)
  where wanted.currency = $1
    and own.currency <> $1
  union all
  select at.day::date, $1, 1
  from span
  cross join lateral generate_series(span.first_day::timestamp, span.last_day::timestamp, interval '1 day') as at (day)
$$;

comment on function analyst.rates_in is
  'What one unit of each currency was worth in the currency target, on each day since the first purchase: by the latest '
  'rates of the week that ends with the day; no row if there is none';

create or replace view analyst.first_owners as
select
  stream_id,
  original_transaction_id,
  starts_at,
  ends_at,
  customer_kind,
  customer_id
from subledger.ownership
-- Not `distinct on`, through which the planner sees no statistics: it would then sort all that is joined with this view.
where reason <> 'seat'
  and not exists (
    select
    from subledger.ownership as other
    where other.stream_id = ownership.stream_id
      and other.original_transaction_id = ownership.original_transaction_id
      and other.starts_at = ownership.starts_at
      and other.reason <> 'seat'
      and (other.customer_kind, other.customer_id) < (ownership.customer_kind, ownership.customer_id)
  );

comment on view analyst.first_owners is
  'Customers like customers, but one for each instant: of several who share a subscription, the first by kind and id, so '
  'that money is counted once';
comment on column analyst.first_owners.starts_at is 'Inclusive; -infinity for the first owner';
comment on column analyst.first_owners.ends_at is 'Exclusive; infinity for the current owner';

create or replace view analyst.payments as
select
  (paid.purchase_date at time zone interval '0')::date as day,
  paid.app,
  paid.environment,
  paid.stream_id,
  analyst.store(paid.original_transaction_id) as store,
  case
    when coalesce(paid.type, 'Auto-Renewable Subscription') = 'Auto-Renewable Subscription'
      and paid.expires_date is not null then 'subscription'
    else 'one_time'
  end as kind,
  paid.product_id,
  paid.storefront,
  paid.currency,
  paid.offer_type,
  paid.offer_identifier,
  owner.customer_kind,
  owner.customer_id,
  case when paid.refund is distinct from 'full' then paid.served_until end as served_until,
  paid.price,
  paid.refund,
  case when paid.refund is not null then (paid.revocation_date at time zone interval '0')::date end as refund_day,
  paid.refunded_amount,
  paid.purchase_date,
  paid.original_transaction_id,
  paid.transaction_id,
  paid.positions,
  paid.tax,
  paid.developer_revenue,
  paid.refunds,
  case when paid.refund is distinct from 'full' then paid.paid_until end as paid_until
from analyst.refund_rate_detail as paid
left join analyst.first_owners as owner
  on owner.stream_id = paid.stream_id
  and owner.original_transaction_id = paid.original_transaction_id
  and owner.starts_at <= paid.purchase_date
  and owner.ends_at > paid.purchase_date;

comment on view analyst.payments is
  'Every payment like revenue_detail, without its number and without the years of service before it, for which all payments '
  'are sorted';
comment on column analyst.payments.day is 'Day of the purchase, UTC';
comment on column analyst.payments.storefront is 'See transactions';
comment on column analyst.payments.served_until is
  'As in refund_rate_detail; null for one-time purchases and for full refunds';
comment on column analyst.payments.paid_until is
  'As in refund_rate_detail; null for one-time purchases and for full refunds';
comment on column analyst.payments.price is 'As in revenue_detail';
comment on column analyst.payments.refund is 'As in revenue_detail';
comment on column analyst.payments.refund_day is 'As in revenue_detail';
comment on column analyst.payments.refunded_amount is 'As in revenue_detail';
comment on column analyst.payments.purchase_date is 'When it was bought, or when its period begins';
comment on column analyst.payments.tax is 'As in refund_rate_detail';
comment on column analyst.payments.developer_revenue is 'As in refund_rate_detail';
comment on column analyst.payments.refunds is 'See subledger.transaction.refunds';

create or replace view analyst.revenue_detail as
with served as (
  select
    payments.*,
    max(served_until) over before as served_before,
    max(paid_until) over before as paid_before
  from analyst.payments
  window before as (
    partition by stream_id, original_transaction_id order by purchase_date, transaction_id
    rows between unbounded preceding and 1 preceding
  )
), run as (
  -- A pause of more than 60 days begins the years of service anew.
  select
    served.*,
    count(*) filter (where purchase_date - served_before > interval '60 days') over (
      partition by stream_id, original_transaction_id order by purchase_date, transaction_id
    ) as run
  from served
)
select
  run.day,
  run.app,
  run.environment,
  run.stream_id,
  run.store,
  run.kind,
  run.product_id,
  analyst.country(run.storefront) as country,
  run.currency,
  run.offer_type,
  run.offer_identifier,
  run.customer_kind,
  run.customer_id,
  -- What one order pays for is one payment, however many products it has.
  dense_rank() over (
    partition by run.customer_id, run.customer_kind, run.stream_id order by run.purchase_date
  ) as payment,
  run.kind = 'subscription' and coalesce(
    -- What two purchases pay for counts once, such as a period to which seats were added, and only until this one.
    sum(greatest(run.paid_until - greatest(run.purchase_date, run.paid_before), interval '0')) over (
      partition by run.stream_id, run.original_transaction_id, run.run order by run.purchase_date, run.transaction_id
      rows between unbounded preceding and 1 preceding
    ) - greatest(run.paid_before - run.purchase_date, interval '0') >= interval '365 days', false
  ) as is_later,
  run.price,
  run.refund,
  run.refund_day,
  run.refunded_amount,
  run.purchase_date,
  run.original_transaction_id,
  run.transaction_id,
  run.positions,
  run.tax,
  run.developer_revenue,
  run.refunds
from run;

comment on view analyst.revenue_detail is
  'Every payment: paid purchases and renewals of subscriptions and one-time purchases, of both stores. Free trials, '
  'members of a family and assigned seats pay nothing. A purchase restored on several devices counts once';
comment on column analyst.revenue_detail.day is 'Day of the purchase, UTC';
comment on column analyst.revenue_detail.offer_type is '1 introductory, 2 promotional, 3 offer code, 4 win-back';
comment on column analyst.revenue_detail.offer_identifier is 'Name of the offer of any type';
comment on column analyst.revenue_detail.customer_kind is 'See customers: the customer who owned it when it was bought';
comment on column analyst.revenue_detail.payment is
  'The number of the payment among those of the customer, from 1; the same for all that was paid for at one instant';
comment on column analyst.revenue_detail.is_later is
  'Whether the subscription had been paid for at least 365 days before, pauses of at most 60 days not counted, so that '
  'Apple''s share is that of later years. Free trials, free days that the developer adds, and what was refunded in full or '
  'from a day on do not count';
comment on column analyst.revenue_detail.price is
  'What the customer paid, taxes included, in the currency unit; null if unknown, as in V1';
comment on column analyst.revenue_detail.refund is 'full or part; null if it does not stand refunded';
comment on column analyst.revenue_detail.refund_day is 'Day of the refund, of several the last one, UTC';
comment on column analyst.revenue_detail.refunds is 'See subledger.transaction.refunds';
comment on column analyst.revenue_detail.refunded_amount is
  'Refunded amount, in the currency unit; null if not refunded, or if the price or the percentage is unknown. What the '
  'store states is kept, even if it is more than the price';
comment on column analyst.revenue_detail.tax is 'As in refund_rate_detail';
comment on column analyst.revenue_detail.developer_revenue is 'As in refund_rate_detail';
comment on column analyst.revenue_detail.purchase_date is 'When it was bought, or when its period begins';

create or replace view analyst.revenue as
with numbered as (
  -- By the id first: it tells most customers apart, so that a sort compares little else.
  select
    payments.*,
    -- All that the first order pays for.
    rank() over (partition by customer_id, customer_kind, stream_id order by purchase_date) = 1 as is_first
  from analyst.payments
), alike as (
  -- Add up payments with the same days first: there are few distinct combinations, and most have no refund.
  select
    day, refund_day, refunds, is_first, stream_id, store, kind, product_id, storefront, currency,
    offer_type,
    count(*) as payments,
    sum(price) as gross,
    sum(refunded_amount) as refunded,
    count(*) - count(price) as unpriced
  from numbered
  group by day, refund_day, refunds, is_first, stream_id, store, kind, product_id, storefront, currency, offer_type
), entry as (
  select
    at.day, stream_id, store, kind, product_id, analyst.country(storefront) as country, currency, offer_type, is_first,
    at.gross, at.refunded, at.refunded_here, at.payments, at.unpriced
  from alike
  cross join lateral (
    values
      (day, gross, refunded, 0, payments, unpriced),
      (refund_day, null, null, case when refunds is null then refunded end, 0, 0)
    union all
    select
      ((part ->> 'at')::timestamptz at time zone interval '0')::date, null, null,
      payments * round((part ->> 'amount')::numeric / 1000, 3), 0, 0
    from jsonb_array_elements(refunds) as part
  ) as at (day, gross, refunded, refunded_here, payments, unpriced)
  where at.day is not null
), counted as (
  select
    day, stream_id, store, kind, product_id, country, currency, offer_type,
    sum(payments)::bigint as payments,
    coalesce(sum(gross), 0) as gross,
    coalesce(sum(gross) filter (where is_first), 0) as new,
    coalesce(sum(gross) filter (where not is_first), 0) as renewal,
    coalesce(sum(refunded), 0) as refunded,
    coalesce(sum(refunded_here), 0) as refunded_here,
    sum(unpriced)::bigint as unpriced
  from entry
  group by day, stream_id, store, kind, product_id, country, currency, offer_type
)
select
  counted.day,
  stream.app,
  stream.environment,
  counted.store,
  counted.kind,
  counted.product_id,
  counted.country,
  counted.currency,
  counted.offer_type,
  counted.payments,
  counted.gross,
  counted.new,
  counted.renewal,
  counted.refunded,
  counted.refunded_here,
  counted.unpriced
from counted
join subledger.stream using (stream_id);

comment on view analyst.revenue is
  'What customers paid on each day, taxes and the share of the store included, by product, country, currency and offer. '
  'For months and totals, sum. From revenue_detail; revenue_in gives it in one currency';
comment on column analyst.revenue.day is 'Day, UTC';
comment on column analyst.revenue.offer_type is '1 introductory, 2 promotional, 3 offer code, 4 win-back; null for none';
comment on column analyst.revenue.payments is 'Payments made on the day';
comment on column analyst.revenue.gross is 'What was paid on the day, refunds not deducted: new and renewal';
comment on column analyst.revenue.new is 'Of that, first payments of a customer';
comment on column analyst.revenue.renewal is 'Of that, all others';
comment on column analyst.revenue.refunded is 'What was given back of payments made on the day, whenever that was';
comment on column analyst.revenue.refunded_here is 'What was given back on the day, whenever it was paid, as in Apple''s reports';
comment on column analyst.revenue.unpriced is 'Payments of the day whose price is unknown, as in V1: not in the amounts';

create or replace function analyst.revenue_in(target text)
returns table (
  day date, app text, environment text, store text, kind text, product_id text, country text, currency text,
  offer_type integer, payments numeric, gross numeric, new numeric, renewal numeric, refunded numeric,
  refunded_here numeric, unconverted numeric, unpriced numeric
)
language sql stable as $$
  select
    revenue.day, revenue.app, revenue.environment, revenue.store, revenue.kind, revenue.product_id, revenue.country,
    revenue.currency, revenue.offer_type, revenue.payments, round(revenue.gross * factor.rate, 3),
    round(revenue.new * factor.rate, 3), round(revenue.renewal * factor.rate, 3),
    round(revenue.refunded * factor.rate, 3), round(revenue.refunded_here * factor.rate, 3),
    case when factor.rate is null then revenue.gross - revenue.refunded end, revenue.unpriced
  from analyst.revenue
  left join analyst.rates_in($1) as factor
    on factor.day = revenue.day
    and factor.currency = revenue.currency
$$;

comment on function analyst.revenue_in is
  'The view revenue in one currency, at the rates of each day. Without a rate, the amounts are null, and unconverted is '
  'what was paid and not given back, in the currency of the row: nothing is left out in silence';

create or replace function analyst.mrr_in(target text, rates_of date default null)
returns table (
  day date, app text, environment text, currency text, subscriptions bigint, mrr numeric, unconverted numeric,
  unpriced bigint
)
language sql stable as $$
  select
    mrr.day, mrr.app, mrr.environment, mrr.currency, mrr.subscriptions::bigint, round(mrr.mrr * factor.rate, 3),
    case when factor.rate is null then mrr.mrr end, mrr.unpriced::bigint
  from analyst.mrr
  left join lateral analyst.rate_on(mrr.currency, coalesce($2, mrr.day)) as own on true
  left join lateral analyst.rate_on($1, coalesce($2, mrr.day)) as wanted on true
  cross join lateral (
    select case when mrr.currency = $1 then 1 else wanted.per_euro / own.per_euro end as rate
  ) as factor
$$;

comment on function analyst.mrr_in is
  'The view mrr in one currency, at the rates of each day, or of one day for all, so that only the value itself moves. '
  'Without a rate, mrr is null, and unconverted has it in the currency of the row';

create or replace function analyst.renewal_outlook_in(target text)
returns table (
  month date, app text, environment text, store text, product_id text, length text, country text, currency text,
  offer_type integer, payer_state text, auto_renew text, subscriptions bigint, amount numeric, unconverted numeric,
  unpriced bigint
)
language sql stable as $$
  select
    due.month, due.app, due.environment, due.store, due.product_id, due.length, due.country, due.currency,
    due.offer_type, due.payer_state, due.auto_renew, due.subscriptions, round(due.amount * factor.rate, 3),
    case when factor.rate is null then due.amount end, due.unpriced
  from analyst.renewal_outlook as due
  left join lateral analyst.rate_on(due.currency, (now() at time zone 'UTC')::date) as own on true
  left join lateral analyst.rate_on($1, (now() at time zone 'UTC')::date) as wanted on true
  cross join lateral (
    select case when due.currency = $1 then 1 else wanted.per_euro / own.per_euro end as rate
  ) as factor
$$;

comment on function analyst.renewal_outlook_in is
  'The view renewal_outlook in one currency, at the rates of today. Without a rate, amount is null, and unconverted has it '
  'in the currency of the row';

create or replace view analyst.mrr_in_grace_detail as
select
  periods.app,
  periods.environment,
  periods.stream_id,
  failed.currency,
  periods.product_id,
  periods.original_transaction_id,
  periods.transaction_id,
  round(failed.price / 1000.0, 3) as price,
  analyst.monthly_price(failed.price, analyst.price_months(failed.price_period, plans.months)) as mrr,
  periods.first_day,
  periods.last_day,
  periods.positions,
  analyst.store(periods.original_transaction_id) as store,
  analyst.country(bought.storefront) as country,
  plans.length,
  bought.offer_type
from analyst.periods
join subledger.access_period as failed
  on failed.stream_id = periods.stream_id
  and failed.original_transaction_id = periods.original_transaction_id
  and failed.transaction_id = periods.transaction_id
  and failed.cause = 'paid'
  and failed.payer_state = 'paying'
left join analyst.plans
  on plans.stream_id = periods.stream_id
  and plans.product_id = periods.product_id
-- By key, so that the planner removes it if a query uses none of its columns.
left join subledger.transaction as bought
  on bought.stream_id = periods.stream_id
  and bought.original_transaction_id = periods.original_transaction_id
  and bought.transaction_id = periods.transaction_id
where periods.payer_state = 'grace'
  and (periods.first_day <= periods.last_day) is distinct from false;

comment on view analyst.mrr_in_grace_detail is
  'Monthly value of a subscription in grace, by the price of the period whose renewal failed, on each day from first_day '
  'to last_day. mrr is null as in mrr_detail. Grace after a trial has none';
comment on column analyst.mrr_in_grace_detail.transaction_id is 'The purchase whose renewal failed';
comment on column analyst.mrr_in_grace_detail.price is 'Its price, in the currency unit; null in V1';
comment on column analyst.mrr_in_grace_detail.mrr is 'price for a month, rounded to thousandths';
comment on column analyst.mrr_in_grace_detail.first_day is 'First day whose 00:00 UTC lies in the grace period';
comment on column analyst.mrr_in_grace_detail.last_day is 'Last day whose 00:00 UTC lies in it';
comment on column analyst.mrr_in_grace_detail.positions is 'Position of the first event that reported the grace period';

create or replace view analyst.mrr_stretches as
with valued as (
  select
    stream_id, original_transaction_id, store, product_id, length, country, currency, offer_type, mrr, first_day,
    last_day, positions[1] as position
  from analyst.mrr_detail
  where mrr > 0
  union all
  select
    stream_id, original_transaction_id, store, product_id, length, country, currency, offer_type, mrr, first_day,
    last_day, positions[1]
  from analyst.mrr_in_grace_detail
  where mrr > 0
), marked as (
  -- By the subscription first: it tells most rows apart, so that a sort compares little else.
  select
    valued.*,
    (
      lag(last_day) over line + 1, lag(mrr) over line, lag(currency) over line, lag(product_id) over line,
      lag(country) over line, lag(offer_type) over line
    ) is distinct from (first_day, mrr, currency, product_id, country, offer_type) as begins
  from valued
  window line as (partition by original_transaction_id, stream_id order by first_day, last_day, position)
), numbered as (
  select
    marked.*,
    count(*) filter (where begins) over (
      partition by original_transaction_id, stream_id order by first_day, last_day, position
      rows unbounded preceding
    ) as number
  from marked
)
select
  stream_id,
  original_transaction_id,
  store,
  product_id,
  length,
  country,
  currency,
  offer_type,
  mrr,
  min(first_day) as first_day,
  max(last_day) as last_day,
  array_agg(position order by first_day) as positions
from numbered
group by
  original_transaction_id, stream_id, number, store, product_id, length, country, currency, offer_type, mrr;

comment on view analyst.mrr_stretches is
  'Monthly value of a subscription on each day from first_day to last_day: periods that follow each other with the same '
  'value, product, country, currency and offer are one row. From mrr_detail and mrr_in_grace_detail';
comment on column analyst.mrr_stretches.currency is 'ISO 4217';
comment on column analyst.mrr_stretches.mrr is 'In the currency unit; above 0';
comment on column analyst.mrr_stretches.first_day is 'First day whose 00:00 UTC lies in it';
comment on column analyst.mrr_stretches.last_day is 'Last day whose 00:00 UTC lies in it';
comment on column analyst.mrr_stretches.positions is
  'Position of the first event that reported each of the periods, in their order';

create or replace view analyst.owned_mrr as
select
  held.stream_id,
  owner.customer_kind,
  owner.customer_id,
  held.original_transaction_id,
  held.store,
  held.product_id,
  held.length,
  held.country,
  held.currency,
  held.offer_type,
  held.mrr,
  greatest(held.first_day, analyst.day_from(owner.starts_at)) as first_day,
  least(held.last_day, analyst.day_from(owner.ends_at) - 1) as last_day,
  held.positions
from analyst.mrr_stretches as held
-- Every subscription has an owner. An outer join, because the planner expects only a few rows of an inner one.
left join analyst.first_owners as owner using (stream_id, original_transaction_id)
where greatest(held.first_day, analyst.day_from(owner.starts_at))
  <= least(held.last_day, analyst.day_from(owner.ends_at) - 1);

comment on view analyst.owned_mrr is
  'mrr_stretches, as far as the subscription belonged to a customer; see first_owners';
comment on column analyst.owned_mrr.currency is 'ISO 4217';
comment on column analyst.owned_mrr.mrr is 'In the currency unit; above 0';
comment on column analyst.owned_mrr.first_day is 'First day whose 00:00 UTC lies in it';
comment on column analyst.owned_mrr.last_day is 'Last day whose 00:00 UTC lies in it';
comment on column analyst.owned_mrr.positions is 'See mrr_stretches';

create or replace view analyst.mrr_movements_detail as
with change as (
  -- By the id first: it tells most customers apart, so that a sort compares little else.
  select
    owned.customer_id, owned.customer_kind, owned.stream_id, owned.currency, at.day, sum(at.delta) as delta,
    array_agg(distinct at.position order by at.position) as positions
  from analyst.owned_mrr as owned
  cross join lateral (
    values
      (owned.first_day, owned.mrr, owned.positions[1]),
      (owned.last_day + 1, -owned.mrr, owned.positions[cardinality(owned.positions)])
  ) as at (day, delta, position)
  where at.day <= (now() at time zone 'UTC')::date
  group by owned.customer_id, owned.customer_kind, owned.stream_id, owned.currency, at.day
  having sum(at.delta) <> 0
), running as (
  select
    change.*,
    sum(delta) over so_far as after,
    row_number() over so_far as number
  from change
  window so_far as (partition by customer_id, customer_kind, stream_id, currency order by day)
)
select
  running.day - 1 as day,
  date_trunc('month', running.day - 1)::date as month,
  stream.app,
  stream.environment,
  running.stream_id,
  running.customer_kind,
  running.customer_id,
  running.currency,
  case
    when running.number = 1 then 'new'
    when running.after = running.delta then 'reactivation'
    when running.delta > 0 then 'expansion'
    when running.after > 0 then 'contraction'
    else 'churn'
  end as movement,
  round(running.delta, 3) as mrr,
  round(running.after - running.delta, 3) as before,
  round(running.after, 3) as after,
  running.positions
from running
join subledger.stream using (stream_id);

comment on view analyst.mrr_movements_detail is
  'Changes of the monthly value of each customer''s subscriptions, paying or in grace, in each currency. What changes '
  'within one day is one movement. From owned_mrr';
comment on column analyst.mrr_movements_detail.day is
  'Day of the change, UTC: the values at 00:00 of this day and of the next one differ';
comment on column analyst.mrr_movements_detail.month is 'First day of its month';
comment on column analyst.mrr_movements_detail.currency is 'ISO 4217';
comment on column analyst.mrr_movements_detail.movement is
  'new (the first value ever), reactivation (again, after none), expansion, contraction, or churn (no value is left)';
comment on column analyst.mrr_movements_detail.mrr is 'By how much the value changes, in the currency unit; negative for a loss';
comment on column analyst.mrr_movements_detail.before is 'The value before';
comment on column analyst.mrr_movements_detail.after is 'The value after';
comment on column analyst.mrr_movements_detail.positions is
  'Position of the first event about each purchase or grace period that begins or ends; without those that another one '
  'with the same value follows at once';

create or replace view analyst.mrr_movements as
with counted as (
  select
    month,
    stream_id,
    currency,
    sum(mrr) filter (where movement = 'new') as new,
    sum(mrr) filter (where movement = 'reactivation') as reactivation,
    sum(mrr) filter (where movement = 'expansion') as expansion,
    -sum(mrr) filter (where movement = 'contraction') as contraction,
    -sum(mrr) filter (where movement = 'churn') as churn,
    sum(mrr) as net
  from analyst.mrr_movements_detail
  group by month, stream_id, currency
), filled as (
  select month, stream_id, currency, new, reactivation, expansion, contraction, churn, net
  from counted
  union all
  -- Add the months without movements.
  select
    generate_series(min(month), date_trunc('month', now() at time zone 'UTC'), interval '1 month')::date, stream_id,
    currency, 0, 0, 0, 0, 0, 0
  from counted
  group by stream_id, currency
), monthly as (
  select
    month,
    stream_id,
    currency,
    coalesce(sum(new), 0) as new,
    coalesce(sum(reactivation), 0) as reactivation,
    coalesce(sum(expansion), 0) as expansion,
    coalesce(sum(contraction), 0) as contraction,
    coalesce(sum(churn), 0) as churn,
    sum(net) as net,
    sum(sum(net)) over (partition by stream_id, currency order by month) as closing
  from filled
  group by month, stream_id, currency
)
select
  monthly.month,
  stream.app,
  stream.environment,
  monthly.currency,
  monthly.closing - monthly.net as opening,
  monthly.new,
  monthly.reactivation,
  monthly.expansion,
  monthly.contraction,
  monthly.churn,
  monthly.net,
  monthly.closing,
  monthly.closing * 12 as arr,
  round(100 * (monthly.churn + monthly.contraction) / nullif(monthly.closing - monthly.net, 0), 1)
    as gross_churn_percent,
  round(
    100 - 100 * (monthly.churn + monthly.contraction - monthly.expansion - monthly.reactivation)
      / nullif(monthly.closing - monthly.net, 0), 1
  ) as net_retention_percent,
  round((monthly.new + monthly.expansion) / nullif(monthly.contraction + monthly.churn, 0), 2) as quick_ratio
from monthly
join subledger.stream using (stream_id);

comment on view analyst.mrr_movements is
  'What made the monthly value of subscriptions grow and shrink in each month, grace included: opening, with the '
  'movements, is closing. From mrr_movements_detail';
comment on column analyst.mrr_movements.currency is 'ISO 4217';
comment on column analyst.mrr_movements.opening is 'Monthly value at 00:00 UTC of the first day of the month';
comment on column analyst.mrr_movements.new is 'Value of customers who had none before';
comment on column analyst.mrr_movements.reactivation is 'Value of customers who had some before, and none when they came back';
comment on column analyst.mrr_movements.expansion is 'Growth of customers with a value';
comment on column analyst.mrr_movements.contraction is 'Loss of customers who still have a value; positive';
comment on column analyst.mrr_movements.churn is 'Value of customers who have none any longer; positive';
comment on column analyst.mrr_movements.net is 'new, reactivation and expansion, less contraction and churn';
comment on column analyst.mrr_movements.closing is 'Monthly value at the end of the month; of the current month, today';
comment on column analyst.mrr_movements.arr is 'closing for a year: twelve times';
comment on column analyst.mrr_movements.gross_churn_percent is
  'churn and contraction as a percentage of opening; null if that is 0';
comment on column analyst.mrr_movements.net_retention_percent is
  'What is left of opening after churn and contraction, with expansion and reactivation, in percent; null if that is 0';
comment on column analyst.mrr_movements.quick_ratio is
  'new and expansion divided by contraction and churn; null if nothing was lost';

create or replace view analyst.mrr_movement_parts_detail as
with change as (
  -- By the id first: it tells most customers apart, so that a sort compares little else.
  select
    owned.customer_id, owned.customer_kind, owned.stream_id, owned.currency, at.day, owned.store, owned.product_id,
    owned.length, owned.country, owned.offer_type, sum(at.delta) as delta,
    array_agg(distinct at.position order by at.position) as positions
  from analyst.owned_mrr as owned
  cross join lateral (
    values
      (owned.first_day, owned.mrr, owned.positions[1]),
      (owned.last_day + 1, -owned.mrr, owned.positions[cardinality(owned.positions)])
  ) as at (day, delta, position)
  where at.day <= (now() at time zone 'UTC')::date
  group by
    owned.customer_id, owned.customer_kind, owned.stream_id, owned.currency, at.day, owned.store, owned.product_id,
    owned.length, owned.country, owned.offer_type
  having sum(at.delta) <> 0
), whole as (
  select
    change.*,
    sum(delta) over one_day as net,
    sum(delta) filter (where delta > 0) over one_day as gained,
    sum(delta) filter (where delta < 0) over one_day as lost,
    -- Up to the day, with all of its parts.
    sum(delta) over so_far as after,
    min(day) over so_far as first_day
  from change
  window
    one_day as (partition by customer_id, customer_kind, stream_id, currency, day),
    so_far as (partition by customer_id, customer_kind, stream_id, currency order by day)
), moved as (
  select
    whole.*,
    case
      when after = net then case when day = first_day then 'new' else 'reactivation' end
      when after = 0 then 'churn'
      when net > 0 then 'expansion'
      when net < 0 then 'contraction'
    end as movement,
    case
      when after = net or after = 0 then delta
      when net > 0 and delta > 0 then delta * net / gained
      when net < 0 and delta < 0 then delta * net / lost
      else 0
    end as amount
  from whole
)
select
  moved.day - 1 as day,
  date_trunc('month', moved.day - 1)::date as month,
  stream.app,
  stream.environment,
  moved.stream_id,
  moved.customer_kind,
  moved.customer_id,
  moved.store,
  moved.product_id,
  moved.length,
  moved.country,
  moved.currency,
  moved.offer_type,
  case when moved.amount <> 0 then moved.movement end as movement,
  moved.amount as mrr,
  moved.delta - moved.amount as moved,
  moved.positions
from moved
join subledger.stream using (stream_id);

comment on view analyst.mrr_movement_parts_detail is
  'mrr_movements_detail by product, country and offer: what each of them has of a movement of the customer. If a customer '
  'changes from one to another, the difference is the movement, and the rest moved';
comment on column analyst.mrr_movement_parts_detail.day is 'See mrr_movements_detail';
comment on column analyst.mrr_movement_parts_detail.month is 'First day of its month';
comment on column analyst.mrr_movement_parts_detail.currency is 'ISO 4217';
comment on column analyst.mrr_movement_parts_detail.movement is
  'See mrr_movements_detail; null if all of the change moved from or to another product, country or offer';
comment on column analyst.mrr_movement_parts_detail.mrr is
  'Its part of the movement, in the currency unit; negative for a loss. Over all parts, the mrr of mrr_movements_detail';
comment on column analyst.mrr_movement_parts_detail.moved is
  'What moved to it from other products, countries or offers of the customer; negative for what moved from it. Over all '
  'parts, 0';
comment on column analyst.mrr_movement_parts_detail.positions is 'See mrr_movements_detail';

create or replace view analyst.mrr_movement_parts as
with counted as (
  select
    month, stream_id, store, product_id, length, country, currency, offer_type,
    round(coalesce(sum(mrr) filter (where movement = 'new'), 0), 3) as new,
    round(coalesce(sum(mrr) filter (where movement = 'reactivation'), 0), 3) as reactivation,
    round(coalesce(sum(mrr) filter (where movement = 'expansion'), 0), 3) as expansion,
    round(coalesce(-sum(mrr) filter (where movement = 'contraction'), 0), 3) as contraction,
    round(coalesce(-sum(mrr) filter (where movement = 'churn'), 0), 3) as churn,
    round(sum(mrr + moved), 3) as net
  from analyst.mrr_movement_parts_detail
  group by month, stream_id, store, product_id, length, country, currency, offer_type
), filled as (
  select
    month, stream_id, store, product_id, length, country, currency, offer_type, new, reactivation, expansion,
    contraction, churn, net
  from counted
  union all
  -- Add the months without movements.
  select
    generate_series(min(month), date_trunc('month', now() at time zone 'UTC'), interval '1 month')::date, stream_id,
    store, product_id, length, country, currency, offer_type, 0, 0, 0, 0, 0, 0
  from counted
  group by stream_id, store, product_id, length, country, currency, offer_type
), monthly as (
  select
    month, stream_id, store, product_id, length, country, currency, offer_type,
    sum(new) as new,
    sum(reactivation) as reactivation,
    sum(expansion) as expansion,
    sum(contraction) as contraction,
    sum(churn) as churn,
    sum(net) as net,
    sum(sum(net)) over (
      partition by stream_id, store, product_id, length, country, currency, offer_type order by month
    ) as closing
  from filled
  group by month, stream_id, store, product_id, length, country, currency, offer_type
)
select
  monthly.month,
  stream.app,
  stream.environment,
  monthly.store,
  monthly.product_id,
  monthly.length,
  monthly.country,
  monthly.currency,
  monthly.offer_type,
  monthly.closing - monthly.net as opening,
  monthly.new,
  monthly.reactivation,
  monthly.expansion,
  monthly.contraction,
  monthly.churn,
  -- The rest, so that opening and movements are closing to the last digit.
  monthly.net - monthly.new - monthly.reactivation - monthly.expansion + monthly.contraction + monthly.churn as moved,
  monthly.closing
from monthly
join subledger.stream using (stream_id)
where (
    monthly.closing, monthly.net, monthly.new, monthly.reactivation, monthly.expansion, monthly.contraction, monthly.churn
  ) <> (0, 0, 0, 0, 0, 0, 0);

comment on view analyst.mrr_movement_parts is
  'mrr_movements by store, product, plan length, country and offer: opening, with the movements and moved, is closing, for '
  'each of them and for their sums. From mrr_movement_parts_detail; mrr_movements_in gives it in one currency';
comment on column analyst.mrr_movement_parts.currency is 'ISO 4217';
comment on column analyst.mrr_movement_parts.opening is 'Monthly value at 00:00 UTC of the first day of the month';
comment on column analyst.mrr_movement_parts.new is 'See mrr_movements';
comment on column analyst.mrr_movement_parts.reactivation is 'See mrr_movements';
comment on column analyst.mrr_movement_parts.expansion is 'See mrr_movements';
comment on column analyst.mrr_movement_parts.contraction is 'See mrr_movements';
comment on column analyst.mrr_movement_parts.churn is 'See mrr_movements';
comment on column analyst.mrr_movement_parts.moved is
  'What customers moved to it from other products, countries or offers, less what they moved from it';
comment on column analyst.mrr_movement_parts.closing is 'Monthly value at the end of the month; of the current month, today';

create or replace function analyst.mrr_movements_in(target text, rates_of date default null)
returns table (
  month date, app text, environment text, store text, product_id text, length text, country text, currency text,
  offer_type integer, opening numeric, new numeric, reactivation numeric, expansion numeric, contraction numeric,
  churn numeric, moved numeric, closing numeric, unconverted numeric
)
language sql stable as $$
  with factor as materialized (
    select
      held.currency,
      case when held.currency = $1 then 1 else wanted.per_euro / own.per_euro end as rate
    from (
      select distinct transaction.currency
      from subledger.transaction
      where transaction.currency is not null
    ) as held
    left join lateral analyst.rate_on(held.currency, coalesce($2, (now() at time zone 'UTC')::date)) as own on true
    left join lateral analyst.rate_on($1, coalesce($2, (now() at time zone 'UTC')::date)) as wanted on true
  )
  select
    part.month, part.app, part.environment, part.store, part.product_id, part.length, part.country, part.currency,
    part.offer_type, part.opening * factor.rate, part.new * factor.rate, part.reactivation * factor.rate,
    part.expansion * factor.rate, part.contraction * factor.rate, part.churn * factor.rate, part.moved * factor.rate,
    part.closing * factor.rate, case when factor.rate is null then part.closing end
  from analyst.mrr_movement_parts as part
  left join factor using (currency)
$$;

comment on function analyst.mrr_movements_in is
  'The view mrr_movement_parts in one currency, at the rates of one day for all months, by default of today, so that opening '
  'and movements are closing. Not rounded: round the sums. Without a rate, the amounts are null, and unconverted has '
  'closing in the currency of the row';

create or replace function analyst.commission_on(store text, kind text, country text, day date)
returns table (percent numeric, later_percent numeric)
language sql stable as $$
  select commission.percent, commission.later_percent
  from subledger.commission
  where commission.store = $1
    and commission.kind = $2
    and commission.country in ($3, '')
    and commission.starts_on <= $4
  order by commission.country desc, commission.starts_on desc
  limit 1
$$;

create or replace function analyst.tax_on(country text, day date) returns table (percent numeric)
language sql stable as $$
  select tax_rate.percent
  from subledger.tax_rate
  where tax_rate.country in ($1, '')
    and tax_rate.starts_on <= $2
  order by tax_rate.country desc, tax_rate.starts_on desc
  limit 1
$$;

comment on function analyst.commission_on is
  'The share of a store on a day, by the imported table: that of the country, else that of all countries; no row if '
  'there is none';
comment on function analyst.tax_on is
  'The tax in prices of a country on a day, by the imported table: its own, else that of all countries; no row if there '
  'is none';

create or replace view analyst.proceeds_detail as
select
  sold.day,
  sold.app,
  sold.environment,
  sold.stream_id,
  sold.store,
  sold.kind,
  sold.product_id,
  sold.country,
  sold.currency,
  sold.price - coalesce(sold.refunded_amount, 0) as paid,
  sold.is_later,
  tax.percent as tax_percent,
  case when sold.is_later then commission.later_percent else commission.percent end as commission_percent,
  sold.original_transaction_id,
  sold.transaction_id,
  sold.positions,
  sold.tax,
  sold.developer_revenue as proceeds
from analyst.revenue_detail as sold
left join lateral analyst.commission_on(sold.store, sold.kind, sold.country, sold.day) as commission on true
left join lateral analyst.tax_on(sold.country, sold.day) as tax on true
where sold.price is not null;

comment on view analyst.proceeds_detail is
  'Every payment whose price is known, with the tax rate and the commission that the imported tables have for its day, and '
  'with the tax and the proceeds that Google''s order states. Apple states neither for single payments';
comment on column analyst.proceeds_detail.tax is
  'The tax in the price, in the currency unit, as Google''s order states it; null if it does not, and for Apple';
comment on column analyst.proceeds_detail.proceeds is
  'What the developer receives, in the currency unit, as Google''s order states it; null if it does not, and for Apple';
comment on column analyst.proceeds_detail.day is 'Day of the purchase, UTC';
comment on column analyst.proceeds_detail.currency is 'ISO 4217';
comment on column analyst.proceeds_detail.paid is 'The price less what was given back, in the currency unit';
comment on column analyst.proceeds_detail.is_later is 'Whether the share of later years counts: see revenue_detail';
comment on column analyst.proceeds_detail.tax_percent is
  'Tax in percent of the price without it; null if the table has no rate of the country or of all countries yet';
comment on column analyst.proceeds_detail.commission_percent is
  'Share of the store in percent of the price without tax; null if the table has none';

create or replace view analyst.proceeds as
with alike as (
  select
    day, stream_id, store, kind, product_id, country, currency, is_later,
    developer_revenue is null as estimated,
    sum(price - coalesce(refunded_amount, 0)) as paid,
    -- What was paid back has its part of the tax.
    sum(coalesce(tax * (price - coalesce(refunded_amount, 0)) / nullif(price, 0), tax, 0)) as tax,
    sum(developer_revenue) as proceeds
  from analyst.revenue_detail
  where price is not null
  group by day, stream_id, store, kind, product_id, country, currency, is_later, developer_revenue is null
), rated as (
  select
    sold.day, sold.stream_id, sold.store, sold.kind, sold.product_id, sold.country, sold.currency, sold.estimated,
    sold.paid,
    case when sold.estimated then sold.paid * tax.percent / (100 + tax.percent) else sold.tax end as tax,
    tax.percent as tax_percent,
    sold.proceeds,
    case when sold.is_later then commission.later_percent else commission.percent end as commission_percent
  from alike as sold
  left join lateral analyst.commission_on(sold.store, sold.kind, sold.country, sold.day) as commission on true
  left join lateral analyst.tax_on(sold.country, sold.day) as tax on true
), shared as (
  select
    rated.*,
    case when estimated then paid * commission_percent / (100 + tax_percent) else 0 end as commission
  from rated
), summed as (
  select
    day, stream_id, store, kind, product_id, country, currency, estimated,
    sum(paid) as paid,
    -- A half is rounded up, also where a quotient before it lacks a bit.
    round(round(sum(tax) filter (where commission is not null), 9), 3) as tax,
    round(round(sum(commission), 9), 3) as commission,
    sum(proceeds) as proceeds,
    coalesce(sum(paid) filter (where commission is null), 0) as unestimated
  from shared
  group by day, stream_id, store, kind, product_id, country, currency, estimated
)
select
  summed.day,
  stream.app,
  stream.environment,
  summed.store,
  summed.kind,
  summed.product_id,
  summed.country,
  summed.currency,
  summed.paid,
  summed.tax,
  -- The rest, so that the columns add up to the last digit.
  case when summed.estimated then summed.commission else summed.paid - summed.tax - summed.proceeds end as commission,
  case
    when summed.estimated then summed.paid - summed.unestimated - summed.tax - summed.commission
    else summed.proceeds
  end as proceeds,
  summed.unestimated,
  summed.estimated
from summed
join subledger.stream using (stream_id);

comment on view analyst.proceeds is
  'What is left of payments after tax and the share of the store: paid is tax, commission, proceeds and unestimated. As '
  'Google''s orders state it, where they are known, else estimated from the imported tables. From proceeds_detail';
comment on column analyst.proceeds.day is 'Day of the purchases, UTC';
comment on column analyst.proceeds.currency is 'ISO 4217';
comment on column analyst.proceeds.paid is 'Prices less what was given back, in the currency unit';
comment on column analyst.proceeds.tax is 'Tax in it; null if no rate is known';
comment on column analyst.proceeds.commission is 'Share of the store in the rest; null if no rate is known';
comment on column analyst.proceeds.proceeds is 'What is left; null if no rate is known';
comment on column analyst.proceeds.unestimated is 'The part of paid for which a table has no rate';
comment on column analyst.proceeds.estimated is
  'Whether the imported tables gave tax, commission and proceeds; false if the orders of the store state them';

create or replace function analyst.ltv_in(target text)
returns table (
  cohort date, app text, environment text, country text, months integer, customers bigint, revenue numeric,
  per_customer numeric, unconverted bigint, is_complete boolean
)
language sql stable as $$
  with payment as (
    select
      payments.stream_id,
      min(payments.day) over own as first_day,
      first_value(analyst.country(payments.storefront)) over own as country,
      payments.day,
      row_number() over own as payment,
      (payments.price - coalesce(payments.refunded_amount, 0)) * factor.rate as amount
    from analyst.payments
    left join analyst.rates_in($1) as factor
      on factor.day = payments.day
      and factor.currency = payments.currency
    where payments.customer_id is not null
    window own as (
      partition by payments.customer_id, payments.customer_kind, payments.stream_id
      order by payments.purchase_date, payments.transaction_id
      rows between unbounded preceding and unbounded following
    )
  ), monthly as (
    select
      payment.stream_id,
      date_trunc('month', payment.first_day)::date as cohort,
      payment.country,
      (extract(year from age(payment.day, payment.first_day)) * 12
        + extract(month from age(payment.day, payment.first_day)))::integer as month,
      sum(payment.amount) as amount,
      count(*) filter (where payment.amount is null) as unconverted,
      count(*) filter (where payment.payment = 1) as customers
    from payment
    group by 1, 2, 3, 4
  ), total as (
    select monthly.stream_id, monthly.cohort, monthly.country, sum(monthly.customers)::bigint as customers
    from monthly
    group by 1, 2, 3
  )
  select
    total.cohort, stream.app, stream.environment, total.country, number.months, total.customers,
    round(coalesce(sum(monthly.amount), 0), 3), round(coalesce(sum(monthly.amount), 0) / total.customers, 3),
    coalesce(sum(monthly.unconverted), 0)::bigint,
    (total.cohort + make_interval(months => number.months + 2))::date <= (now() at time zone 'UTC')::date
  from total
  join subledger.stream using (stream_id)
  cross join lateral generate_series(
    0,
    (extract(year from age(now() at time zone 'UTC', total.cohort)) * 12
      + extract(month from age(now() at time zone 'UTC', total.cohort)))::integer
  ) as number (months)
  left join monthly
    on monthly.stream_id = total.stream_id
    and monthly.cohort = total.cohort
    and monthly.country is not distinct from total.country
    and monthly.month <= number.months
  group by total.cohort, stream.app, stream.environment, total.country, number.months, total.customers
$$;

comment on function analyst.ltv_in is
  'What the customers whose first payment was in a month have paid, refunds deducted, by the country of that payment: '
  'revenue in their first months, from 0 on, summed, and for each customer, in one currency at the rates of each day. '
  'unconverted is the number of payments without a rate or a price. Complete once the month has passed for every customer';

create or replace function analyst.arppu_in(target text)
returns table (
  month date, app text, environment text, customers bigint, revenue numeric, arppu numeric, unconverted bigint
)
language sql stable as $$
  with paid as (
    select
      date_trunc('month', payments.day)::date as month,
      payments.stream_id,
      payments.customer_kind,
      payments.customer_id,
      sum((payments.price - coalesce(payments.refunded_amount, 0)) * factor.rate) as revenue,
      count(*) filter (where payments.price is null or factor.rate is null) as unconverted
    from analyst.payments
    left join analyst.rates_in($1) as factor
      on factor.day = payments.day
      and factor.currency = payments.currency
    group by 1, 2, 3, 4
  )
  select
    paid.month, stream.app, stream.environment, count(paid.customer_id), coalesce(round(sum(paid.revenue), 3), 0),
    round(sum(paid.revenue) / nullif(count(paid.customer_id), 0), 3), sum(paid.unconverted)::bigint
  from paid
  join subledger.stream using (stream_id)
  group by paid.month, stream.app, stream.environment
$$;

comment on function analyst.arppu_in is
  'Customers who paid in each month, what they paid in it, refunds deducted, and that for each of them, in one currency '
  'at the rates of each day. unconverted is the number of payments without a rate or a price';

create or replace view analyst.offers_detail as
-- Materialized, because the planner would compute it for each row.
with plan as materialized (
  select stream_id, product_id, length
  from analyst.plans
), redeeming as (
  select distinct stream_id, original_transaction_id
  from subledger.transaction
  where coalesce(offer_type, case when is_trial_period or is_in_intro_offer_period then 1 end) is not null
    and coalesce(in_app_ownership_type, '') not in ('FAMILY_SHARED', 'ASSIGNED', 'GRANTED')
), purchase as (
  select
    bought.stream_id,
    bought.original_transaction_id,
    bought.transaction_id,
    bought.product_id,
    bought.purchase_date,
    bought.expires_date,
    bought.storefront,
    bought.currency,
    bought.billing_plan_type,
    bought.positions,
    coalesce(bought.offer_type, case when bought.is_trial_period or bought.is_in_intro_offer_period then 1 end)
      as offer_type,
    analyst.offer_identifier(bought.offer_identifier, bought.promotional_offer_id, bought.offer_code_ref_name)
      as offer_identifier,
    coalesce(
      bought.offer_discount_type, case when bought.is_trial_period then 'FREE_TRIAL' end
    ) as offer_discount_type,
    refunded.refund,
    -- A trial is free, even if its price was not reported.
    case when bought.is_trial_period or bought.offer_discount_type = 'FREE_TRIAL' then 0 else bought.price end as price,
    case
      when refunded.refund is null then 0
      when bought.refunded_price is not null then bought.refunded_price
      when refunded.refund = 'full' then round(bought.price * coalesce(bought.revocation_percentage, 100000) / 100000.0)
      else round(bought.price * bought.revocation_percentage / 100000.0)
    end as paid_back
  from redeeming
  join subledger.transaction as bought using (stream_id, original_transaction_id)
  cross join lateral (
    select analyst.refund(
      bought.revocation_date, bought.revocation_type, bought.revocation_reason, bought.is_upgraded,
      bought.in_app_ownership_type,
      coalesce(bought.refunded_price >= bought.price, bought.revocation_percentage >= 100000, false)
    ) as refund
  ) as refunded
  where bought.purchase_date is not null
    and bought.expires_date is not null
    and coalesce(bought.additional ->> 'additionalTransactionReason', '') <> 'SEAT_ADDITION'
    and not exists (
      -- Of copies, a refunded one counts, else the first.
      select
      from subledger.transaction as copy
      where copy.stream_id = bought.stream_id
        and copy.web_order_line_item_id = bought.web_order_line_item_id
        and copy.original_transaction_id = bought.original_transaction_id
        and coalesce(copy.additional ->> 'additionalTransactionReason', '') <> 'SEAT_ADDITION'
        and (copy.revocation_date is null, copy.transaction_id) < (bought.revocation_date is null, bought.transaction_id)
    )
    and not exists (
      -- Of the purchases of Google Play that show one order, one counts.
      select
      from subledger.transaction as other
      where other.stream_id = bought.stream_id
        and other.transaction_id = bought.transaction_id
        and (other.revocation_date is null, other.original_transaction_id)
          < (bought.revocation_date is null, bought.original_transaction_id)
        and analyst.store(other.original_transaction_id) = 'google'
    )
), ordered as (
  select
    purchase.*,
    offer_type is not null
      and (
        lag(offer_type) over line is distinct from offer_type
        or lag(offer_identifier) over line is distinct from offer_identifier
        or lag(expires_date) over line < purchase_date
      ) as is_redeemed
  from purchase
  window line as (partition by stream_id, original_transaction_id order by purchase_date, transaction_id)
), numbered as (
  select
    ordered.*,
    count(*) filter (where is_redeemed) over (
      partition by stream_id, original_transaction_id order by purchase_date, transaction_id
    ) as redemption
  from ordered
), redemption as (
  select
    stream_id,
    original_transaction_id,
    min(purchase_date) as redeemed_at,
    (array_agg(transaction_id order by purchase_date, transaction_id))[1] as transaction_id,
    (array_agg(product_id order by purchase_date, transaction_id))[1] as product_id,
    (array_agg(storefront order by purchase_date, transaction_id))[1] as storefront,
    (array_agg(currency order by purchase_date, transaction_id))[1] as currency,
    (array_agg(billing_plan_type order by purchase_date, transaction_id))[1] as billing_plan_type,
    (array_agg(offer_type order by purchase_date, transaction_id))[1] as offer_type,
    (array_agg(offer_identifier order by purchase_date, transaction_id))[1] as offer_identifier,
    (array_agg(offer_discount_type order by purchase_date, transaction_id))[1] as offer_discount_type,
    bool_and(refund is not distinct from 'full') filter (where offer_type is not null) as is_refunded,
    max(expires_date) filter (where offer_type is not null) as offer_ends_at,
    sum(price - paid_back) filter (where offer_type is not null) as offer_revenue,
    count(*) filter (where offer_type is null and refund is distinct from 'full') as standard_payments,
    min(purchase_date) filter (where offer_type is null and refund is distinct from 'full') as converted_at,
    sum(price - paid_back) filter (where offer_type is null) as revenue,
    count(*) filter (where price is null or paid_back is null) as unpriced,
    array_agg(positions[1] order by purchase_date, transaction_id) as positions
  from numbered
  where redemption > 0
  group by stream_id, original_transaction_id, redemption
)
select
  analyst.month_of(redemption.redeemed_at) as month,
  stream.app,
  stream.environment,
  redemption.stream_id,
  analyst.store(redemption.original_transaction_id) as store,
  redemption.product_id,
  plan.length,
  analyst.country(redemption.storefront) as country,
  redemption.currency,
  redemption.offer_type,
  redemption.offer_identifier,
  redemption.offer_discount_type,
  redemption.original_transaction_id,
  redemption.transaction_id,
  redemption.redeemed_at,
  redemption.offer_ends_at,
  case
    when redemption.is_refunded then 'refunded'
    when redemption.converted_at is not null then 'converted'
    when redemption.offer_ends_at > now() then 'running'
    when subscription.in_billing_retry
      and redemption.offer_ends_at + analyst.retry_length(redemption.billing_plan_type) > now() then 'retried'
    else 'lost'
  end as outcome,
  redemption.converted_at,
  greatest(redemption.standard_payments - 1, 0) as renewals,
  round(coalesce(redemption.offer_revenue, 0) / 1000, 3) as offer_revenue,
  round(coalesce(redemption.revenue, 0) / 1000, 3) as revenue,
  redemption.unpriced,
  redemption.positions
from redemption
join subledger.stream using (stream_id)
left join subledger.subscription using (stream_id, original_transaction_id)
left join plan
  on plan.stream_id = redemption.stream_id
  and plan.product_id = redemption.product_id;

comment on view analyst.offers_detail is
  'Every offer that a customer used for a subscription, from its first period on, and what followed until the next offer. '
  'Periods with the same offer that follow each other are one use. Family members and assigned seats use none';
comment on column analyst.offers_detail.month is 'First day of the month in which the first period with it began, UTC';
comment on column analyst.offers_detail.product_id is 'The product that was bought with it';
comment on column analyst.offers_detail.country is 'Country of the first period with it, ISO 3166-1 alpha-3; null if unknown';
comment on column analyst.offers_detail.offer_type is '1 introductory, 2 promotional, 3 offer code, 4 win-back';
comment on column analyst.offers_detail.transaction_id is 'The first purchase with it';
comment on column analyst.offers_detail.redeemed_at is 'Start of the first period with it';
comment on column analyst.offers_detail.offer_ends_at is 'End of the last period with it';
comment on column analyst.offers_detail.outcome is
  'converted (a period at the standard price followed, which was not refunded in full), running, retried (the store is '
  'still retrying the charge), refunded (all periods with it were refunded in full), or lost';
comment on column analyst.offers_detail.converted_at is 'Start of the first period at the standard price; null if there is none';
comment on column analyst.offers_detail.renewals is 'Periods at the standard price after that one, without those that were refunded in full';
comment on column analyst.offers_detail.offer_revenue is
  'What was paid for the periods with the offer, less refunds, in the currency unit';
comment on column analyst.offers_detail.revenue is
  'What was paid at the standard price after it, less refunds, in the currency unit';
comment on column analyst.offers_detail.unpriced is 'Periods whose price or refund is unknown, as in V1: not in the amounts';
comment on column analyst.offers_detail.positions is
  'Position of the first event that reported each of the purchases, in their order';

create or replace view analyst.offers as
select
  month,
  app,
  environment,
  store,
  product_id,
  length,
  country,
  currency,
  offer_type,
  offer_identifier,
  offer_discount_type,
  count(*) as redeemed,
  count(*) filter (where outcome = 'converted') as converted,
  count(*) filter (where outcome = 'lost') as lost,
  count(*) filter (where outcome in ('running', 'retried')) as undecided,
  count(*) filter (where outcome = 'refunded') as refunded,
  sum(renewals)::bigint as renewals,
  sum(offer_revenue) as offer_revenue,
  sum(revenue) as revenue,
  sum(unpriced)::bigint as unpriced
from analyst.offers_detail
group by
  month, app, environment, store, product_id, length, country, currency, offer_type, offer_identifier,
  offer_discount_type;

comment on view analyst.offers is
  'Offers that customers used for subscriptions, by the month in which they began: how many came to pay the standard '
  'price, how often they renewed, and what was paid. For a rate, divide the sums: converted by converted and lost. From '
  'offers_detail';
comment on column analyst.offers.month is 'First day of the month in which the first period with the offer began, UTC';
comment on column analyst.offers.offer_type is '1 introductory, 2 promotional, 3 offer code, 4 win-back';
comment on column analyst.offers.redeemed is 'How often it was used';
comment on column analyst.offers.converted is 'Those followed by a period at the standard price, which was not refunded in full';
comment on column analyst.offers.lost is 'Those that ended without one';
comment on column analyst.offers.undecided is 'Those that are running, or whose next charge the store is still retrying';
comment on column analyst.offers.refunded is 'Those whose periods with the offer were all refunded in full';
comment on column analyst.offers.renewals is 'Further periods at the standard price';
comment on column analyst.offers.offer_revenue is 'Paid for the periods with the offer, less refunds, in the currency unit';
comment on column analyst.offers.revenue is 'Paid at the standard price after it, less refunds, in the currency unit';
comment on column analyst.offers.unpriced is 'Periods whose price or refund is unknown, as in V1: not in the amounts';

create or replace view analyst.price_cohorts_detail as
-- Materialized, because the planner would compute it for each row.
with plan as materialized (
  select stream_id, product_id, length, months
  from analyst.plans
), charge as (
  select
    charged.stream_id,
    charged.original_transaction_id,
    charged.transaction_id,
    charged.product_id,
    charged.starts_at,
    charged.ends_at,
    -- After a failed renewal, access ends with the grace of the period.
    coalesce(charged.churned_at, grace.churned_at) as churned_at,
    coalesce(charged.churn_reason, grace.churn_reason) as churn_reason,
    charged.price,
    charged.price_period,
    charged.currency,
    charged.positions,
    bought.storefront,
    bought.offer_type,
    analyst.offer_identifier(bought.offer_identifier, bought.promotional_offer_id, bought.offer_code_ref_name)
      as offer_identifier
  from analyst.ordered_periods as charged
  -- An outer join, because the planner expects only a few rows of an inner one.
  left join (
    select
      stream_id, original_transaction_id, transaction_id, storefront, offer_type, offer_identifier,
      promotional_offer_id, offer_code_ref_name, true as counts
    from subledger.transaction
    where not exists (
      -- Of the purchases of Google Play that show one order, one counts.
      select
      from subledger.transaction as other
      where other.stream_id = transaction.stream_id
        and other.transaction_id = transaction.transaction_id
        and other.original_transaction_id < transaction.original_transaction_id
        and analyst.store(other.original_transaction_id) = 'google'
    )
  ) as bought
    on bought.stream_id = charged.stream_id
    and bought.original_transaction_id = charged.original_transaction_id
    and bought.transaction_id = charged.transaction_id
  left join subledger.access_period as grace
    on grace.stream_id = charged.stream_id
    and grace.original_transaction_id = charged.original_transaction_id
    and grace.transaction_id = charged.transaction_id
    and grace.cause = 'grace'
  where charged.payer_state = 'paying'
    and not charged.is_refunded
    and charged.price is distinct from 0
    and charged.starts_at < charged.ends_at
    and coalesce(bought.counts, false)
), cohort as (
  select
    stream_id,
    original_transaction_id,
    product_id,
    storefront,
    currency,
    price,
    price_period,
    offer_type,
    offer_identifier,
    count(*) as payments,
    min(starts_at) as first_paid_at,
    max(starts_at) as last_paid_at,
    max(ends_at) as paid_until,
    max(max(starts_at)) over (partition by original_transaction_id, stream_id) = max(starts_at) as is_last,
    -- One aggregate, because each is sorted by itself.
    (array_agg(
      array[transaction_id, churned_at::text, churn_reason] order by starts_at desc, transaction_id desc
    ))[1:1] as latest,
    array_agg(positions[1] order by starts_at, transaction_id) as positions
  from charge
  -- By the subscription first: it tells most rows apart, so that a sort compares little else.
  group by
    original_transaction_id, stream_id, product_id, storefront, currency, price, price_period, offer_type,
    offer_identifier
)
select
  stream.app,
  stream.environment,
  cohort.stream_id,
  analyst.store(cohort.original_transaction_id) as store,
  cohort.product_id,
  plan.length,
  analyst.country(cohort.storefront) as country,
  cohort.currency,
  round(cohort.price / 1000.0, 3) as price,
  cohort.offer_type,
  cohort.offer_identifier,
  cohort.original_transaction_id,
  cohort.latest[1][1] as transaction_id,
  cohort.first_paid_at,
  cohort.last_paid_at,
  cohort.payments,
  state.state,
  case when state.state = 'active' then
    round(analyst.monthly_price(cohort.price, analyst.price_months(cohort.price_period, plan.months)), 3)
  end as mrr,
  case when state.state = 'churned' then coalesce(cohort.latest[1][3], subscription.last_churn_reason) end
    as churn_reason,
  case
    -- The stores report the consent on, also once the next renewal costs as much as the last one.
    when state.state = 'active' and subscription.price_increase_status = 1
      and (subscription.renewal_price = cohort.price) is not true then 'agreed'
    when state.state = 'active' and subscription.price_increase_status = 0 then 'silent'
    when state.state = 'churned' and coalesce(cohort.latest[1][3], subscription.last_churn_reason) = 'price' then 'left'
  end as price_increase,
  cohort.positions
from cohort
join subledger.stream using (stream_id)
join subledger.subscription using (stream_id, original_transaction_id)
left join plan
  on plan.stream_id = cohort.stream_id
  and plan.product_id = cohort.product_id
cross join lateral (
  select
    case
      when cohort.paid_until > now() then 'active'
      -- In grace, the last period is that of the payment before it.
      when subscription.last_transaction_id = cohort.latest[1][1] and subscription.last_ends_at > now() then 'active'
      when cohort.is_last or cohort.latest[1][2] is not null then 'churned'
      else 'moved'
    end as state
) as state;

comment on view analyst.price_cohorts_detail is
  'Every price that a subscription paid, and how it stands with it: active, churned, or moved to another price. Grace '
  'counts as active. Free trials and full refunds are left out';
comment on column analyst.price_cohorts_detail.currency is 'ISO 4217; null in V1';
comment on column analyst.price_cohorts_detail.price is 'Price of a period, in the currency unit; null in V1';
comment on column analyst.price_cohorts_detail.transaction_id is 'The last purchase at the price';
comment on column analyst.price_cohorts_detail.first_paid_at is 'Start of the first period at the price';
comment on column analyst.price_cohorts_detail.last_paid_at is 'Start of the last period at the price';
comment on column analyst.price_cohorts_detail.payments is 'Number of periods at the price';
comment on column analyst.price_cohorts_detail.state is
  'active, churned (access ended with this price, even if the customer bought again later), or moved';
comment on column analyst.price_cohorts_detail.mrr is
  'Monthly value, in the currency unit; null unless active, and as in mrr_detail';
comment on column analyst.price_cohorts_detail.churn_reason is 'Why access ended, see movements_detail; null unless churned';
comment on column analyst.price_cohorts_detail.price_increase is
  'What became of a price increase: agreed, silent (asked, without an answer yet), left (not accepted); null for none, '
  'and once the subscription has moved to the new price';
comment on column analyst.price_cohorts_detail.positions is
  'Position of the first event that reported each of the purchases, in their order';

create or replace view analyst.price_cohorts as
with counted as (
  select
    stream_id,
    store,
    product_id,
    length,
    country,
    currency,
    price,
    offer_type,
    offer_identifier,
    min(first_paid_at) as first_paid_at,
    count(*) as subscriptions,
    count(*) filter (where state = 'active') as active,
    sum(mrr) as mrr,
    count(*) filter (where state = 'churned') as churned,
    count(*) filter (where state = 'moved') as moved,
    count(price_increase) as increase_asked,
    count(*) filter (where price_increase = 'agreed') as increase_agreed,
    count(*) filter (where price_increase = 'silent') as increase_silent,
    count(*) filter (where price_increase = 'left') as increase_left
  from analyst.price_cohorts_detail
  group by stream_id, store, product_id, length, country, currency, price, offer_type, offer_identifier
)
select
  stream.app,
  stream.environment,
  counted.store,
  counted.product_id,
  counted.length,
  counted.country,
  counted.currency,
  counted.price,
  counted.offer_type,
  counted.offer_identifier,
  counted.first_paid_at,
  counted.subscriptions,
  counted.active,
  coalesce(counted.mrr, 0) as mrr,
  counted.churned,
  counted.moved,
  round(100.0 * counted.churned / counted.subscriptions, 1) as churned_percent,
  counted.increase_asked,
  counted.increase_agreed,
  counted.increase_silent,
  counted.increase_left
from counted
join subledger.stream using (stream_id);

comment on view analyst.price_cohorts is
  'Subscriptions by the price that they paid, as they stand now. One that paid several prices counts with each. From '
  'price_cohorts_detail';
comment on column analyst.price_cohorts.currency is 'ISO 4217; null in V1';
comment on column analyst.price_cohorts.price is 'Price of a period, in the currency unit; null in V1';
comment on column analyst.price_cohorts.first_paid_at is 'When it was paid first';
comment on column analyst.price_cohorts.subscriptions is 'Subscriptions that paid it: active, churned and moved';
comment on column analyst.price_cohorts.active is 'Those that have access by it now, grace included';
comment on column analyst.price_cohorts.mrr is 'Monthly value of the active ones, in the currency unit';
comment on column analyst.price_cohorts.churned is 'Those whose access ended with it';
comment on column analyst.price_cohorts.moved is 'Those that paid another price after it';
comment on column analyst.price_cohorts.churned_percent is 'churned as a percentage of subscriptions';
comment on column analyst.price_cohorts.increase_asked is
  'Those that were asked about a price increase and have not paid it yet: agreed, silent and left';
comment on column analyst.price_cohorts.increase_agreed is 'Those that agreed';
comment on column analyst.price_cohorts.increase_silent is 'Those that did not answer yet';
comment on column analyst.price_cohorts.increase_left is 'Those that ended because they did not accept it';

create or replace view analyst.store_reports as
select
  store_report.kind,
  store_report.name,
  store_report.first_day,
  store_report.last_day,
  store_report.rows,
  store_report.imported_at,
  lead(store_report.imported_at) over same_name as replaced_at,
  store_report.sha256
from subledger.store_report
window same_name as (
  partition by store_report.kind, store_report.name order by store_report.imported_at, store_report.sha256
);

comment on view analyst.store_reports is
  'Files of the stores that `subledger report import` read, with those that were replaced';
comment on column analyst.store_reports.name is 'Name of the file, without what compression and browsers add';
comment on column analyst.store_reports.rows is 'Number of its rows';
comment on column analyst.store_reports.imported_at is 'When it was imported, by our clock';
comment on column analyst.store_reports.sha256 is 'SHA-256 of the file as it was downloaded';
comment on column analyst.store_reports.first_day is 'See subledger.store_report';
comment on column analyst.store_reports.replaced_at is
  'When a file of the same kind and name was imported after it, so that this one does not count; null if none was';

create or replace view analyst.store_report_rows as
select
  case when report.kind like 'apple%' then 'apple' else 'google' end as store,
  report.kind,
  report.name,
  row.line,
  row.day,
  row.event,
  row.app,
  row.product_id,
  row.apple_id,
  row.country,
  row.currency,
  row.units,
  row.amount,
  row.proceeds,
  row.proceeds_currency,
  row.order_id,
  row.fields
from analyst.store_reports as report
join subledger.store_report_row as row using (name, sha256)
where report.replaced_at is null;

comment on view analyst.store_report_rows is
  'Rows of the files of the stores that count, see subledger.store_report_row';
comment on column analyst.store_report_rows.name is 'Name of the file, see store_reports';
comment on column analyst.store_report_rows.line is 'Line of the file';
comment on column analyst.store_report_rows.day is 'By the store''s calendar';
comment on column analyst.store_report_rows.event is 'What the row reports, see subledger.store_report_row';
comment on column analyst.store_report_rows.apple_id is 'Apple''s number of the product; null for Google Play';
comment on column analyst.store_report_rows.units is 'Negative for refunds';
comment on column analyst.store_report_rows.amount is
  'What customers paid for all units, in the currency unit; negative for refunds';
comment on column analyst.store_report_rows.proceeds is 'What the developer receives, in proceeds_currency';
comment on column analyst.store_report_rows.proceeds_currency is 'ISO 4217';
comment on column analyst.store_report_rows.order_id is 'Order of Google Play; null for Apple';
comment on column analyst.store_report_rows.fields is
  'All columns by their names in the file, without city, state and postal code of the buyer';

create or replace function analyst.settled_days(days date[], lacking integer[]) returns date[]
language plpgsql immutable parallel safe as $$
declare
  waiting date[] := '{}';
  unpaired date[] := '{}';
begin
  -- A unit beyond ours is the oldest that is lacking, of those of the last seven days.
  for number in 1..cardinality(days) loop
    while waiting[1] < days[number] - 7 loop
      unpaired := unpaired || waiting[1];
      waiting := waiting[2:];
    end loop;
    if lacking[number] > 0 then
      waiting := waiting || array_fill(days[number], array[lacking[number]]);
    else
      if cardinality(waiting) < -lacking[number] then
        unpaired := unpaired || days[number];
      end if;
      waiting := waiting[1 - lacking[number]:];
    end if;
  end loop;
  return array(
    select unnest(days)
    except
    select unnest(unpaired || waiting)
  );
end
$$;

comment on function analyst.settled_days is
  'Of days on which a report of Apple lacks units of ours (lacking is positive) or has more (negative), ascending: '
  'those on which each lacking unit is reported within seven days, and each one beyond ours was lacking in the seven '
  'days before';

create or replace function analyst.subscription_event(name text) returns text
language sql immutable parallel safe as $$
select
  case
    when name ~* '^(Subscribe|Opt-In$|Start )' then 'start'
    when name ~* '^Reactivat' then 'reactivation'
    when name ~* '^(Renew|Paid Subscription from )' and name !~* '(Upgrade|Downgrade|Crossgrade|^Renew.*Offer)'
      then 'renewal'
  end
$$;

comment on function analyst.subscription_event is
  'What an event of Apple''s Subscription Event report is, by its name: start, reactivation, or renewal of the same '
  'product at its standard price; null for others, such as cancellations, changes of product and periods with an '
  'offer. Names in any case, and those of earlier years: Start Free Trial, Start Introductory Price, Renewals from '
  'Grace Period';

create or replace function analyst.subscription_states(fields jsonb) returns table (state text, subscriptions numeric)
language sql immutable parallel safe as $$
select state, (fields ->> name)::numeric
from (
  values
    ('active standard price subscriptions', 'standard'),
    ('active free trial introductory offer subscriptions', 'introductory_free_trial'),
    ('active pay up front introductory offer subscriptions', 'introductory_pay_up_front'),
    ('active pay as you go introductory offer subscriptions', 'introductory_pay_as_you_go'),
    ('free trial promotional offer subscriptions', 'promotional_free_trial'),
    ('pay up front promotional offer subscriptions', 'promotional_pay_up_front'),
    ('pay as you go promotional offer subscriptions', 'promotional_pay_as_you_go'),
    ('free trial offer code subscriptions', 'offer_code_free_trial'),
    ('pay up front offer code subscriptions', 'offer_code_pay_up_front'),
    ('pay as you go offer code subscriptions', 'offer_code_pay_as_you_go'),
    ('free trial win-back offers', 'win_back_free_trial'),
    ('pay up front win-back offers', 'win_back_pay_up_front'),
    ('pay as you go win-back offers', 'win_back_pay_as_you_go'),
    ('grace period', 'grace'), ('billing retry', 'billing_retry')
) as named (name, state)
where coalesce(fields ->> name, '0') <> '0'
$$;

comment on function analyst.subscription_states is
  'How many subscriptions a row of Apple''s Subscription report has in each state: standard (paid, without an offer), '
  'an offer with its kind of price, such as introductory_free_trial, promotional_pay_as_you_go, '
  'offer_code_pay_up_front or win_back_free_trial, grace or billing_retry; only what is not zero. Subscribers, which '
  'counts members of families, and marketing opt-ins are left out';

create or replace function analyst.report_differences_in(
  apple_zone text, of_month date default null
)
returns table (
  report text, store text, day date, product_id text, country text, currency text, event text, order_id text,
  reported_units numeric, our_units numeric, reported_amount numeric, our_amount numeric, reason text,
  reported_lines text[], our_purchases text[]
)
language sql stable parallel safe as $$
with asked as (
  select
    coalesce(date_trunc('month', of_month)::date, '-infinity') as from_day,
    coalesce((date_trunc('month', of_month) + interval '1 month')::date - 1, 'infinity') as until_day,
    14 as margin
), comparable as (
  select *, case when kind like 'apple%' then 'apple' else 'google' end as store
  from analyst.store_reports
  where kind <> 'apple_financial'
), newest as materialized (
  select kind as report, max(last_day) as day
  from comparable
  where replaced_at is null
  group by kind
), covered as materialized (
  -- With two months around the days that are asked for, since a refund may be reported in another one.
  select distinct kind as report, store, day::date as day
  from comparable
  cross join asked
  cross join generate_series(
    greatest(first_day, from_day - 62), least(last_day, until_day + 62), interval '1 day'
  ) as day
  where replaced_at is null
), near as materialized (
  -- What is compared: refunds of all these days, and other events of two weeks around those that are asked for. Apple may
  -- also report on these days what was bought up to a week before, on days without a report.
  select compared.report, compared.store, compared.is_refund, compared.day - late as day, late = 0 as is_covered
  from (
    select covered.report, covered.store, covered.day, kind.is_refund
    from covered
    cross join asked
    cross join (values (true), (false)) as kind (is_refund)
    where covered.store = 'google'
      or kind.is_refund
      or covered.day between asked.from_day - asked.margin and asked.until_day + asked.margin
        and (covered.report <> 'apple_subscription' or covered.day between asked.from_day and asked.until_day)
  ) as compared
  cross join generate_series(
    0,
    case
      when compared.store = 'apple' and compared.report not in ('apple_finance_detail', 'apple_subscription') then 7
      else 0
    end
  ) as late
  left join covered as reported on reported.report = compared.report and reported.day = compared.day - late
  where late = 0
    or reported.day is null
  group by compared.report, compared.store, compared.is_refund, compared.day - late, late = 0
), span as materialized (
  -- The first and the last day that is read of: what is further away is in no report of these days, however late.
  select
    min(near.day) filter (where near.store = 'apple' and not near.is_refund) - 1 as sales_from,
    max(near.day) filter (where near.store = 'apple' and not near.is_refund) + 2 as sales_until,
    min(near.day) filter (where near.store = 'apple') - 1 as refunds_from,
    max(near.day) filter (where near.store = 'apple') + 2 as refunds_until,
    min(greatest(near.day, asked.from_day)) filter (where near.store = 'google') - 62 as orders_from,
    max(least(near.day, asked.until_day)) filter (where near.store = 'google') + 62 as orders_until,
    min(near.day) filter (where counts_periods and not near.is_refund) - 1 as periods_from,
    max(near.day) filter (where counts_periods and not near.is_refund) + 2 as periods_until
  from near
  cross join asked
  cross join lateral (select near.report in ('apple_subscription', 'apple_subscription_event')) as of_report (counts_periods)
), named as materialized (
  -- Reports of subscriptions name products by Apple's number, which those of sales have beside the product id. From one
  -- number to the next, since the rows of each are many.
  with recursive number as (
    select min(apple_id) as apple_id
    from subledger.store_report_row
    where apple_id is not null
      and product_id is not null
    union all
    select (
      select min(row.apple_id)
      from subledger.store_report_row as row
      where row.product_id is not null
        and row.apple_id > number.apple_id
    )
    from number
    where number.apple_id is not null
  )
  select number.apple_id, last.product_id
  from number
  cross join lateral (
    select row.product_id
    from subledger.store_report_row as row
    where row.product_id is not null
      and row.apple_id = number.apple_id
    order by row.day desc
    limit 1
  ) as last
), stated as not materialized (
  select
    comparable.kind as report, comparable.store, comparable.sha256, comparable.replaced_at, found.day,
    coalesce(found.product_id, named.product_id, found.apple_id) as product_id, found.country,
    case when comparable.kind <> 'apple_subscription' then found.currency end as currency, said.event, said.units,
    coalesce(found.amount, 0) as amount, comparable.name || ':' || found.line as place,
    coalesce(found.order_id, '') as order_id
  from comparable
  cross join asked
  join subledger.store_report_row as found using (name, sha256)
  left join named on found.product_id is null and named.apple_id = found.apple_id
  cross join lateral (
    select
      case
        when found.event in ('sale', 'Charge') then 'sale'
        when found.event in ('refund', 'partial_refund', 'Charge refund', 'Refund') then 'refund'
        when comparable.kind = 'apple_subscription_event' then analyst.subscription_event(found.event)
      end as event,
      case
        when found.event = 'Refund' then -found.units
        when comparable.kind <> 'google_earnings' then found.units
        when found.event = 'Charge' then 1
        when lower(found.fields ->> 'refund type') = 'full' then -1
        else 0
      end as units
    where comparable.kind <> 'apple_subscription'
    union all
    select state, subscriptions
    from analyst.subscription_states(found.fields)
    where comparable.kind = 'apple_subscription'
  ) as said
  where comparable.last_day >= asked.from_day - 62
    and comparable.first_day <= asked.until_day + 62
    -- Of other days, only refunds of Apple are compared.
    and (
      found.day between asked.from_day - asked.margin and asked.until_day + asked.margin
      or comparable.store = 'google'
      or found.event ~* 'refund'
    )
    and said.event is not null
    and (found.amount <> 0 or comparable.kind in ('apple_subscription', 'apple_subscription_event'))
    -- What was bought before the first period and settled in it stands beside what was settled before. How Apple
    -- reports refunds in part there is not documented.
    and (comparable.kind <> 'apple_finance_detail' or said.units <> 0)
), line as materialized (
  select stated.*
  from stated
  join near
    on near.report = stated.report
    and near.day = stated.day
    and near.is_refund = (stated.event = 'refund')
    and near.is_covered
  where stated.replaced_at is null
), payment as materialized (
  select
    analyst.store(detail.original_transaction_id) as store, detail.product_id,
    analyst.country(detail.storefront) as country, detail.currency, detail.price, detail.refund, detail.revocation_date,
    detail.refunded_amount, detail.purchase_date, detail.transaction_id,
    -- What of the price is not tax; null if the store does not say it.
    case when detail.price > 0 then 1 - detail.tax / detail.price end as untaxed,
    coalesce(detail.type, 'Auto-Renewable Subscription') = 'Auto-Renewable Subscription'
      and detail.expires_date is not null as renews,
    case
      when analyst.store(detail.original_transaction_id) = 'apple' then coalesce(detail.quantity, 1)
      else 1
    end as units,
    -- Of some of several seats: Apple states no date, so they have that of the first report.
    case
      when analyst.store(detail.original_transaction_id) = 'apple' and detail.refund = 'part' then detail.refunds
    end as undated
  from analyst.refund_rate_detail as detail
  where detail.environment = 'production'
    -- Scalars, by which purchases are left out before anything else.
    and (
      detail.purchase_date between (select sales_from from span) and (select sales_until from span)
      or detail.purchase_date between (select orders_from from span) and (select orders_until from span)
      or detail.revocation_date between (select refunds_from from span) and (select refunds_until from span)
      or detail.revocation_date between (select orders_from from span) and (select orders_until from span)
      or detail.refunds is not null
    )
), lived as materialized (
  -- Periods of Apple's subscriptions, for the reports that count these.
  select
    period.stream_id, period.original_transaction_id, period.transaction_id, period.product_id, period.payer_state,
    period.starts_at, period.ends_at, period.movement, period.previous_product_id, bought.purchase_date,
    analyst.country(bought.storefront) as country,
    case
      when bought.offer_type = 1 then 'introductory'
      when bought.offer_type = 2 then 'promotional'
      when bought.offer_type = 3 then 'offer_code'
      when bought.offer_type = 4 then 'win_back'
      -- Version 1 has no type.
      when bought.promotional_offer_id is not null then 'promotional'
      when bought.offer_code_ref_name is not null then 'offer_code'
      when bought.is_trial_period or bought.is_in_intro_offer_period then 'introductory'
    end as offer,
    coalesce(lower(bought.offer_discount_type), case when period.payer_state = 'trial' then 'free_trial' end) as discount
  from analyst.ordered_periods as period
  join subledger.transaction as bought using (stream_id, original_transaction_id, transaction_id)
  where period.ends_at >= (select periods_from from span)
    -- Grace that a payment replaced may begin after its end.
    and (period.starts_at <= (select periods_until from span) or period.payer_state = 'grace')
    and period.environment = 'production'
    and analyst.store(period.original_transaction_id) = 'apple'
    and period.payer_state in ('paying', 'trial', 'grace')
    and coalesce(bought.in_app_ownership_type, '') not in ('FAMILY_SHARED', 'ASSIGNED')
    and period.product_id in (
      select product_id
      from named
    )
    and exists (
      select
      from covered
      where report in ('apple_subscription', 'apple_subscription_event')
    )
    -- A purchase that was restored under another subscription counts once.
    and not exists (
      select
      from subledger.transaction as copy
      where copy.stream_id = bought.stream_id
        and copy.web_order_line_item_id = bought.web_order_line_item_id
        and copy.original_transaction_id <> bought.original_transaction_id
        and (copy.revocation_date is null, copy.transaction_id)
          < (bought.revocation_date is null, bought.transaction_id)
    )
), ours as materialized (
  select
    wanted.report,
    payment.store,
    (
      entry.at at time zone case wanted.report
        when 'google_sales' then 'UTC'
        when 'google_earnings' then 'America/Los_Angeles'
        else apple_zone
      end
    )::date as day,
    payment.product_id, payment.country,
    case when wanted.report <> 'apple_subscription_event' then payment.currency end as currency, entry.event,
    case wanted.report when 'apple_subscription_event' then -1 else entry.units end as units,
    case wanted.report
      when 'google_earnings' then round(entry.amount * payment.untaxed, 3)
      when 'apple_subscription_event' then 0
      else entry.amount
    end as amount,
    payment.transaction_id,
    -- Items of one order have its name with their own.
    case payment.store when 'google' then split_part(payment.transaction_id, ':', 1) else '' end as order_id,
    case when entry.is_undated then (payment.purchase_date at time zone apple_zone)::date end as undated_from
  from payment
  join (
    select distinct report, store
    from covered
    where report <> 'apple_subscription'
  ) as wanted
    on wanted.store = payment.store
    and (
      wanted.report not in ('apple_subscriber', 'apple_subscription_event')
      or payment.renews and payment.product_id in (
        select product_id
        from named
      )
    )
  cross join lateral (
    select 'sale' as event, payment.purchase_date as at, payment.units, payment.price as amount, false as is_undated
    union all
    select
      'refund', payment.revocation_date, case payment.refund when 'full' then -payment.units else 0 end,
      -payment.refunded_amount, false
    where payment.refund is not null
      and payment.undated is null
    union all
    select 'refund', (part ->> 'at')::timestamptz, 0, -round((part ->> 'amount')::numeric / 1000, 3), true
    from jsonb_array_elements(payment.undated) as part
  ) as entry
  where entry.at is not null
    and (wanted.report <> 'apple_finance_detail' or entry.units <> 0)
    and (wanted.report <> 'apple_subscription_event' or entry.event = 'refund')
  union all
  select
    'apple_subscription_event', 'apple', (lived.purchase_date at time zone apple_zone)::date, lived.product_id,
    lived.country, null, kind.event, 1, 0, lived.transaction_id, '', null
  from lived
  cross join lateral (
    select
      case
        when lived.movement in ('trial_start', 'new') then 'start'
        when lived.movement = 'resubscribed' then 'reactivation'
        when lived.movement in ('renewal', 'conversion', 'recovered') and lived.offer is null
          and lived.previous_product_id = lived.product_id
          then 'renewal'
      end as event
  ) as kind
  where kind.event is not null
), cut as materialized (
  -- The ends of the days whose stock Apple reports.
  select day, (day + 1)::timestamp at time zone apple_zone as at
  from near
  where report = 'apple_subscription'
    and not is_refund
), recovered as materialized (
  -- A renewal that was charged in grace may begin when the failed period ended. Until the payment it was in grace.
  select
    grace.stream_id, grace.original_transaction_id, side.transaction_id, side.is_grace, grace.starts_at,
    least(grace.ends_at, charge.at) as charged_at
  from subledger.access_period as grace
  join lateral (
    select access_period.starts_at, access_period.transaction_id, transaction.positions
    from subledger.access_period
    join subledger.transaction using (stream_id, original_transaction_id, transaction_id)
    where access_period.stream_id = grace.stream_id
      and access_period.original_transaction_id = grace.original_transaction_id
      and access_period.cause = 'paid'
      and access_period.starts_at between grace.starts_at and grace.ends_at
    order by access_period.starts_at, access_period.transaction_id
    limit 1
  ) as paid on true
  cross join lateral (
    select min(event.occurred_at) as at
    from unnest(paid.positions) as known (position)
    join subledger.event on event.stream_id = grace.stream_id and event.position = known.position
    -- Version 1 has no other time than the beginning.
    where event.source <> 'apple-v1'
  ) as charge
  cross join lateral (
    values (grace.transaction_id, true), (paid.transaction_id, false)
  ) as side (transaction_id, is_grace)
  where grace.cause = 'grace'
    and grace.ends_at > (select min(at) from cut)
    and grace.starts_at < (select max(at) from cut)
    and charge.at > paid.starts_at
), reversed as materialized (
  -- Between a refund and its reversal, there was no subscription.
  select reversal.stream_id, named_by.transaction_id, max(refund.at) as revoked_at, reversal.occurred_at as reversed_at
  from subledger.event as reversal
  cross join lateral (select reversal.facts #>> '{transactions,0,transactionId}') as named_by (transaction_id)
  join lateral (
    select (event.facts #>> '{transactions,0,revocationDate}')::timestamptz as at
    from subledger.event
    where event.stream_id = reversal.stream_id
      and event.kind = 'refund'
      and coalesce(
        event.facts #>> '{transactions,0,transactionId}',
        event.facts #>> '{notification,notification,pendingRefundReviewNotification,orderId}',
        event.facts #>> '{notification,notification,voidedPurchaseNotification,orderId}'
      ) = named_by.transaction_id
  ) as refund on refund.at < reversal.occurred_at
  where reversal.kind = 'refund_reversal'
    and reversal.occurred_at > (select min(at) from cut)
  group by reversal.stream_id, named_by.transaction_id, reversal.occurred_at
), stretch as materialized (
  -- When each subscription was in which state. Each day has those that contain its end.
  select
    held.product_id, held.country, held.state, held.transaction_id, held.starts_at, held.ends_at,
    (held.starts_at at time zone apple_zone)::date as first_day,
    (held.ends_at at time zone apple_zone)::date - 1 as last_day
  from (
    select
      lived.product_id, lived.country,
      case
        when lived.payer_state = 'grace' then 'grace'
        else coalesce(lived.offer || coalesce('_' || lived.discount, ''), 'standard')
      end as state,
      lived.transaction_id, whole.starts_at, whole.ends_at
    from lived
    left join recovered
      on recovered.stream_id = lived.stream_id
      and recovered.original_transaction_id = lived.original_transaction_id
      and recovered.transaction_id = lived.transaction_id
      and recovered.is_grace = (lived.payer_state = 'grace')
    left join reversed on reversed.stream_id = lived.stream_id and reversed.transaction_id = lived.transaction_id
    cross join lateral (
      select
        case
          when recovered.is_grace then recovered.starts_at
          else greatest(lived.starts_at, recovered.charged_at)
        end as starts_at,
        case when recovered.is_grace then recovered.charged_at else lived.ends_at end as ends_at
    ) as known
    cross join lateral (
      select known.starts_at, least(known.ends_at, reversed.revoked_at) as ends_at
      union all
      select greatest(known.starts_at, reversed.reversed_at), known.ends_at
      where reversed.reversed_at is not null
    ) as whole
    union all
    select
      failed.product_id, analyst.country(bought.storefront), 'billing_retry', failed.transaction_id, retry.starts_at,
      least(retry.ends_at, stopped.at)
    from analyst.billing_retries_detail as failed
    join subledger.stream using (app, environment)
    join subledger.transaction as bought using (stream_id, original_transaction_id, transaction_id)
    join subledger.subscription using (stream_id, original_transaction_id)
    cross join lateral (
      select min(starts_at) as starts_at
      from (
        select starts_at
        from subledger.access_period
        where stream_id = bought.stream_id
          and original_transaction_id = bought.original_transaction_id
          and cause = 'paid'
        union all
        select starts_at
        from subledger.refunded_period
        where stream_id = bought.stream_id
          and original_transaction_id = bought.original_transaction_id
      ) as later
      where starts_at >= failed.due_at
    ) as next
    cross join lateral (
      select
        coalesce(failed.grace_ends_at, failed.due_at) as starts_at,
        least(failed.due_at + analyst.retry_length(bought.billing_plan_type), next.starts_at) as ends_at
    ) as retry
    cross join lateral (
      -- The store gives up, or the customer switches auto-renewal off, after which version 1 says nothing of a retry.
      select min((renewal ->> 'statedAt')::timestamptz) as at
      from jsonb_array_elements(subscription.facts::jsonb -> 'renewals') as renewal
      where (renewal ->> 'statedAt')::timestamptz > failed.due_at
        and not coalesce(renewal #> '{fact,isInBillingRetryPeriod}', renewal #> '{fact,autoRenewStatus}')::boolean
    ) as stopped
    where failed.environment = 'production'
      and failed.store = 'apple'
      and failed.due_at between (select min(at) - interval '90 days' from cut) and (select max(at) from cut)
      and retry.ends_at > (select min(at) from cut)
      and retry.ends_at > retry.starts_at
      and coalesce(bought.in_app_ownership_type, '') not in ('FAMILY_SHARED', 'ASSIGNED')
      and failed.product_id in (
        select product_id
        from named
      )
  ) as held
  where held.starts_at < held.ends_at
    and exists (
      select
      from cut
    )
), stock as (
  select product_id, country, state, day, units
  from (
    select
      product_id, country, state, day,
      sum(sum(by)) over (partition by product_id, country, state order by day) as units
    from (
      select product_id, country, state, first_day as day, 1 as by
      from stretch
      union all
      select product_id, country, state, last_day + 1, -1
      from stretch
      union all
      select product_id, country, state, cut.day, 0
      from (
        select distinct product_id, country, state
        from stretch
      ) as held
      cross join cut
    ) as change
    group by product_id, country, state, day
  ) as running
  join cut using (day)
  where units > 0
), reported as (
  select
    report, store, event, order_id, min(day) as day, min(product_id) as product_id, min(country) as country,
    min(currency) as currency, sum(units) as units, sum(amount) as amount, array_agg(place order by place) as places
  from line
  group by report, store, event, order_id,
    -- An order is compared as such, whatever else is said about it.
    case order_id when '' then day end, case order_id when '' then product_id end,
    case order_id when '' then country end, case order_id when '' then currency end
), counted as (
  select
    ours.report, ours.store, ours.event, ours.order_id, min(ours.day) as day, min(ours.product_id) as product_id,
    min(ours.country) as country, min(ours.currency) as currency, sum(ours.units) as units,
    -- One unknown price makes the sum unknown.
    case when count(ours.amount) = count(*) then sum(ours.amount) end as amount,
    array_agg(ours.transaction_id order by ours.transaction_id) as purchases,
    max(ours.undated_from) as undated_from
  from ours
  left join near on near.report = ours.report and near.day = ours.day and near.is_refund = (ours.event = 'refund')
  left join (
    select distinct report, event, order_id
    from line
    where order_id <> ''
  ) as ordered
    on ordered.report = ours.report
    and ordered.event = ours.event
    and ordered.order_id = ours.order_id
  where near.day is not null
    or ordered.order_id is not null
  group by ours.report, ours.store, ours.event, ours.order_id,
    case ours.order_id when '' then ours.day end, case ours.order_id when '' then ours.product_id end,
    case ours.order_id when '' then ours.country end, case ours.order_id when '' then ours.currency end
  union all
  select 'apple_subscription', 'apple', state, '', day, product_id, country, null, units, 0, '{}', null
  from stock
), compared as (
  select
    coalesce(reported.report, counted.report) as report,
    coalesce(reported.store, counted.store) as store,
    coalesce(reported.day, counted.day) as day,
    coalesce(reported.product_id, counted.product_id) as product_id,
    coalesce(reported.country, counted.country) as country,
    coalesce(reported.currency, counted.currency) as currency,
    coalesce(reported.event, counted.event) as event,
    coalesce(reported.order_id, counted.order_id) as order_id,
    coalesce(reported.units, 0) as reported_units,
    coalesce(counted.units, 0) as our_units,
    coalesce(reported.amount, 0) as reported_amount,
    case when counted.store is null then 0 else counted.amount end as our_amount,
    counted.undated_from,
    reported.store is not null as is_reported,
    counted.store is not null as is_ours,
    reported.country is distinct from counted.country as has_other_country,
    reported.currency is distinct from counted.currency as has_other_currency,
    -- Reports of the time before base plans name the subscription alone.
    reported.product_id is distinct from counted.product_id
      and reported.product_id is distinct from split_part(counted.product_id, ':', 1) as has_other_product,
    -- Of Google's refunds: those of Apple are compared by day.
    coalesce(
      reported.order_id <> '' and reported.event = 'refund' and abs(reported.day - counted.day) > 7
        and date_trunc('month', reported.day) <> date_trunc('month', counted.day), false
    ) as is_late,
    coalesce(reported.places, '{}') as reported_lines,
    coalesce(counted.purchases, '{}') as our_purchases
  from reported
  full join counted
    on counted.report = reported.report
    and counted.event = reported.event
    and counted.order_id = reported.order_id
    and (
      case counted.order_id
        when '' then concat_ws(chr(31), counted.day, counted.product_id, counted.country, counted.currency)
        else ''
      end
    ) = (
      case reported.order_id
        when '' then concat_ws(chr(31), reported.day, reported.product_id, reported.country, reported.currency)
        else ''
      end
    )
), different as materialized (
  select
    compared.*, row_number() over () as number, compared.store = 'google' or near.is_covered as is_covered,
    concat_ws(chr(31), compared.country, compared.currency) as place,
    -- How many the report has more. A refund in part has no units.
    case
      when our_units = 0 and reported_units = 0 then is_reported::integer - is_ours::integer
      else abs(reported_units) - abs(our_units)
    end as excess
  from compared
  left join near
    on near.report = compared.report
    and near.day = compared.day
    and near.is_refund = (compared.event = 'refund')
  where not is_reported
    or not is_ours
    or reported_units <> our_units
    -- Earnings are rounded by Google, and the part of them that is no tax here.
    or abs(reported_amount - our_amount) > case compared.report when 'google_earnings' then 0.01 else 0 end
    or has_other_country
    or has_other_currency
    or has_other_product
    or is_late
), keyed as materialized (
  select different.*, same.name, same.value
  from different
  cross join lateral (values ('day', different.day::text), ('place', different.place)) as same (name, value)
  where different.store = 'apple'
    and different.excess <> 0
), paired as materialized (
  -- The same purchases in two rows, of one day or of one place: what one has too many, the other lacks.
  select
    keyed.number,
    bool_or(other.place = keyed.place and abs(other.day - keyed.day) = 1) as is_neighbour,
    bool_or(other.place <> keyed.place and other.day = keyed.day) as is_elsewhere,
    bool_or(
      of_refund.is_same and case
        when keyed.excess > 0 then keyed.day between other.undated_from and other.day
        else other.day between keyed.undated_from and keyed.day
      end
    ) as is_undated,
    bool_or(
      of_refund.is_same and other.is_covered and abs(other.day - keyed.day) <= 62
        and date_trunc('month', other.day) <> date_trunc('month', keyed.day)
    ) as is_of_other_month
  from keyed
  join keyed as other
    on other.report = keyed.report
    and other.event = keyed.event
    and other.product_id = keyed.product_id
    and other.name = keyed.name
    and other.value = keyed.value
    and other.excess = -keyed.excess
  cross join lateral (
    select keyed.event = 'refund' and other.place = keyed.place
      and other.reported_amount - other.our_amount = keyed.our_amount - keyed.reported_amount as is_same
  ) as of_refund
  group by keyed.number
), settled as materialized (
  select report, product_id, place, event, day
  from (
    select
      report, product_id, place, event,
      analyst.settled_days(
        array_agg(day order by day), array_agg(-excess::integer order by day)
      ) as days
    from different
    where store = 'apple'
      and report not in ('apple_finance_detail', 'apple_subscription')
      and excess <> 0
    group by report, product_id, place, event
  ) as paired
  cross join unnest(days) as day
), incomplete as materialized (
  -- What version 1 or a receipt alone reported has no country: then only the units of all countries can agree.
  select report, product_id, event, day
  from different
  where store = 'apple'
  group by report, product_id, event, day
  having sum(reported_units) = sum(our_units)
    and bool_or(country is null)
), restated as materialized (
  select distinct different.number
  from different
  join stated
    on stated.report = different.report
    and stated.event = different.event
    and stated.product_id = different.product_id
    and stated.day = different.day
    and stated.country is not distinct from different.country
    and (stated.currency = different.currency or different.currency is null)
  where different.store = 'apple'
    and stated.replaced_at is not null
  group by different.number, different.our_units, stated.sha256
  having sum(stated.units) = different.our_units
), shifted as materialized (
  -- What the stock was at another time, up to eight hours from the end of the day: by changes until then.
  select number
  from (
    select
      different.number, different.reported_units, different.our_units,
      sum(sum(case when change.at >= cut.at then change.by else -change.by end)) over (
        partition by different.number, change.at >= cut.at
        order by greatest(change.at - cut.at, cut.at - change.at)
      ) as by
    from different
    join stretch
      on stretch.product_id = different.product_id
      and stretch.state = different.event
      and coalesce(stretch.country, '') = coalesce(different.country, '')
      -- It began or ended on the day or on the next one.
      and (different.day in (stretch.first_day, stretch.first_day - 1)
        or different.day in (stretch.last_day, stretch.last_day + 1))
    cross join lateral (select (different.day + 1)::timestamp at time zone apple_zone as at) as cut
    cross join lateral (values (stretch.starts_at, 1), (stretch.ends_at, -1)) as change (at, by)
    where different.report = 'apple_subscription'
      and change.at between cut.at - interval '8 hours' and cut.at + interval '8 hours'
    group by different.number, different.reported_units, different.our_units, change.at, cut.at
  ) as moment
  group by number
  having bool_or(our_units + by = reported_units)
), balanced as materialized (
  -- The subscriptions of all states agree.
  select product_id, country, day
  from different
  where report = 'apple_subscription'
  group by product_id, country, day
  having sum(excess) = 0
), scattered as materialized (
  -- The same if version 1 or a receipt alone reported some, without a country.
  select product_id, day
  from different
  where report = 'apple_subscription'
  group by product_id, day
  having sum(excess) = 0
    and bool_or(country is null)
), behind as materialized (
  select number, array_agg(transaction_id order by transaction_id) as purchases
  from (
    select
      different.number, stretch.transaction_id,
      row_number() over (
        partition by different.number order by stretch.starts_at desc, stretch.transaction_id
      ) as place
    from different
    join stretch
      on stretch.product_id = different.product_id
      and stretch.state = different.event
      and coalesce(stretch.country, '') = coalesce(different.country, '')
      and different.day between stretch.first_day and stretch.last_day
    where different.report = 'apple_subscription'
  ) as held
  where place <= 1000
  group by number
), unpaid as materialized (
  -- Products of which nothing was bought around these days.
  select product_id
  from different
  except
  select product_id
  from payment
), known as materialized (
  select product_id
  from payment
  union
  select product_id
  from subledger.transaction
  -- Scalars, so that all transactions are read by several processes, or not at all.
  where product_id = any (array(select product_id from unpaid))
    and exists (
      select
      from unpaid
    )
  group by product_id
)
select
  different.report, different.store, different.day, different.product_id, different.country, different.currency,
  different.event, nullif(different.order_id, ''), different.reported_units, different.our_units, different.reported_amount,
  different.our_amount,
  case
    when known.product_id is null then 'unknown_product'
    when different.store = 'google' then
      case
        when not different.is_ours then 'unknown_order'
        when not different.is_reported and different.day > newest.day - 3 then 'not_reported_yet'
        when not different.is_reported then 'not_reported'
        when different.has_other_product then 'other_product'
        when different.has_other_country then 'other_country'
        when different.has_other_currency then 'other_currency'
        when abs(different.reported_units) > abs(different.our_units) then 'reported_twice'
        when different.is_late and different.reported_amount = different.our_amount then 'other_month'
        else 'other_amount'
      end
    when different.reported_units = different.our_units and different.is_reported and different.is_ours
      then 'other_amount'
    when different.report = 'apple_subscription' then
      case
        when shifted.number is not null then 'time_of_day'
        when balanced.day is not null then 'other_state'
        when incomplete.day is not null then 'unknown_country'
        when scattered.day is not null then 'other_state'
        when paired.is_elsewhere then 'other_country'
        when restated.number is not null then 'restated'
        else 'unexplained'
      end
    when paired.is_neighbour then 'neighbouring_day'
    when paired.is_undated then 'undated'
    when incomplete.day is not null then 'unknown_country'
    when settled.day is not null then 'settled_later'
    when paired.is_elsewhere then 'other_country'
    when restated.number is not null then 'restated'
    when paired.is_of_other_month then 'other_month'
    when different.excess <= 0 and different.is_ours
      -- Settlement may take more than forty days.
      and different.day > newest.day - case different.report when 'apple_finance_detail' then 45 else 7 end
      then 'not_reported_yet'
    else 'unexplained'
  end,
  different.reported_lines, coalesce(behind.purchases, different.our_purchases)
from different
cross join asked
join newest using (report)
left join known using (product_id)
left join paired using (number)
left join restated using (number)
left join shifted using (number)
left join behind using (number)
left join balanced
  on different.report = 'apple_subscription'
  and balanced.product_id = different.product_id
  and balanced.country is not distinct from different.country
  and balanced.day = different.day
left join scattered
  on different.report = 'apple_subscription'
  and scattered.product_id = different.product_id
  and scattered.day = different.day
left join settled
  on settled.report = different.report
  and settled.event = different.event
  and settled.product_id = different.product_id
  and settled.place = different.place
  and settled.day = different.day
left join incomplete
  on incomplete.report = different.report
  and incomplete.event = different.event
  and incomplete.product_id = different.product_id
  and incomplete.day = different.day
where different.day between asked.from_day and asked.until_day
  and (different.is_covered or settled.day is not null)
$$;

comment on function analyst.report_differences_in is
  'Where the stores'' reports and the ledger differ, on the days of which a report was imported: Apple''s Sales, '
  'Subscriber and Finance Detail reports by day of the purchase, product, country and currency, the counts of its '
  'Subscription Event report by day, product and country, those of its Subscription report by state too, at the end of '
  'the day, Google''s estimated sales and earnings by order. Of '
  'environment production, without what costs nothing except in counts. apple_zone is the time zone of the days in '
  'Apple''s reports; those of Google Play are UTC, and Pacific Time in earnings. of_month is a day of the '
  'month to compare, null for all. reason: unknown_product, no event of '
  'the log has it; unknown_order, none has this order; not_reported, the report lacks it; not_reported_yet, the same '
  'in its last three days, of Apple in the last seven, or 45 until it is settled; reported_twice, an order; '
  'other_product, other_country, other_currency, other_amount; unknown_country, a receipt or V1 alone reported a '
  'purchase, and the units of all countries agree; neighbouring_day, the day before or after differs by as much in '
  'the other direction, so the time zone or the hour of processing does; undated, a refund of some of several seats, '
  'which Apple reports after the purchase and before the ledger learned of it; settled_later, Apple reports it within seven '
  'days, and the row of that day has the same reason; restated, an earlier file of the same name agreed; other_month, '
  'a refund is reported in another month; time_of_day, the state had as many within eight hours of the end of the day; '
  'other_state, the subscriptions of all states agree; unexplained. our_purchases are the transactions of the ledger '
  'behind the row, of apple_subscription at most the 1,000 that began last; reported_lines those of the files';

create or replace view analyst.report_differences as
select
  report, store, day, product_id, country, currency, event, order_id, reported_units, our_units, reported_amount,
  our_amount, reason, reported_lines, our_purchases
from analyst.report_differences_in('America/Los_Angeles');

comment on view analyst.report_differences is
  'Where the stores'' reports and the ledger differ; Apple''s days are those of Pacific Time, see '
  'report_differences_in, which is faster for one month. Empty if all agree';
comment on column analyst.report_differences.report is
  'apple_sales, apple_subscriber, apple_subscription, apple_subscription_event, apple_finance_detail, google_sales or '
  'google_earnings';
comment on column analyst.report_differences.day is 'By the store''s calendar';
comment on column analyst.report_differences.country is 'ISO 3166-1 alpha-3';
comment on column analyst.report_differences.event is
  'sale or refund; of apple_subscription_event start, renewal, reactivation or refund, see subscription_event; of '
  'apple_subscription the state, see subscription_states';
comment on column analyst.report_differences.order_id is
  'Order of Google Play; null for Apple, whose reports name none';
comment on column analyst.report_differences.reported_units is
  'Negative for refunds; of apple_subscription, the subscriptions in the state';
comment on column analyst.report_differences.our_units is 'Like reported_units';
comment on column analyst.report_differences.reported_amount is
  'In the currency unit; without taxes in google_earnings, and 0 in reports of subscriptions and their events';
comment on column analyst.report_differences.our_amount is
  'In the currency unit; null if the price of a purchase is unknown, as in V1, or for google_earnings the tax in it';
comment on column analyst.report_differences.reason is 'See report_differences_in';
comment on column analyst.report_differences.reported_lines is 'Name of the file and line';
comment on column analyst.report_differences.our_purchases is 'Their transaction ids, see report_differences_in';

create or replace view analyst.month_figures as
select
  date_trunc('month', day)::date as month,
  app,
  environment,
  counted.figure,
  product_id,
  country,
  currency,
  sum(counted.count)::bigint as count,
  sum(counted.amount) as amount
from analyst.revenue
cross join lateral (
  values ('payments', payments, gross), ('refunds', null, refunded_here)
) as counted (figure, count, amount)
group by 1, app, environment, counted.figure, product_id, country, currency
having case counted.figure when 'payments' then sum(counted.count) else sum(counted.amount) end <> 0
union all
select month, app, environment, counted.figure, product_id, null, null, counted.count, null
from analyst.movements
cross join lateral (
  values
    ('trial_starts', trial_starts), ('new', new), ('recovered', recovered), ('resubscribed', resubscribed),
    ('trials_lost', trials_lost), ('churned', churned), ('conversions', conversions), ('renewals', renewals)
) as counted (figure, count)
where counted.count <> 0
union all
select (day - interval '1 month')::date, app, environment, counted.figure, product_id, null, null, counted.count, null
from analyst.active_subscriptions
cross join lateral (
  values ('paying_at_end', paying), ('in_trial_at_end', in_trial), ('in_grace_at_end', in_grace)
) as counted (figure, count)
where extract(day from day) = 1
  and counted.count <> 0
union all
select (day - interval '1 month')::date, app, environment, 'mrr_at_end', null, null, currency, subscriptions, mrr
from analyst.mrr
where extract(day from day) = 1
  and subscriptions <> 0;

comment on view analyst.month_figures is
  'What `subledger close` keeps of a month: payments and refunds (see revenue), movements, and at 00:00 UTC of the '
  'next '
  'month the subscriptions that paid, were in trial or in grace, and their monthly value (see mrr)';
comment on column analyst.month_figures.figure is
  'payments and refunds, by product, country and currency; trial_starts, new, recovered, resubscribed, trials_lost, '
  'churned, conversions, renewals, paying_at_end, in_trial_at_end and in_grace_at_end, by product; mrr_at_end, by '
  'currency';
comment on column analyst.month_figures.count is 'Payments or subscriptions; null for refunds';
comment on column analyst.month_figures.amount is 'In the currency unit; null for movements';

create or replace view analyst.closed_months as
select
  stream.app,
  stream.environment,
  (statement.closing ->> 'month' || '-01')::date as month,
  statement.received_at as closed_at,
  statement.closing ->> 'by' as closed_by,
  statement.closing ->> 'reason' as reason,
  (statement.closing ->> 'position')::bigint as position,
  statement.position as event_position,
  statement.closing -> 'figures' as figures,
  statement.stream_id
from (
  -- The last statement about each month.
  select distinct on (stream_id, facts #>> '{closing,month}')
    stream_id, position, received_at, kind, facts -> 'closing' as closing
  from subledger.event
  where source = 'operator'
    and kind in ('month_closed', 'month_reopened')
  order by stream_id, facts #>> '{closing,month}', position desc
) as statement
join subledger.stream using (stream_id)
where statement.kind = 'month_closed';

comment on view analyst.closed_months is 'Months that `subledger close` closed, and that were not opened again';
comment on column analyst.closed_months.closed_at is 'When it was closed, by our clock';
comment on column analyst.closed_months.closed_by is 'The operator';
comment on column analyst.closed_months.reason is 'Of the operator; null if none was given';
comment on column analyst.closed_months.position is 'Last event that the figures contain';
comment on column analyst.closed_months.event_position is
  'The event that closed the month, whose body has the figures with their signature';
comment on column analyst.closed_months.figures is 'As they were, see month_figures';

create or replace view analyst.restatements as
with closed as materialized (
  select
    closed_months.app, closed_months.environment, closed_months.month, closed_months.position, closed_months.stream_id,
    figure.*
  from analyst.closed_months
  cross join lateral jsonb_to_recordset(closed_months.figures) as figure (
    figure text, "productId" text, country text, currency text, count bigint, amount numeric
  )
), current as materialized (
  select month_figures.*
  from analyst.month_figures
  join analyst.closed_months using (app, environment, month)
), different as materialized (
  select
    coalesce(closed.month, current.month) as month,
    coalesce(closed.app, current.app) as app,
    coalesce(closed.environment, current.environment) as environment,
    coalesce(closed.figure, current.figure) as figure,
    coalesce(closed."productId", current.product_id) as product_id,
    coalesce(closed.country, current.country) as country,
    coalesce(closed.currency, current.currency) as currency,
    coalesce(closed.count, 0) as closed_count,
    coalesce(current.count, 0) as count,
    coalesce(closed.amount, 0) as closed_amount,
    coalesce(current.amount, 0) as amount
  from closed
  full join current
    on current.month = closed.month
    and current.app = closed.app
    and current.environment = closed.environment
    and current.figure = closed.figure
    and coalesce(current.product_id, '') = coalesce(closed."productId", '')
    and coalesce(current.country, '') = coalesce(closed.country, '')
    and coalesce(current.currency, '') = coalesce(closed.currency, '')
  where coalesce(closed.count, 0) <> coalesce(current.count, 0)
    or coalesce(closed.amount, 0) <> coalesce(current.amount, 0)
), news as materialized (
  -- Purchases about which something was reported since.
  select
    closed_months.app, closed_months.environment, closed_months.month, bought.product_id,
    analyst.country(bought.storefront) as country, bought.currency, bought.purchase_date, bought.expires_date,
    bought.revocation_date, bought.refunds, reported.position
  from analyst.closed_months
  join subledger.transaction as bought using (stream_id)
  cross join lateral unnest(bought.positions) as reported (position)
  where reported.position > closed_months.position
)
select
  different.month,
  different.app,
  different.environment,
  different.figure,
  different.product_id,
  different.country,
  different.currency,
  different.closed_count,
  different.count,
  different.closed_amount,
  different.amount,
  coalesce((
    select array_agg(distinct news.position order by news.position)
    from news
    where news.app = different.app
      and news.environment = different.environment
      and news.month = different.month
      and news.product_id = coalesce(different.product_id, news.product_id)
      and news.country is not distinct from coalesce(different.country, news.country)
      and news.currency is not distinct from coalesce(different.currency, news.currency)
      and case different.figure
        when 'payments' then analyst.month_of(news.purchase_date) = different.month
        when 'refunds' then
          analyst.month_of(news.revocation_date) = different.month
          or exists (
            select
            from jsonb_array_elements(news.refunds) as part
            where analyst.month_of((part ->> 'at')::timestamptz) = different.month
          )
        else
          -- The purchase, or what it gave, touches the month or its end.
          news.purchase_date <= (different.month + interval '1 month') at time zone 'UTC'
          and coalesce(news.expires_date, 'infinity') >= different.month::timestamp at time zone 'UTC'
      end
  ), '{}') as positions
from different;

comment on view analyst.restatements is
  'What has changed in closed months since they were closed: a row for each figure that differs, see '
  'month_figures. Empty '
  'if nothing has';
comment on column analyst.restatements.figure is 'See month_figures';
comment on column analyst.restatements.closed_count is 'When the month was closed';
comment on column analyst.restatements.count is 'Now';
comment on column analyst.restatements.closed_amount is 'When the month was closed';
comment on column analyst.restatements.amount is 'Now';
comment on column analyst.restatements.positions is
  'Events since then about purchases of this product, country and currency that touch the figure. Empty if none came: '
  'then product settings, the length of a plan as purchases in another currency show it, an import or another version '
  'of the program changed it';

create or replace view analyst.apple_deliveries as
select
  delivery_audit.day,
  stream.app,
  stream.environment,
  delivery_audit.made,
  delivery_audit.delivered,
  delivery_audit.arrived,
  delivery_audit.fetched,
  delivery_audit.refused,
  delivery_audit.lost,
  delivery_audit.answered_late,
  delivery_audit.only_in_log,
  delivery_audit.attempts,
  delivery_audit.results,
  (delivery_audit.lags #>> '{sent,p50}')::double precision as sent_p50_seconds,
  (delivery_audit.lags #>> '{sent,p99}')::double precision as sent_p99_seconds,
  (delivery_audit.lags #>> '{sent,max}')::double precision as sent_max_seconds,
  (delivery_audit.lags #>> '{retried,p50}')::double precision as retried_p50_seconds,
  (delivery_audit.lags #>> '{retried,p99}')::double precision as retried_p99_seconds,
  (delivery_audit.lags #>> '{retried,max}')::double precision as retried_max_seconds,
  (delivery_audit.lags #>> '{arrived,p50}')::double precision as arrived_p50_seconds,
  (delivery_audit.lags #>> '{arrived,p99}')::double precision as arrived_p99_seconds,
  (delivery_audit.lags #>> '{arrived,max}')::double precision as arrived_max_seconds,
  delivery_audit.audited_at,
  delivery_audit.audited_at >= (delivery_audit.day + 9) at time zone 'UTC' as is_final,
  delivery_audit.before
from subledger.delivery_audit
join subledger.stream using (stream_id);

comment on view analyst.apple_deliveries is
  'How many notifications of version 2 Apple made on each day, how many arrived, how late, and how many had to be '
  'fetched: Apple''s notification history compared with the log';
comment on column analyst.apple_deliveries.day is 'The day on which Apple signed them, UTC';
comment on column analyst.apple_deliveries.environment is 'production or sandbox';
comment on column analyst.apple_deliveries.made is 'Notifications in Apple''s history: arrived + fetched + refused';
comment on column analyst.apple_deliveries.delivered is 'Those of which Apple says that it delivered them';
comment on column analyst.apple_deliveries.arrived is 'Those that arrived';
comment on column analyst.apple_deliveries.fetched is 'Those that were fetched, even if they arrived later';
comment on column analyst.apple_deliveries.refused is 'Those that are not verified';
comment on column analyst.apple_deliveries.lost is
  'Fetched ones that Apple says it had delivered before; always 0, or there is a defect';
comment on column analyst.apple_deliveries.before is
  'Fetched ones that Apple delivered to another URL before this installation listened to the app';
comment on column analyst.apple_deliveries.answered_late is
  'Arrived ones that Apple delivered again half an hour later or more, because the first answer was lost';
comment on column analyst.apple_deliveries.only_in_log is 'Those that arrived and are not in Apple''s history';
comment on column analyst.apple_deliveries.attempts is 'Attempts to deliver them';
comment on column analyst.apple_deliveries.results is 'The attempts by result, as Apple spells it';
comment on column analyst.apple_deliveries.sent_p50_seconds is 'From the signature to the first attempt: median';
comment on column analyst.apple_deliveries.sent_p99_seconds is 'The same: 99th percentile';
comment on column analyst.apple_deliveries.sent_max_seconds is 'The same: maximum';
comment on column analyst.apple_deliveries.retried_p50_seconds is
  'From the first attempt to the one with success: median; 0 if the first one had success';
comment on column analyst.apple_deliveries.retried_p99_seconds is 'The same: 99th percentile';
comment on column analyst.apple_deliveries.retried_max_seconds is 'The same: maximum';
comment on column analyst.apple_deliveries.arrived_p50_seconds is
  'From the attempt with success to the moment when it was received, by our clock: median';
comment on column analyst.apple_deliveries.arrived_p99_seconds is 'The same: 99th percentile';
comment on column analyst.apple_deliveries.arrived_max_seconds is 'The same: maximum';
comment on column analyst.apple_deliveries.audited_at is 'When the day was compared last, by our clock';
comment on column analyst.apple_deliveries.is_final is
  'Whether that was after Apple''s last attempt; before, more may arrive';

-- Columns that mean the same in many views have one comment here, which is set where the view states none.
do $$
declare
  found record;
begin
  for found in
    select attrelid::regclass as relation, attname as name, standard.meaning
    from pg_attribute
    join pg_class on pg_class.oid = attrelid
    join (values
      ('app', 'Bundle ID or package name'),
      ('environment', 'production, sandbox, xcode, local_testing or unknown'),
      ('stream_id', 'App and environment as one number'),
      ('store', 'apple or google'),
      ('kind', 'subscription if the store renews it, else one_time'),
      ('month', 'First day of the month, UTC. The current month is incomplete'),
      ('product_id', 'What was bought'),
      ('original_transaction_id', 'The subscription'),
      ('transaction_id', 'The purchase'),
      ('positions', 'Positions of the events that reported the purchase'),
      ('customer_kind', 'See customers'),
      ('customer_id', 'See customers'),
      ('currency', 'ISO 4217; null if no price was reported, as in V1'),
      ('country', 'Country of the store, ISO 3166-1 alpha-3; null if unknown'),
      ('length', 'Length of the plan: see plans; null if unknown'),
      ('offer_type', '1 introductory, 2 promotional, 3 offer code, 4 win-back; null for none'),
      ('offer_identifier', 'Name of the offer of any type; null for none, and for an introductory one of Apple'),
      ('starts_at', 'Inclusive'),
      ('ends_at', 'Exclusive'),
      ('payer_state',
        'paying, trial (free), grace (access without payment), family (a family member pays), assigned (a '
        'seat: the organization or the group''s purchaser pays)'),
      ('first_day', 'First day whose 00:00 UTC lies in the period'),
      ('last_day', 'Last day whose 00:00 UTC lies in the period; before first_day if there is none'),
      ('first_month', 'First monthly anniversary of the subscription''s start in the period; null if there is none'),
      ('last_month', 'Last monthly anniversary in the period, even if it is in the future'),
      ('price_period',
        'Period that the price covers, ISO 8601, for an offer that was paid up front and for a yearly plan '
        'that is billed monthly; null for the product''s own period'),
      ('offer_period', 'Length of the offer, ISO 8601'),
      ('offer_discount_type', 'FREE_TRIAL, PAY_AS_YOU_GO or PAY_UP_FRONT')
    ) as standard (name, meaning) on standard.name = attname
    where relnamespace = 'analyst'::regnamespace
      and relkind = 'v'
      and attnum > 0
      and not attisdropped
      and col_description(attrelid, attnum) is null
  loop
    execute format('comment on column %s.%I is %L', found.relation, found.name, found.meaning);
  end loop;
end
$$;

grant select on all tables in schema analyst to subledger_reader, subledger_analyst;

-- Triggers ===========================================================================================================
-- These statements come last, because an append waits from here to the commit. Their order is the one in which an
-- append locks the tables, so that the two cannot wait for each other.

-- Repeatable ---------------------------------------------------------------------------------------------------------

create or replace function subledger.refuse_change() returns trigger
language plpgsql as $$
begin
  -- Set by `subledger erase` for its own transaction. Nobody but the owner has the right to update.
  if tg_op = 'UPDATE' and tg_table_name in ('event', 'event_body', 'event_conflict', 'store_check')
    and current_setting('subledger.erasing', true) = pg_current_xact_id_if_assigned()::text then
    return null;
  end if;
  raise exception 'subledger.% is append-only: % is refused', tg_table_name, lower(tg_op)
    using errcode = 'insufficient_privilege';
end
$$;

create or replace function subledger.notify_products() returns trigger
language plpgsql as $$
begin
  -- A full queue would refuse the change, and any role can fill it.
  if pg_notification_queue_usage() < 0.9 then
    perform pg_notify('subledger_event', 'products');
  end if;
  return null;
end
$$;

comment on function subledger.refuse_change is
  'Refuses the statement: the table is append-only. An erasure by the owner may update rows';
comment on function subledger.notify_products is
  'Wakes the projector, unless the queue of notifications is nearly full. The projector finds the change within seconds '
  'anyway';

-- `enable always`: the trigger also fires if session_replication_role = replica.
create or replace trigger jws_header_append_only
  before update or delete or truncate on subledger.jws_header
  for each statement execute function subledger.refuse_change();

alter table subledger.jws_header enable always trigger jws_header_append_only;

create or replace trigger event_append_only
  before update or delete or truncate on subledger.event
  for each statement execute function subledger.refuse_change();

alter table subledger.event enable always trigger event_append_only;

create or replace trigger event_body_append_only
  before update or delete or truncate on subledger.event_body
  for each statement execute function subledger.refuse_change();

alter table subledger.event_body enable always trigger event_body_append_only;

create or replace trigger event_conflict_append_only
  before update or delete or truncate on subledger.event_conflict
  for each statement execute function subledger.refuse_change();

alter table subledger.event_conflict enable always trigger event_conflict_append_only;

create or replace trigger certificate_verdict_append_only
  before update or delete or truncate on subledger.certificate_verdict
  for each statement execute function subledger.refuse_change();

alter table subledger.certificate_verdict enable always trigger certificate_verdict_append_only;

create or replace trigger ocsp_response_append_only
  before update or delete or truncate on subledger.ocsp_response
  for each statement execute function subledger.refuse_change();

alter table subledger.ocsp_response enable always trigger ocsp_response_append_only;

create or replace trigger projector_skip_append_only
  before update or delete or truncate on subledger.projector_skip
  for each statement execute function subledger.refuse_change();

alter table subledger.projector_skip enable always trigger projector_skip_append_only;

create or replace trigger store_check_append_only
  before update or delete or truncate on subledger.store_check
  for each statement execute function subledger.refuse_change();

alter table subledger.store_check enable always trigger store_check_append_only;

create or replace trigger product_notify
  after insert or update or delete or truncate on subledger.product
  for each statement execute function subledger.notify_products();

-- Ownership ==========================================================================================================
-- subledger_owner owns everything, so that each of its members can migrate the schema. If the user that applied this
-- file cannot assume that role, that user remains the owner.

-- Repeatable ---------------------------------------------------------------------------------------------------------

do $$
declare
  object record;
begin
  if not pg_has_role(current_user, 'subledger_owner', 'member') then
    return;
  end if;
  -- Only what has another owner: `alter table` waits for every session that uses the table.
  for object in
    select 'schema' as kind, nspname::regnamespace::text as name
    from pg_namespace
    where nspname in ('subledger', 'analyst')
      and nspowner <> 'subledger_owner'::regrole
    union all
    select 'table', oid::regclass::text
    from pg_class
    where relnamespace in ('subledger'::regnamespace, 'analyst'::regnamespace)
      and relkind in ('r', 'p', 'v')
      and relowner <> 'subledger_owner'::regrole
    union all
    select 'routine', oid::regprocedure::text
    from pg_proc
    where pronamespace in ('subledger'::regnamespace, 'analyst'::regnamespace)
      and proowner <> 'subledger_owner'::regrole
  loop
    execute format('alter %s %s owner to subledger_owner', object.kind, object.name);
  end loop;
end
$$;

-- Room for the bodies of this month and of the next ones. The server makes more before it is used up.
select subledger.make_body_partitions(now(), 3);
