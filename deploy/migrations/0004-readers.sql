-- From version 3 to version 4: what backends and analysts read, and certificates stored once.
--
-- `subledger migrate` and `subledger serve` apply it, in one transaction.

-- Products were in the apps file. Those that the rows were folded with go on; read them before anything is emptied.
create temporary table configured_product on commit drop as
select distinct on (app, product_id)
  app, product_id, split_part(words, ' ', 1) as kind, nullif(split_part(words, ' ', 2), '') as duration
from (
  select stream.app, stream.stream_id, split_part(line, E'\t', 1) as words,
    substr(line, strpos(line, E'\t') + 1) as product_id
  from subledger.checkpoint
  join subledger.stream using (stream_id)
  cross join regexp_split_to_table(checkpoint.products, E'\n') as line
  where line <> ''
) as configured
order by app, product_id, stream_id;

insert into subledger.schema_version (version) values (4);

-- Projections --------------------------------------------------------------------------------------------------------
-- The facts of a line are kept byte for byte from here on. What jsonb has kept of them is not, so the projector folds
-- the log anew.

delete from subledger.checkpoint;
truncate subledger.subscription, subledger.transaction, subledger.access_period;
alter table subledger.subscription
  alter column facts type text using facts::text,
  alter column facts set compression lz4;
comment on column subledger.subscription.facts is
  'Everything that was ever stated about the line, each with its time and the position of its evidence: what the '
  'projector folds the next event into. JSON, kept byte for byte: cast it to jsonb to look into it';

-- Certificates ------------------------------------------------------------------------------------------------------
-- Bodies that are there already stay as they are: a first byte other than 1 says so.

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

create trigger jws_header_append_only
  before update or delete or truncate on subledger.jws_header
  for each statement execute function subledger.refuse_change();

alter table subledger.jws_header enable always trigger jws_header_append_only;

grant select, insert on subledger.jws_header to subledger_receiver;
grant select on subledger.jws_header to subledger_projector;
grant execute on function
  subledger.event_body(integer, bigint), subledger.rebuilt_body(integer, bytea), subledger.rebuilt_parts(integer, bytea)
  to subledger_projector;

do $$
begin
  if not pg_has_role(current_user, 'subledger_owner', 'member') then
    return;
  end if;
  alter table subledger.jws_header owner to subledger_owner;
  alter function subledger.event_body(integer, bigint) owner to subledger_owner;
  alter function subledger.rebuilt_body(integer, bytea) owner to subledger_owner;
  alter function subledger.rebuilt_parts(integer, bytea) owner to subledger_owner;
end
$$;

comment on column subledger.event.body is
  'The bytes as they arrived, less the shared secret. Where the first byte is 1 they are kept in fewer bytes: see '
  'event_body and rebuilt_body';
comment on column subledger.event.body_sha256 is 'SHA-256 of the bytes as they arrived, less the shared secret';

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

insert into subledger.product (app, product_id, kind, duration)
select app, product_id, kind, duration
from configured_product;

do $$
begin
  if pg_has_role(current_user, 'subledger_owner', 'member') then
    alter table subledger.product owner to subledger_owner;
    alter table subledger.product_entitlement owner to subledger_owner;
    alter view subledger.product_catalog owner to subledger_owner;
    alter function subledger.notify_products() owner to subledger_owner;
  end if;
end
$$;

-- Customers ---------------------------------------------------------------------------------------------------------
-- The names of events' sources and the ids of customers' events are new. The table of events is locked for the check,
-- which reads it once.
alter table subledger.event
  drop constraint event_source_check,
  add constraint event_source_check check (source in ('apple-v1', 'apple-v2', 'backend'));
comment on column subledger.event.source is 'The wire format: apple-v1, apple-v2; backend for what the owner''s own backend states';
comment on column subledger.event.kind is
  'What happened, in one word for all sources: purchase (first or after expiry), renewal, recovery (a failed renewal '
  'was paid after all), renewal_failure, plan_change (now or at the next renewal), auto_renew_change (switched on or '
  'off), offer (redeemed for the running product), extension (by the developer), extension_report, grace_end, '
  'expiration, refund, refund_declined, refund_reversal, revoke (family sharing ended), price_consent, price_change, '
  'metadata_update, migration, consumption_request, external_purchase, consent_rescinded, test, link (a backend states '
  'what belongs to a customer), other (a type without a word here yet). Never decides access: the facts do';
comment on column subledger.event.facts is
  '{"transactions":[…],"renewals":[…]} in Apple''s names, dates as ISO 8601 UTC, ids as text, absent things absent; '
  'under "notification" what else a signed notification says, under "link" what a backend states';

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

-- Whom the lines belong to was not kept so far: the projector folds the log anew.
delete from subledger.checkpoint;
truncate subledger.subscription, subledger.transaction, subledger.access_period;

do $$
begin
  if pg_has_role(current_user, 'subledger_owner', 'member') then
    alter table subledger.customer_edge owner to subledger_owner;
    alter table subledger.customer_link owner to subledger_owner;
    alter table subledger.customer_identity owner to subledger_owner;
    alter view subledger.entitlement owner to subledger_owner;
    alter function subledger.customer_entitlement owner to subledger_owner;
    alter function subledger.entitlement_at owner to subledger_owner;
  end if;
end
$$;

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

do $$
begin
  if pg_has_role(current_user, 'subledger_owner', 'member') then
    alter table subledger.token owner to subledger_owner;
  end if;
end
$$;

-- Analysts ----------------------------------------------------------------------------------------------------------
