import Postgres

/// Reports how far a long statement of a migration is, over a connection of its own.
package struct MigrationWatch: Sendable {
    private let configuration: ConnectionConfiguration
    private let backendPID: Int32
    private let interval: Duration

    /// - Parameters:
    ///   - configuration: That of the migrating session, since PostgreSQL shows others nothing.
    ///   - backendPID: The session that migrates.
    package init(
        configuration: ConnectionConfiguration, backendPID: Int32, interval: Duration = Limits.migrationWatchInterval
    ) {
        self.configuration = configuration
        self.backendPID = backendPID
        self.interval = interval
    }

    /// Reports while the body runs. A report that fails is left out.
    package func during<Value, Failure: Error>(
        _ report: @escaping @Sendable (MigrationProgress) -> Void, _ body: () async throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let reports = Task {
            while (try? await Task.sleep(for: interval)) != nil {
                if let progress = try? await progress() { report(progress) }
            }
        }
        defer { reports.cancel() }
        return try await body()
    }

    /// How far the statement that runs is; nil if none runs.
    package func progress() async throws(PostgresError) -> MigrationProgress? {
        let connection = try await PostgresConnection.connect(configuration, deadline: .now + Limits.readWaitMax)
        let rows: RowSet
        do {
            rows = try await connection.query(
                Statements.progress, [Parameter(backendPID)], deadline: .now + Limits.readWaitMax)
        } catch {
            await connection.close()
            throw error
        }
        await connection.close()
        guard rows.count > 0 else { return nil }
        return .running(
            seconds: try rows[0].value(at: 0), phase: try rows[0].optional(at: 1),
            percent: try rows[0].optional(Int32.self, at: 2).map(Int.init))
    }

    private enum Statements {
        static let progress = Statement(
            "migration_progress",
            """
            select extract(epoch from clock_timestamp() - pg_stat_activity.query_start)::bigint,
              case when pg_stat_activity.wait_event_type = 'Lock' then 'waiting for a lock' else building.phase end,
              (100 * building.blocks_done / nullif(building.blocks_total, 0))::integer
            from pg_stat_activity
            left join pg_stat_progress_create_index as building on building.pid = pg_stat_activity.pid
            where pg_stat_activity.pid = $1
              and pg_stat_activity.state = 'active'
            """)
    }
}
