import Postgres

/// What a table takes on the disk, with all of its partitions.
package struct TableSize: Sendable, Hashable {
    package let table: String
    /// As PostgreSQL estimates it; nil if the table was never analyzed.
    package let rows: Int64?
    /// With long values, which are stored apart.
    package let bytes: Int64
    package let indexBytes: Int64

    /// All tables of the schema that are not empty, the largest first, and the number of events.
    ///
    /// - Parameter connection: Any role may ask.
    package static func all(
        on connection: PostgresConnection
    ) async throws(PostgresError) -> (events: Int64, tables: [TableSize]) {
        let events = try await connection.query(events, deadline: .now + Limits.auditWaitMax)
        let tables = try await connection.query(sizes, deadline: .now + Limits.auditWaitMax)
        return (
            try events[0].value(at: 0),
            try tables.map { (row) throws(PostgresError) -> TableSize in
                TableSize(
                    table: try row.value(at: 0), rows: try row.optional(at: 1), bytes: try row.value(at: 2),
                    indexBytes: try row.value(at: 3))
            }
        )
    }

    private static let events = Statement(
        "table_sizes_events",
        """
        select coalesce(sum(position), 0)::bigint
        from subledger.stream_head
        """)

    private static let sizes = Statement(
        "table_sizes",
        """
        select root.relname::text,
          case when min(part.reltuples) >= 0 then sum(part.reltuples)::bigint end,
          sum(pg_table_size(part.oid))::bigint, sum(pg_indexes_size(part.oid))::bigint
        from pg_class as part
        left join pg_inherits on pg_inherits.inhrelid = part.oid
        join pg_class as root on root.oid = coalesce(pg_inherits.inhparent, part.oid)
        where part.relnamespace = 'subledger'::regnamespace
          and part.relkind = 'r'
          and pg_relation_size(part.oid) > 0
        group by root.relname
        order by sum(pg_total_relation_size(part.oid)) desc, root.relname
        """)
}
