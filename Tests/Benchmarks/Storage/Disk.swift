import EventLog
import Logging
import Postgres
import Subscriptions
import TestSupport

/// The size of events in a database of their own.
enum Disk {
    /// Appends the events concurrently, as the receiver does, and returns the size of the log.
    static func measure(_ events: [MeasuredEvent]) async throws -> LogSize {
        let database = try await TestCluster.freshDatabase()
        let logger = Logger(label: "storage", factory: { _ in SwiftLogNoOpLogHandler() })
        let pool = PostgresPool(database.with(role: "subledger_receiver"), limit: 1, logger: logger)
        let appender = Appender(pool: pool, logger: logger)
        let running = Task { await appender.run() }
        for start in stride(from: 0, to: events.count, by: 100) {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for event in events[start..<min(start + 100, events.count)] {
                    group.addTask { _ = try await appender.append(PreparedEvent(event, receivedAt: event.receivedAt)) }
                }
                try await group.waitForAll()
            }
        }
        await appender.stop()
        await running.value
        await pool.close()
        return try await LogSize.measure(database)
    }
}
