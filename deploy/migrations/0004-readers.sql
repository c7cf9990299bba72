-- From version 3 to version 4: what backends and analysts read, and certificates stored once.
--
-- `subledger migrate` and `subledger serve` apply it, in one transaction.

insert into subledger.schema_version (version) values (4);

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

-- Customers ---------------------------------------------------------------------------------------------------------

-- Changes -----------------------------------------------------------------------------------------------------------

-- Tokens ------------------------------------------------------------------------------------------------------------

-- Analysts ----------------------------------------------------------------------------------------------------------
