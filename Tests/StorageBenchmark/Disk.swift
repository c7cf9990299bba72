import EventLog
import Logging
import Postgres
import Subscriptions
import TestSupport

/// The bytes that the tables of the log take in a database of their own.
struct Disk {
    let total: Int64
    /// A line for each table.
    let parts: [String]

    /// Appends the events, many at a time, as the receiver does.
    static func measure(_ events: [MeasuredEvent]) async throws -> Disk {
        let database = try await TestCluster.freshDatabase()
        let logger = Logger(label: "storage", factory: { _ in SwiftLogNoOpLogHandler() })
        let pool = PostgresPool(database.with(role: "subledger_receiver"), limit: 1, logger: logger)
        let appender = Appender(pool: pool, logger: logger)
        let running = Task { await appender.run() }
        for start in stride(from: 0, to: events.count, by: 100) {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for event in events[start..<min(start + 100, events.count)] {
                    group.addTask { _ = try await appender.append(event, receivedAt: event.receivedAt) }
                }
                try await group.waitForAll()
            }
        }
        await appender.stop()
        await running.value
        await pool.close()
        let owner = try await TestCluster.connect(database)
        let rows = try await owner.query(Statements.sizes, deadline: .now + .seconds(60))
        let disk = Disk(
            total: try rows.reduce(0) { try $0 + $1.value(Int64.self, at: 0) },
            parts: try rows.map { try $0.value(at: 1) })
        await owner.close()
        return disk
    }

    private enum Statements {
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
              and relname in ('event', 'event_conflict', 'jws_header', 'stream', 'stream_head')
            order by relname
            """)
    }
}
