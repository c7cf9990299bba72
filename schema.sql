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

insert into subledger.schema_version (version) values (1), (2), (3), (4);

-- Roles -------------------------------------------------------------------------------------------------------------
-- Roles belong to the cluster, so another database may have made them already, or be making them just now.
-- They are groups: grant them to the logins of your services. The server takes on the one that just suffices.
-- The analyst's settings hold for who logs in as that role itself; they are not handed on to its members.

do $$
declare
  name text;
begin
  foreach name in array array[
    'subledger_owner', 'subledger_receiver', 'subledger_projector', 'subledger_reader', 'subledger_analyst'
  ] loop
    begin
      if not exists (select from pg_roles where rolname = name) then
        execute format('create role %I nologin', name);
        -- A question that nobody waits for any more must not work on, and nothing is to be written by mistake.
        if name = 'subledger_analyst' then
          execute format('alter role %I set statement_timeout = %L', name, '60s');
          execute format('alter role %I set default_transaction_read_only = on', name);
        end if;
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

grant usage on schema subledger
  to subledger_receiver, subledger_projector, subledger_reader, subledger_analyst;
grant select on subledger.schema_version
  to subledger_receiver, subledger_projector, subledger_reader, subledger_analyst;

-- The event log -----------------------------------------------------------------------------------------------------

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

comment on table subledger.stream is 'An app in an environment: the unit in which positions are gapless';
comment on column subledger.stream.stream_id is 'Short name of the stream in this database, handed out from 1';
comment on column subledger.stream.app is 'Bundle id';
comment on column subledger.stream.environment is
  'production, sandbox, xcode, local_testing, or unknown for bodies that name none of them; never mixed';

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
  facts       jsonb compression lz4 not null,
  defects     jsonb,
  body        bytea compression lz4 not null,
  body_sha256 bytea       not null,
  chain_id    bytea,
  revocation  text,
  constraint event_pkey primary key (stream_id, position),
  constraint event_dedupe_key_key unique (stream_id, dedupe_key),
  constraint event_position_check check (position > 0),
  constraint event_dedupe_key_check check (octet_length(dedupe_key) in (16, 32)),
  constraint event_source_check check (source in ('apple-v1', 'apple-v2', 'backend')),
  constraint event_facts_check check (jsonb_typeof(facts) = 'object'),
  constraint event_defects_check check (jsonb_typeof(defects) = 'array'),
  constraint event_body_sha256_check check (octet_length(body_sha256) = 32),
  constraint event_chain_id_check check (octet_length(chain_id) = 32),
  constraint event_revocation_check check (revocation in ('off', 'pending', 'good', 'unknown'))
);

comment on table subledger.event is
  'Every notification that was taken, once, in the order of its commit. Append-only: update, delete and truncate are '
  'refused to everybody';
comment on column subledger.event.position is 'From 1, without a gap in its stream, in commit order';
comment on column subledger.event.received_at is 'When we learned it, by our clock';
comment on column subledger.event.occurred_at is
  'When it happened, by the notification''s own dates; null when it has none';
comment on column subledger.event.source is 'The wire format: apple-v1, apple-v2; backend for what the owner''s own backend states';
comment on column subledger.event.type is
  'As Apple spells it, also when this version does not know it; null when unreadable';
comment on column subledger.event.subtype is 'As Apple spells it; V1 has none';
comment on column subledger.event.kind is
  'What happened, in one word for all sources: purchase (first or after expiry), renewal, recovery (a failed renewal '
  'was paid after all), renewal_failure, plan_change (now or at the next renewal), auto_renew_change (switched on or '
  'off), offer (redeemed for the running product), extension (by the developer), extension_report, grace_end, '
  'expiration, refund, refund_declined, refund_reversal, revoke (family sharing ended), price_consent, price_change, '
  'metadata_update, migration, consumption_request, external_purchase, consent_rescinded, test, link (a backend states '
  'what belongs to a customer), other (a type without a word here yet). Never decides access: the facts do';
comment on column subledger.event.dedupe_key is
  'Equal for one notification sent twice: the notificationUUID, 16 bytes; where there is none, as in V1, a SHA-256 of '
  'what it says';
comment on column subledger.event.facts is
  '{"transactions":[…],"renewals":[…]} in Apple''s names, dates as ISO 8601 UTC, ids as text, absent things absent; '
  'under "notification" what else a signed notification says, under "link" what a backend states';
comment on column subledger.event.defects is
  'Fields that could not be read, [{"path","problem"}]; null when all could';
