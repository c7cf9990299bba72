import Logging
import Postgres
import Synchronization

/// Whether the database still is safe to append to. Its settings can change while it runs, by a reload or by a failover
/// to a server with other ones.
package final class DurabilityWatch: Sendable {
    package enum Condition: Sendable, Equatable {
        case safe
        /// The setting is off, so a crash could lose what is acknowledged from now on.
        case unsafe(setting: String)
    }

    private let pool: PostgresPool
    private let logger: Logger
    private let state = Mutex(Condition.safe)

    /// - Parameter pool: The appender's own, since a session can have settings of its own.
    package init(pool: PostgresPool, logger: Logger) {
        self.pool = pool
        self.logger = logger
    }

    /// As the last look that got an answer found it; safe before the first, because the server checks when it starts.
    package var condition: Condition { state.withLock { $0 } }

    /// Looks again and again until the task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            await look()
            try? await Task.sleep(for: Limits.durabilityLookTime)
        }
    }

    /// Reads the settings, and logs a line if the condition changed. A database that does not answer changes nothing.
    package func look() async {
        guard let rows = try? await pool.query(Durability.settings, deadline: .now + Limits.readWaitMax),
            let found = try? Durability.settingsOff(rows)
        else { return }
        let new = found.first.map { Condition.unsafe(setting: $0) } ?? .safe
        let old = state.withLock { state in
            defer { state = new }
            return state
        }
        guard new != old else { return }
        switch new {
        case .unsafe(let setting):
            logger.error(
                "a database setting is unsafe, notifications are refused until it is on",
                metadata: ["db.setting": "\(setting)"])
        case .safe:
            logger.notice("the database settings are safe again")
        }
    }
}
