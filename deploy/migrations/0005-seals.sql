-- From version 4 to version 5: what no body says is sealed, and analysts' views may use several processors.
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