comment on column subledger.event.body is
  'The bytes as they arrived, less the shared secret. Where the first byte is 1 they are kept in fewer bytes: see '
  'event_body and rebuilt_body';
comment on column subledger.event.body_sha256 is 'SHA-256 of the bytes as they arrived, less the shared secret';
comment on column subledger.event.chain_id is
  'The certificates behind the signature, see certificate_verdict; null for what is not signed';
comment on column subledger.event.revocation is
  'What was known of their revocation when the event was taken: off (nobody asks), pending, good, unknown (no answer '
  'to be had); null for what is not signed';

create index event_received_at_idx on subledger.event (stream_id, received_at);

create table subledger.event_conflict (
  stream_id   integer     not null,
  position    bigint      not null,
  body_sha256 bytea       not null,
  received_at timestamptz not null,
  body        bytea compression lz4 not null,
  constraint event_conflict_pkey primary key (stream_id, position, body_sha256)
);

comment on table subledger.event_conflict is
  'Signed notifications that came with the notificationUUID of an event and other bytes than it. The event stays as '
  'it is; what differed is kept here. Append-only';
comment on column subledger.event_conflict.position is 'The event that has the notificationUUID';

create table subledger.certificate_verdict (
  chain_id   bytea       not null,
  decided_at timestamptz not null,
  verdict    text        not null,
  constraint certificate_verdict_pkey primary key (chain_id, decided_at),
  constraint certificate_verdict_verdict_check check (verdict in ('good', 'revoked', 'unknown'))
);

comment on table subledger.certificate_verdict is
  'Whether the certificates behind signatures were revoked, as their issuer answered (OCSP)';
comment on column subledger.certificate_verdict.chain_id is
  'SHA-256 of the SHA-256 digests of the leaf''s and the intermediate''s DER';

create table subledger.jws_header (
  stream_id integer not null,
  digest    bytea   not null,
  header    bytea compression lz4 not null,
  constraint jws_header_pkey primary key (stream_id, digest),
  -- Bodies are put together by digest, so nobody may put anything else under it.
  constraint jws_header_digest_check check (digest = sha256(header))
);

comment on table subledger.jws_header is
  'The first segments of the signed texts in a stream''s bodies, each once: Apple''s hold three certificates and hardly '
  'ever change. Written in the transaction of the first event that needs them. Append-only';
comment on column subledger.jws_header.digest is 'SHA-256 of the header';
comment on column subledger.jws_header.header is 'As it arrived, in base64url';

create function subledger.rebuilt_parts(of_stream integer, parts bytea) returns bytea
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

create function subledger.rebuilt_body(of_stream integer, stored bytea) returns bytea
language sql stable strict as $$
  select case
    when substr(stored, 1, 1) = '\x01' then subledger.rebuilt_parts(of_stream, substr(stored, 2))
    else stored
  end
$$;

create function subledger.event_body(of_stream integer, at_position bigint) returns bytea
language sql stable strict as $$
  select subledger.rebuilt_body(stream_id, body)
  from subledger.event
  where stream_id = of_stream
    and position = at_position
$$;

comment on function subledger.event_body is 'The body of an event as it arrived, less the shared secret';
comment on function subledger.rebuilt_body is 'What a column body of that stream stands for';
comment on function subledger.rebuilt_parts is
  'A column body without its first byte is a sequence of parts: a kind, of kind 2 then a header''s digest (32 bytes), a '
  'length (3 bytes, the highest first), as many bytes, of kind 2 then 64 more. Kind 0 stands for the bytes. Kinds 1 and 2 '
  'hold parts again: 1 stands for their base64, 2 for a JWS with that header, them as its payload, and the 64 bytes as '
  'its signature';

revoke execute on function
  subledger.event_body(integer, bigint), subledger.rebuilt_body(integer, bytea), subledger.rebuilt_parts(integer, bytea)
  from public;

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

create trigger event_conflict_append_only
  before update or delete or truncate on subledger.event_conflict
  for each statement execute function subledger.refuse_change();

alter table subledger.event_conflict enable always trigger event_conflict_append_only;

create trigger jws_header_append_only
  before update or delete or truncate on subledger.jws_header
  for each statement execute function subledger.refuse_change();

alter table subledger.jws_header enable always trigger jws_header_append_only;

