-- From version 1 to version 2: signed notifications.
--
-- `subledger migrate` and `subledger serve` apply it, in one transaction. It reads the whole log once, to give every
-- event its digest.

insert into subledger.schema_version (version) values (2);

alter table subledger.stream
  drop constraint stream_environment_check,
  add constraint stream_environment_check
    check (environment in ('production', 'sandbox', 'xcode', 'local_testing', 'unknown'));

comment on column subledger.stream.environment is
  'production, sandbox, xcode, local_testing, or unknown for bodies that name none of them; never mixed';

alter table subledger.event
  add column body_sha256 bytea,
  add column chain_id bytea,
  add column revocation text;

alter table subledger.event disable trigger event_append_only;
update subledger.event set body_sha256 = sha256(body);
alter table subledger.event enable always trigger event_append_only;

alter table subledger.event
  alter column body_sha256 set not null,
  drop constraint event_dedupe_key_check,
  add constraint event_dedupe_key_check check (octet_length(dedupe_key) in (16, 32)),
  drop constraint event_source_check,
  add constraint event_source_check check (source in ('apple-v1', 'apple-v2')),
  add constraint event_body_sha256_check check (octet_length(body_sha256) = 32),
  add constraint event_chain_id_check check (octet_length(chain_id) = 32),
  add constraint event_revocation_check check (revocation in ('off', 'pending', 'good', 'unknown'));

comment on column subledger.event.source is 'The wire format: apple-v1, apple-v2';
comment on column subledger.event.kind is
  'What happened, in one word for all sources: purchase (first or after expiry), renewal, recovery (a failed renewal '
  'was paid after all), renewal_failure, plan_change (now or at the next renewal), auto_renew_change (switched on or '
  'off), offer (redeemed for the running product), extension (by the developer), extension_report, grace_end, '
  'expiration, refund, refund_declined, refund_reversal, revoke (family sharing ended), price_consent, price_change, '
  'metadata_update, migration, consumption_request, external_purchase, consent_rescinded, test, other (a type without '
  'a word here yet). Never decides access: the facts do';
comment on column subledger.event.dedupe_key is
  'Equal for one notification sent twice: the notificationUUID, 16 bytes; where there is none, as in V1, a SHA-256 of '
  'what it says';
comment on column subledger.event.facts is
  '{"transactions":[…],"renewals":[…]} in Apple''s names, dates as ISO 8601 UTC, ids as text, absent things absent; '
  'under "notification" what else a signed notification says';
comment on column subledger.event.body_sha256 is 'SHA-256 of the body';
comment on column subledger.event.chain_id is
  'The certificates behind the signature, see certificate_verdict; null for what is not signed';
comment on column subledger.event.revocation is
  'What was known of their revocation when the event was taken: off (nobody asks), pending, good, unknown (no answer '
  'to be had); null for what is not signed';

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

create trigger event_conflict_append_only
  before update or delete or truncate on subledger.event_conflict
  for each statement execute function subledger.refuse_change();

alter table subledger.event_conflict enable always trigger event_conflict_append_only;

grant select, insert on subledger.event_conflict, subledger.certificate_verdict to subledger_receiver;
grant select (body_sha256, chain_id, revocation) on subledger.event to subledger_reader;
grant select on subledger.certificate_verdict to subledger_reader;
grant select (stream_id, position, body_sha256, received_at) on subledger.event_conflict to subledger_reader;

alter table subledger.subscription
  add column renewal_date timestamptz,
  add column renewal_price bigint,
  add column renewal_currency text,
  add column price_increase_status integer;

comment on column subledger.subscription.renewal_date is 'When the next renewal will be tried, as last stated';
comment on column subledger.subscription.renewal_price is
  'Of the next renewal, in thousandths of the currency''s unit; V1 states none';
comment on column subledger.subscription.price_increase_status is
  '0 the customer was asked and has not answered, 1 agreed';

alter table subledger.transaction
  add column type text,
  add column revocation_type text,
  add column revocation_percentage integer,
  add column offer_type integer,
  add column offer_identifier text,
  add column offer_discount_type text,
  add column offer_period text,
  add column storefront text,
  add column storefront_id text,
  add column transaction_reason text,
  add column price bigint,
  add column currency text,
  add column app_transaction_id text,
  add column previous_original_transaction_id text,
  add column billing_plan_type text,
  add column additional jsonb;

comment on column subledger.transaction.type is 'Kind of the product, as Apple spells it; V1 does not say';
comment on column subledger.transaction.revocation_percentage is 'Thousandths of a percent: 50000 is one half';
comment on column subledger.transaction.offer_type is '1 introductory, 2 promotional, 3 offer code, 4 win-back';
comment on column subledger.transaction.price is
  'Thousandths of the currency''s unit: 10990 is 10.99. V1 states no prices';
comment on column subledger.transaction.additional is 'What else Apple signed about it, in Apple''s names';

alter table subledger.access_period
  drop constraint access_period_cut_check,
  add constraint access_period_cut_check
    check (cut in ('upgraded', 'family_revoked', 'refunded_in_part', 'switched_off'));

comment on column subledger.access_period.cut is
  'Why it ends before its first date: upgraded, family_revoked, refunded_in_part, switched_off (renewal switched off '
  'in grace)';
