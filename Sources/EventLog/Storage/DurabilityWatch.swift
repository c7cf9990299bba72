import Logging
import Metrics
import Postgres
import Synchronization

/// Watches whether the database is still safe to append to, and whether its notifications are read. Its settings can change
/// at run time, through a reload or a failover to a server with different settings.
package final class DurabilityWatch: Sendable {
    package enum Condition: Sendable, Equatable {
        case safe
        /// The setting is off, so a crash could lose notifications that are acknowledged from now on.
        case unsafe(setting: String)
    }

    package let basis: Durability.Basis
    private let pool: PostgresPool
    private let logger: Logger
    private let state = Mutex(Condition.safe)
    private let unread = Mutex<Double?>(nil)
    private let queueUsage = Gauge(label: "subledger_notification_queue_usage")

    /// - Parameter pool: The appender's pool, because each session can have its own settings.
    package init(pool: PostgresPool, basis: Durability.Basis = .settings, logger: Logger) {
        self.pool = pool
        self.basis = basis
        self.logger = logger
    }

    /// The result of the last successful check; safe before the first one, because the server also checks at start.
    package var condition: Condition { state.withLock { $0 } }

    /// The share of PostgreSQL's notification queue in use, from 0 to 1, while it is more than
    /// ``Limits/notificationQueueUsageMax``; nil otherwise, and before the first check.
    package var queueUsageTooHigh: Double? { unread.withLock { $0 } }

    /// Checks every ``Limits/durabilityLookTime`` until the task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            await look()
            try? await Task.sleep(for: Limits.durabilityLookTime)
        }
    }

    /// Reads the settings, and logs a line if the condition changed. If the database does not respond, the condition
    /// stays the same.
    package func look() async {
        guard let rows = try? await pool.query(Durability.settings, deadline: .now + Limits.readWaitMax),
            let found = try? Durability.settingsOff(rows, basis)
        else { return }
        if let usage = try? Durability.notificationQueueUsage(rows) { note(queueUsage: usage) }
        let new = found.first.map { Condition.unsafe(setting: $0) } ?? .safe
        let old = state.withLock { state in
            defer { state = new }
            return state
        }
        guard new != old else { return }
        switch new {
        case .unsafe(let setting):
            logger.error(
                "unsafe database setting; rejecting notifications until it is on",
                metadata: ["db.setting": "\(setting)"])
        case .safe:
            logger.notice("database settings are safe again")
        }
    }

    /// Logs a line if the queue fills up, or is being read again.
    func note(queueUsage usage: Double) {
        queueUsage.record(usage)
        let new = usage > Limits.notificationQueueUsageMax ? usage : nil
        let old = unread.withLock { unread in
            defer { unread = new }
            return unread
        }
        guard (new == nil) != (old == nil) else { return }
        if new != nil {
            logger.warning("a session keeps notifications of the database unread", metadata: ["db.queue": "\(usage)"])
        } else {
            logger.notice("notifications of the database are read again")
        }
    }
}