grant select, insert on subledger.event to subledger_receiver;
grant select, insert on subledger.event_conflict, subledger.certificate_verdict to subledger_receiver;
grant select, insert on subledger.stream to subledger_receiver;
grant select, insert, update on subledger.stream_head to subledger_receiver;
grant select on subledger.event, subledger.stream, subledger.stream_head to subledger_projector;
grant select, insert on subledger.jws_header to subledger_receiver;
grant select on subledger.jws_header to subledger_projector;
grant execute on function
  subledger.event_body(integer, bigint), subledger.rebuilt_body(integer, bytea), subledger.rebuilt_parts(integer, bytea)
  to subledger_projector;

-- Readers get everything of an event but its body, which holds device ids and receipts.
grant select (
  stream_id, position, received_at, occurred_at, source, type, subtype, kind, dedupe_key, facts, defects, body_sha256,
  chain_id, revocation
) on subledger.event to subledger_reader, subledger_analyst;
grant select on subledger.stream, subledger.stream_head, subledger.certificate_verdict
  to subledger_reader, subledger_analyst;
grant select (stream_id, position, body_sha256, received_at) on subledger.event_conflict
  to subledger_reader, subledger_analyst;

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

comment on table subledger.projector_skip is
  'Events that an operator had the projector pass over, because they could not be folded. They stay in the log, and '
  'every rebuild passes over them too. Append-only';
comment on column subledger.projector_skip.reason is 'Why, in the operator''s words';
comment on column subledger.projector_skip.skipped_at is 'When it was decided, by the database''s clock';
comment on column subledger.projector_skip.skipped_by is 'Who decided it: the user of the operating system';

create trigger projector_skip_append_only
  before update or delete or truncate on subledger.projector_skip
  for each statement execute function subledger.refuse_change();

alter table subledger.projector_skip enable always trigger projector_skip_append_only;

grant select, insert on subledger.projector_skip to subledger_projector;
grant select on subledger.projector_skip to subledger_reader, subledger_analyst;

-- Projections -------------------------------------------------------------------------------------------------------
-- Written by the projector alone, in one transaction with its checkpoint. `subledger rebuild` folds the whole log into
-- tables like these in a schema of its own, subledger_rebuild, and brings the rows here when it has caught up.

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
  facts                    text compression lz4 not null,
  renewal_date             timestamptz,
  renewal_price            bigint,
  renewal_currency         text,
  price_increase_status    integer,
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
comment on column subledger.subscription.renewal_date is 'When the next renewal will be tried, as last stated';
comment on column subledger.subscription.renewal_price is
  'Of the next renewal, in thousandths of the currency''s unit; V1 states none';
comment on column subledger.subscription.price_increase_status is
  '0 the customer was asked and has not answered, 1 agreed';
comment on column subledger.subscription.access_ends_at is
  'End of the last access period, infinity for what is owned for ever; null when there is none';
comment on column subledger.subscription.position is 'The last event that said something about the line';
comment on column subledger.subscription.facts is
  'Everything that was ever stated about the line, each with its time and the position of its evidence: what the '
  'projector folds the next event into. JSON, kept byte for byte: cast it to jsonb to look into it';

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
  constraint transaction_pkey primary key (stream_id, original_transaction_id, transaction_id)
);

comment on table subledger.transaction is
  'Every purchase and renewal as it now stands, in the names of Apple''s signed transactions (V1''s cancellation_date '
  'is revocation_date)';
comment on column subledger.transaction.type is 'Kind of the product, as Apple spells it; V1 does not say';
comment on column subledger.transaction.revocation_percentage is 'Thousandths of a percent: 50000 is one half';
comment on column subledger.transaction.offer_type is '1 introductory, 2 promotional, 3 offer code, 4 win-back';
comment on column subledger.transaction.price is
  'Thousandths of the currency''s unit: 10990 is 10.99. V1 states no prices';
comment on column subledger.transaction.additional is 'What else Apple signed about it, in Apple''s names';
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
  constraint access_period_cut_check check (cut in ('upgraded', 'family_revoked', 'refunded_in_part', 'switched_off'))
);

comment on table subledger.access_period is
  'When a line gives access: starts_at included, ends_at excluded. Entitled at t means that some row holds t';
comment on column subledger.access_period.cause is
  'paid by a transaction, grace after a failed renewal, or owned for ever (ends_at is then infinity)';
comment on column subledger.access_period.cut is
  'Why it ends before its first date: upgraded, family_revoked, refunded_in_part, switched_off (renewal switched off '
  'in grace)';
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
grant select on subledger.checkpoint, subledger.subscription, subledger.transaction, subledger.access_period,
  subledger.subscription_now to subledger_analyst;

