import Logging
import Postgres
import ServiceLifecycle

/// Ends sessions of readers and analysts on a private PostgreSQL that exceed ``ReaderLimits``, regardless of their own
/// settings. The server's own sessions belong to the superuser and are not ended.
struct ReaderWatch: Service {
    let pool: PostgresPool
    private let limits: [Parameter]
    private let logger: Logger

    init(owner: ConnectionConfiguration, times: ReaderLimits.Times = .standard, logger: Logger) {
        var owner = owner
        owner.applicationName = "subledger reader watch"
        pool = PostgresPool(owner, limit: 1, logger: logger)
        // In the order of the statement's parameters.
        limits = [times.statement, times.idleInTransaction, times.transaction, times.idle].map { time in
            Parameter(Int32((time + times.grace).components.seconds))
        }
        self.logger = logger
    }

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                // While the database is down there are no sessions. The next check finds later ones.
                if let ended = try? await pool.query(Self.endSessions, limits, deadline: .now + .seconds(5)) {
                    for row in ended { report(row) }
                }
                try? await Task.sleep(for: ReaderLimits.lookTime)
            }
        }
    }

    private func report(_ row: Row) {
        guard let user = try? row.value(String.self, at: 0), let reason = try? row.value(String.self, at: 1) else {
            return
        }
        logger.notice("reader session ended", metadata: ["db.user": "\(user)", "reason": "\(reason)"])
    }

    /// The limits do not apply to roles that can write.
    private static let endSessions = Statement(
        "end_reader_sessions",
        """
        with session as (
          select activity.pid, activity.usename::text as name,
            case
              when activity.state in ('active', 'fastpath function call')
                and activity.query_start < clock_timestamp() - make_interval(secs => $1::integer)
                then 'statement'
              when activity.state like 'idle in transaction%'
                and activity.state_change < clock_timestamp() - make_interval(secs => $2::integer)
                then 'idle in transaction'
              when activity.xact_start < clock_timestamp() - make_interval(secs => $3::integer)
                then 'transaction'
              when activity.state = 'idle'
                and activity.state_change < clock_timestamp() - make_interval(secs => $4::integer)
                then 'idle'
            end as reason
          from pg_stat_activity as activity
          join pg_roles on pg_roles.oid = activity.usesysid
          where activity.backend_type = 'client backend'
            and not pg_roles.rolsuper
            and (
              pg_has_role(pg_roles.oid, 'subledger_reader', 'member')
              or pg_has_role(pg_roles.oid, 'subledger_analyst', 'member')
            )
            and not pg_has_role(pg_roles.oid, 'subledger_receiver', 'member')
            and not pg_has_role(pg_roles.oid, 'subledger_projector', 'member')
        )
        select name, reason, pg_terminate_backend(pid)
        from session
        where reason is not null
        """)
}
