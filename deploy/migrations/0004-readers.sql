-- From version 3 to version 4: what backends and analysts read, and certificates stored once.
--
-- `subledger migrate` and `subledger serve` apply it, in one transaction.

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

-- Products ----------------------------------------------------------------------------------------------------------

-- Customers ---------------------------------------------------------------------------------------------------------

-- Changes -----------------------------------------------------------------------------------------------------------

-- Tokens ------------------------------------------------------------------------------------------------------------

-- Analysts ----------------------------------------------------------------------------------------------------------