-- Products ----------------------------------------------------------------------------------------------------------
-- What the owner says of products beyond Apple's word. `subledger product` and the private listener write as a role of
-- its own.

do $$
begin
  begin
    if not exists (select from pg_roles where rolname = 'subledger_products') then
      create role subledger_products nologin;
    end if;
    if not (select rolsuper from pg_roles where rolname = current_user) then
      grant subledger_products to current_user;
    end if;
  exception
    when duplicate_object or unique_violation or insufficient_privilege then null;
  end;
end
$$;

create table subledger.product (
  app        text not null,
  product_id text not null,
  kind       text,
  duration   text,
  constraint product_pkey primary key (app, product_id),
  constraint product_app_check check (app <> '' and app !~ '[\u0001-\u001f]'),
  constraint product_product_id_check check (product_id <> '' and product_id !~ '[\u0001-\u001f]'),
  constraint product_kind_check check (kind in ('auto-renewable', 'non-renewing', 'consumable', 'non-consumable')),
  constraint product_duration_check check ((kind is not distinct from 'non-renewing') = (duration is not null)),
  constraint product_duration_format_check check (
    duration ~ '^P([0-9]{1,4}Y)?([0-9]{1,4}M)?([0-9]{1,4}W)?([0-9]{1,5}D)?$' and duration ~ '[1-9]'
  )
);

comment on table subledger.product is
  'What the owner says of products beyond what Apple says, for all environments of an app. Members of subledger_owner '
  'and subledger_products may change it by SQL; the projector folds the lines of the app anew by itself';
comment on column subledger.product.app is 'Bundle id';
comment on column subledger.product.kind is
  'auto-renewable, non-renewing, consumable or non-consumable; null to go by what the transactions say';
comment on column subledger.product.duration is
  'How long one purchase lasts, ISO 8601 without hours (P3M, P1Y, P10D); of non-renewing products, and of no others';

create table subledger.product_entitlement (
  app         text not null,
  product_id  text not null,
  entitlement text not null,
  constraint product_entitlement_pkey primary key (app, product_id, entitlement),
  constraint product_entitlement_app_check check (app <> '' and app !~ '[\u0001-\u001f]'),
  constraint product_entitlement_product_id_check check (product_id <> '' and product_id !~ '[\u0001-\u001f]'),
  constraint product_entitlement_entitlement_check check (entitlement <> '' and entitlement !~ '[\u0001-\u001f]')
);

comment on table subledger.product_entitlement is
  'What a product entitles to, many to many. A product without a row here entitles to its own id. Looked up when '
  'somebody reads, so a change restates the past too, at once';

create view subledger.product_catalog as
select
  app,
  string_agg(
    kind || coalesce(' ' || duration, '') || E'\t' || product_id, E'\n' order by product_id collate "C"
  ) as products
from subledger.product
where kind is not null
group by app;

comment on view subledger.product_catalog is
  'The kinds of an app''s products in one text, one product a line: what rows are folded with. Compare '
  'checkpoint.products';

create function subledger.notify_products() returns trigger
language plpgsql as $$
begin
  perform pg_notify('subledger_event', 'products');
  return null;
end
$$;

-- Makes the projector look at once. Where a trigger does not fire, it looks within seconds all the same.
create trigger product_notify
  after insert or update or delete or truncate on subledger.product
  for each statement execute function subledger.notify_products();

grant usage on schema subledger to subledger_products;
grant select on subledger.schema_version to subledger_products;
grant select, insert, update, delete on subledger.product, subledger.product_entitlement to subledger_products;
grant select on subledger.product, subledger.product_entitlement, subledger.product_catalog
  to subledger_projector, subledger_reader, subledger_analyst;

-- Customers ---------------------------------------------------------------------------------------------------------
-- Whose purchases belong together, folded from the log like all projections.

create table subledger.customer_edge (
  stream_id               integer not null,
  original_transaction_id text    not null,
  kind                    text    not null,
  id                      text    not null,
  position                bigint  not null,
  constraint customer_edge_pkey primary key (stream_id, original_transaction_id, kind, id),
  constraint customer_edge_kind_check check (kind in ('account', 'app_transaction', 'subscription'))
);

comment on table subledger.customer_edge is
  'What ties a line to others of its customer, by Apple''s word: an account token of its own (not one of a family''s '
  'buyer), an appTransactionId, another line that came in one notification with it';
comment on column subledger.customer_edge.kind is
  'account: an appAccountToken, in lower case; app_transaction: an appTransactionId; subscription: the smallest line '
  'of the notification';
