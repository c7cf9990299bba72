import Postgres
import Synchronization

/// Whether a database is distributed, looked up once: distributing it requires that its servers restart.
package final class DatabaseLayout: Sendable {
    private let known = Mutex<Bool?>(nil)

    package init() {}

    package func isDistributed(
        _ pool: PostgresPool, deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> Bool {
        if let known = known.withLock({ $0 }) { return known }
        let found: Bool = try await pool.query(Distribution.Statements.isInUse, [], deadline: deadline)[0].value(at: 0)
        known.withLock { $0 = found }
        return found
    }
}
