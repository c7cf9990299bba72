import Logging
import Postgres
import ServiceLifecycle

/// Lets what analysts ask a private server run when nobody else wants the processor: a question that joins everything with
/// everything would delay each notification by tens of milliseconds on a small machine. PostgreSQL itself has no
/// priorities; on a server of somebody else's it is up to them, or to a standby.
struct AnalystSessions: Service {
    private let server: EmbeddedServer
    let pool: PostgresPool

    init(server: EmbeddedServer, owner: ConnectionConfiguration, logger: Logger) {
        self.server = server
        var owner = owner
        owner.applicationName = "subledger analysts"
        pool = PostgresPool(owner, limit: 1, logger: logger)
    }

    /// Questions that run on several processors have a new process for each, which is found by looking again.
    private static let interval = Duration.milliseconds(50)
    /// While no analyst is there.
    private static let idleInterval = Duration.milliseconds(250)

    private struct Process: Hashable {
        let pid: Int32
        let startedAt: Int64
    }

    func run() async throws {
        await cancelWhenGracefulShutdown {
            var known: Set<Process> = []
            while !Task.isCancelled {
                // Gone or not yet back: they will be found.
                let found = (try? await processes()) ?? []
                known = found.filter { known.contains($0) || server.runWhenIdle($0.pid) }
                try? await Task.sleep(for: found.isEmpty ? Self.idleInterval : Self.interval)
            }
        }
    }

    private func processes() async throws -> Set<Process> {
        let rows = try await pool.query(Self.processes, deadline: .now + .seconds(5))
        return Set(
            try rows.map { row in Process(pid: try row.value(at: 0), startedAt: try row.value(at: 1)) })
    }

    /// Of those who are nothing but analysts, their parallel workers too.
    private static let processes = Statement(
        "analyst_processes",
        """
        select pg_stat_activity.pid, (extract(epoch from pg_stat_activity.backend_start) * 1000000)::bigint
        from pg_stat_activity
        join pg_roles on pg_roles.oid = pg_stat_activity.usesysid
        where pg_has_role(pg_roles.oid, 'subledger_analyst', 'member')
          and not pg_has_role(pg_roles.oid, 'subledger_reader', 'member')
          and not pg_has_role(pg_roles.oid, 'subledger_projector', 'member')
          and not pg_has_role(pg_roles.oid, 'subledger_receiver', 'member')
        """)
}
