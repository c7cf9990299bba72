-- Prints deploy/dbt/sources.yml: the views of schema analyst and their columns as a dbt source, from the comments of the
-- database. Run it with: psql --no-psqlrc --tuples-only --no-align --file deploy/dbt/sources.sql
select string_agg(line, chr(10) order by place, relation, attribute)
from (
  select 0 as place, '' as relation, 0 as attribute, concat_ws(chr(10),
    '# Made by deploy/dbt/sources.sql from the comments of the database.', 'version: 2', '', 'sources:',
    '  - name: subledger', '    description: ' || to_json(obj_description('analyst'::regnamespace, 'pg_namespace'))::text,
    '    schema: analyst', '    tables:') as line
  union all
  select 1, relname, 0, concat_ws(chr(10),
    '      - name: ' || relname, '        description: ' || to_json(obj_description(oid, 'pg_class'))::text,
    '        columns:')
  from pg_class
  where relnamespace = 'analyst'::regnamespace
    and relkind = 'v'
  union all
  select 1, relname, attnum, concat_ws(chr(10),
    '          - name: ' || attname, '            data_type: ' || format_type(atttypid, atttypmod),
    '            description: ' || to_json(col_description(attrelid, attnum))::text)
  from pg_attribute
  join pg_class on pg_class.oid = attrelid
  where relnamespace = 'analyst'::regnamespace
    and relkind = 'v'
    and attnum > 0
    and not attisdropped
) as part
where line is not null;