comment on column subledger.customer_edge.position is 'The first event that stated it';

create table subledger.customer_link (
  stream_id         integer not null,
  customer          text    not null,
  position          bigint  not null,
  kind              text    not null,
  id                text    not null,
  replaced_position bigint,
  constraint customer_link_pkey primary key (stream_id, customer, position, kind, id),
  constraint customer_link_kind_check check (kind in ('account', 'app_transaction', 'subscription')),
  constraint customer_link_replaced_position_check check (replaced_position > position)
);

comment on table subledger.customer_link is
  'What a backend stated about its customers. Each statement is the whole set of a customer''s links; those of earlier '
  'statements stay, as what was believed then';
comment on column subledger.customer_link.customer is 'The backend''s own id of the customer';
comment on column subledger.customer_link.position is 'The event that stated it';
comment on column subledger.customer_link.kind is 'As in customer_edge, with original_transaction_ids of any line';
comment on column subledger.customer_link.replaced_position is
  'The statement that took the place of this one; null while it holds';

create index customer_link_id_idx on subledger.customer_link (stream_id, kind, id);

create table subledger.customer_identity (
  stream_id   integer not null,
  kind        text    not null,
  id          text    not null,
  customer_id text    not null,
  constraint customer_identity_pkey primary key (stream_id, kind, id),
  constraint customer_identity_kind_check check (kind in ('link', 'account', 'app_transaction', 'subscription'))
);

comment on table subledger.customer_identity is
  'Every id by which a customer is known, with the customer: those that edges and links tie together, directly or over '
  'others, are one. Streams never mix';
comment on column subledger.customer_identity.kind is
  'link: the backend''s own id; account: an appAccountToken, in lower case; app_transaction: an appTransactionId; '
  'subscription: an original_transaction_id';
comment on column subledger.customer_identity.customer_id is
  'The smallest original_transaction_id of the customer by bytes, so it changes when a smaller one joins; begins with '
  'a colon while there is none';

create index customer_identity_customer_id_idx on subledger.customer_identity (stream_id, customer_id);
create index customer_identity_id_idx on subledger.customer_identity (id);

