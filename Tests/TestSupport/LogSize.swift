import Postgres

/// The size of the log's tables in bytes, including indexes and out-of-line storage.
package struct LogSize: Sendable {
    package let total: Int64
    /// A line for each table.
    package let parts: [String]

    package static func measure(_ database: ConnectionConfiguration) async throws -> LogSize {
        let owner = try await TestCluster.connect(database)
        let rows = try await owner.query(Statements.sizes, deadline: .now + .seconds(60))
        let size = LogSize(
            total: try rows.reduce(0) { try $0 + $1.value(Int64.self, at: 0) },
            parts: try rows.map { try $0.value(at: 1) })
        await owner.close()
        return size
    }

    /// The bytes of everything that is not the log: what the fold derived from it.
    package static func projections(_ database: ConnectionConfiguration) async throws -> Int64 {
        let owner = try await TestCluster.connect(database)
        let rows = try await owner.query(Statements.projections, deadline: .now + .seconds(60))
        await owner.close()
        return try rows[0].value(at: 0)
    }

    private enum Statements {
        static let projections = Statement(
            "projection_sizes",
            """
            select sum(pg_total_relation_size(oid))::bigint
            from pg_class
            where relnamespace = 'subledger'::regnamespace
              and relkind = 'r'
              and not relispartition
              and relname not in ('event', 'event_conflict', 'jws_header', 'stream', 'stream_head', 'subscription_head')
            """)

        static let sizes = Statement(
            "storage_sizes",
            """
            select pg_total_relation_size(oid),
              format('%s: rows %s, out of line %s, indexes %s', relname, pg_table_size(oid) - toast.bytes, toast.bytes,
                pg_indexes_size(oid))
            from pg_class
            cross join lateral (
              select coalesce(pg_total_relation_size(nullif(reltoastrelid, 0)), 0) as bytes
            ) as toast
            where relnamespace = 'subledger'::regnamespace
              and (
                relispartition and relkind = 'r'
                or relname in (
                  'event', 'event_conflict', 'jws_header', 'stream', 'stream_head', 'subscription_head'
                )
              )
            order by relname
            """)
    }
}
