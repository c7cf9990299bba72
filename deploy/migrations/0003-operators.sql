-- From version 2 to version 3: roles of owners and analysts, and events that an operator has the projector pass over.
--
-- `subledger migrate` and `subledger serve` apply it, in one transaction. It rewrites nothing, but locks each table for
-- a moment to change its owner.

insert into subledger.schema_version (version) values (3);

-- The analyst's settings hold for who logs in as that role itself; they are not handed on to its members.
do $$
declare
  name text;
begin
  foreach name in array array['subledger_owner', 'subledger_analyst'] loop
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

grant usage on schema subledger to subledger_analyst;
grant select on subledger.schema_version to subledger_analyst;
grant select (
  stream_id, position, received_at, occurred_at, source, type, subtype, kind, dedupe_key, facts, defects, body_sha256,
  chain_id, revocation
) on subledger.event to subledger_analyst;
grant select on subledger.stream, subledger.stream_head, subledger.certificate_verdict to subledger_analyst;
grant select (stream_id, position, body_sha256, received_at) on subledger.event_conflict to subledger_analyst;
grant select on subledger.checkpoint, subledger.subscription, subledger.transaction, subledger.access_period,
  subledger.subscription_now to subledger_analyst;
grant select, insert on subledger.projector_skip to subledger_projector;
grant select on subledger.projector_skip to subledger_reader, subledger_analyst;

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

-- The default takes several times as long to compress, and every notification writes both.
alter table subledger.event alter column facts set compression lz4;
alter table subledger.subscription alter column facts set compression lz4;
