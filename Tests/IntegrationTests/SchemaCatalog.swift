import Postgres

/// Every property of the schema that clients can rely on, one per line.
enum SchemaCatalog {
    static func lines(of connection: PostgresConnection) async throws -> [String] {
        let rows = try await connection.query(Statement("catalog", catalog), deadline: .now + .seconds(20))
        return try (0..<rows.count).map { try rows[$0].value(at: 0) }
    }

    /// The privileges in an order that does not depend on that of the grants.
    private static func privileges(_ list: SQL) -> SQL {
        "select string_agg(item::text, ' ' order by item::text) from unnest(\(list)) as item"
    }

    private static let catalog: SQL = """
        with relation as (
          select pg_class.oid, relname, relkind, (\(privileges("relacl"))) as relacl, relowner, reloptions,
            relpersistence
          from pg_class
          where relnamespace in ('subledger'::regnamespace, 'analyst'::regnamespace)
            -- Which months have a partition depends on the log, and on the day.
            and not relispartition
        )
        select format('column %s.%s %s %s %s %s', relname,
          row_number() over (partition by attrelid order by attnum), attname, format_type(atttypid, atttypmod),
          concat_ws(' ', attnotnull, attcompression, attstorage, attidentity, attgenerated, attstattarget,
            (\(privileges("attacl"))), pg_get_expr(adbin, adrelid)), col_description(attrelid, attnum))
        from pg_attribute
        join relation on relation.oid = attrelid
        left join pg_attrdef on adrelid = attrelid and adnum = attnum
        where attnum > 0
          and not attisdropped
        union all
        select format('index %s %s', relname, pg_get_indexdef(oid))
        from relation
        where relkind in ('i', 'I')
        union all
        select format('constraint %s.%s %s', relname, conname, pg_get_constraintdef(pg_constraint.oid))
        from pg_constraint
        join relation on relation.oid = conrelid
        union all
        select format('trigger %s.%s %s %s', relname, tgname, tgenabled, pg_get_triggerdef(pg_trigger.oid))
        from pg_trigger
        join relation on relation.oid = tgrelid
        union all
        select format('relation %s %s %s %s %s %s %s', relkind, relname, relacl, relowner::regrole, reloptions,
          relpersistence, obj_description(oid, 'pg_class'))
        from relation
        union all
        select format('view %s %s', viewname, definition)
        from pg_views
        where schemaname in ('subledger', 'analyst')
        union all
        select format('function %s %s %s %s', oid::regprocedure,
          case prokind when 'a' then pg_get_function_result(oid) else pg_get_functiondef(oid) end,
          concat_ws(' ', (\(privileges("proacl"))), proowner::regrole), obj_description(oid, 'pg_proc'))
        from pg_proc
        where pronamespace in ('subledger'::regnamespace, 'analyst'::regnamespace)
        union all
        select format('schema %s %s %s %s', nspname, nspowner::regrole, (\(privileges("nspacl"))),
          obj_description(oid, 'pg_namespace'))
        from pg_namespace
        where nspname in ('subledger', 'analyst')
        union all
        select format('publication %s %s.%s %s', pubname, schemaname, tablename, attnames)
        from pg_publication_tables
        union all
        select format('version %s', max(version))
        from subledger.schema_version
        order by 1
        """
}
