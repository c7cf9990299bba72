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

-- Changes -----------------------------------------------------------------------------------------------------------

-- Tokens ------------------------------------------------------------------------------------------------------------

-- Analysts ----------------------------------------------------------------------------------------------------------