-- What a backend has stated about a customer, the latest first.
create index event_link_idx on subledger.event (stream_id, (facts #>> '{link,customerId}'), position)
  where kind = 'link';

create function subledger.customer_entitlement(stream_id integer, app text, customer_id text, instant timestamptz)
returns table (
  entitlement text, until timestamptz, why bigint[], product_ids text[], original_transaction_ids text[]
)
language sql stable as $$
  select distinct on (entitlement)
    entitlement, ends_at, positions, product_ids, original_transaction_ids
  from (
    select
      entitlement,
      min(starts_at) as starts_at,
      max(ends_at) as ends_at,
      array_agg(distinct position order by position) as positions,
      array_agg(distinct product_id) as product_ids,
      array_agg(distinct original_transaction_id) as original_transaction_ids
    from (
      select
        entitlement, starts_at, ends_at, position, product_id, original_transaction_id,
        count(*) filter (where covered_until is null or covered_until < starts_at)
          over (partition by entitlement order by starts_at, ends_at) as run
      from (
        select
          coalesce(product_entitlement.entitlement, access_period.product_id) as entitlement,
          access_period.starts_at, access_period.ends_at, access_period.position, access_period.product_id,
          access_period.original_transaction_id,
          max(access_period.ends_at) over (
            partition by coalesce(product_entitlement.entitlement, access_period.product_id)
            order by access_period.starts_at, access_period.ends_at
            rows between unbounded preceding and 1 preceding
          ) as covered_until
        from subledger.customer_identity as line
        join subledger.access_period
          on access_period.stream_id = line.stream_id
          and access_period.original_transaction_id = line.id
        left join subledger.product_entitlement
          on product_entitlement.app = customer_entitlement.app
          and product_entitlement.product_id = access_period.product_id
        where line.stream_id = customer_entitlement.stream_id
          and line.customer_id = customer_entitlement.customer_id
          and line.kind = 'subscription'
          and access_period.product_id is not null
      ) as period
    ) as numbered
    group by entitlement, run
  ) as run
  where starts_at <= customer_entitlement.instant
  order by entitlement, starts_at desc
$$;

comment on function subledger.customer_entitlement is
  'What a customer is or was entitled to by an instant: of each entitlement the last unbroken run of access that began '
  'by then, over all lines; what overlaps or touches is one run. It is in force while until lies behind the instant';

create function subledger.entitlement_at(instant timestamptz)
returns table (
  app text, environment text, customer text, known_as text, customer_id text, entitlement text, active boolean,
  until timestamptz, why bigint[]
)
language sql stable as $$
  select
    stream.app,
    stream.environment,
    identity.id,
    identity.kind,
    identity.customer_id,
    given.entitlement,
    given.until > entitlement_at.instant,
    given.until,
    given.why
  from subledger.customer_identity as identity
  join subledger.stream using (stream_id)
  cross join lateral subledger.customer_entitlement(
    identity.stream_id, stream.app, identity.customer_id, entitlement_at.instant
  ) as given
$$;

comment on function subledger.entitlement_at is 'View entitlement as of an instant, as known today';

create view subledger.entitlement as
select app, environment, customer, known_as, customer_id, entitlement, active, until, why
from subledger.entitlement_at(now());

comment on view subledger.entitlement is
  'What each customer is entitled to at this moment, and was before: a row for each id that the customer is known by '
  '(known_as, see customer_identity.kind). Ask with customer = … and environment = …';
comment on column subledger.entitlement.until is
  'End of the unbroken access that holds now, over all purchases that give the entitlement; infinity for what is owned '
  'for ever; if not active, the end of the last one';
comment on column subledger.entitlement.why is 'The first events behind that access, ascending';

grant select, insert, update, delete
  on subledger.customer_edge, subledger.customer_link, subledger.customer_identity to subledger_projector;
grant select on subledger.customer_edge, subledger.customer_link, subledger.customer_identity, subledger.entitlement
  to subledger_reader, subledger_analyst;

-- Changes -----------------------------------------------------------------------------------------------------------

-- Tokens ------------------------------------------------------------------------------------------------------------
-- Backends show a token with each request to the private listener. Of all streams, so no key of a stream begins it.
-- Whoever owns the schema makes and revokes tokens; the server reads them in a role of its own, which reads nothing else.

do $$
begin
  begin
    if not exists (select from pg_roles where rolname = 'subledger_authenticator') then
      create role subledger_authenticator nologin;
    end if;
    if not (select rolsuper from pg_roles where rolname = current_user) then
      grant subledger_authenticator to current_user;
    end if;
  exception
    when duplicate_object or unique_violation or insufficient_privilege then null;
  end;
end
$$;

create table subledger.token (
  token_id      text        not null,
  secret_sha256 bytea       not null,
  scope         text        not null,
  name          text        not null,
  created_at    timestamptz not null default now(),
  revoked_at    timestamptz,
  constraint token_pkey primary key (token_id),
  constraint token_token_id_check check (token_id ~ '^[0-9a-f]{12}$'),
  constraint token_secret_sha256_check check (octet_length(secret_sha256) = 32),
  constraint token_scope_check check (scope in ('read', 'link', 'admin'))
);

comment on table subledger.token is
  'Who may ask the private listener. Nobody can be let in by what is kept of a token here';
comment on column subledger.token.token_id is 'The part of the token by which it is looked up; no secret';
comment on column subledger.token.secret_sha256 is 'SHA-256 of the 32 random bytes that are the secret part';
comment on column subledger.token.scope is
  'read; link, which includes read; or admin, which includes both: see the routes in the OpenAPI document';
comment on column subledger.token.name is 'Who has it, in the operator''s words';
comment on column subledger.token.revoked_at is 'Since when it is refused; null while it is in force';

create index token_in_force_idx on subledger.token (token_id) where revoked_at is null;

grant usage on schema subledger to subledger_authenticator;
grant select (token_id, secret_sha256, scope, revoked_at) on subledger.token to subledger_authenticator;

-- Analysts ----------------------------------------------------------------------------------------------------------

-- Ownership ---------------------------------------------------------------------------------------------------------
-- Everything belongs to the role of owners, so that each of its members can bring the schema up to date. Where the
-- role was not ours to take on, whoever applied this stays the owner.

do $$
declare
  name text;
begin
  if not pg_has_role(current_user, 'subledger_owner', 'member') then
    return;
  end if;
  execute 'alter schema subledger owner to subledger_owner';
  for name in
    select oid::regclass from pg_class where relnamespace = 'subledger'::regnamespace and relkind in ('r', 'v')
  loop
    execute format('alter table %s owner to subledger_owner', name);
  end loop;
  for name in select oid::regprocedure from pg_proc where pronamespace = 'subledger'::regnamespace loop
    execute format('alter function %s owner to subledger_owner', name);
  end loop;
end
$$;
