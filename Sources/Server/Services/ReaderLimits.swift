import Postgres

/// Limits for sessions of readers and analysts on a private PostgreSQL, each with its reason. Such a session cannot
/// raise them: only superusers can change the server's settings, and ``ReaderWatch`` enforces the times.
enum ReaderLimits {
    struct Times: Sendable {
        /// Longest statement. A query over a million subscriptions takes seconds.
        var statement = Duration.seconds(60)
        /// Longest idle time inside a transaction: while one is open, PostgreSQL keeps dead rows and its notification
        /// queue.
        var idleInTransaction = Duration.seconds(60)
        /// Longest transaction, of any number of statements, for the same reason.
        var transaction = Duration.seconds(300)
        /// Longest idle session, since it holds a connection. Pools of backends reconnect when they need to.
        var idle = Duration.seconds(3600)
        /// Time by which the watch waits longer than the role's own settings, which end a statement with an error. Only
        /// sessions that raised those settings reach the watch.
        var grace = Duration.seconds(5)

        static let standard = Times()
    }

    /// Time between two checks. A check takes less than a millisecond.
    static let lookTime = Duration.seconds(1)
    /// Most bytes of temporary files of one process, so that a sort does not fill the disk of the log.
    static let temporaryBytes = "1GB"
    /// Connections, out of a hundred, that are reserved for superusers; the server itself connects as one.
    static let reservedConnections = 50
    /// Most connections of each login role: several pools of backends; a few analysts.
    static let readerConnections = 40
    static let analystConnections = 10

    /// The login roles of a private PostgreSQL.
    static let logins = ["subledger_reader", "subledger_analyst"]

    static let serverSettings = [
        "temp_file_limit": temporaryBytes, "superuser_reserved_connections": "\(reservedConnections)",
    ]

    /// Resets the roles' settings, since a role can change its own, and revokes the privileges with which a reader
    /// could use the disk without limit: temporary tables, large objects, messages in the write-ahead log, other
    /// databases.
    static var script: String {
        """
        alter role subledger_reader login password null connection limit \(readerConnections);
        alter role subledger_analyst login password null connection limit \(analystConnections);
        alter role subledger_reader reset all;
        alter role subledger_analyst reset all;
        \(timeouts(of: "subledger_reader"))
        \(timeouts(of: "subledger_analyst"))
        alter role subledger_analyst set default_transaction_read_only = on;
        alter role subledger_analyst set jit = off;
        alter role subledger_analyst set work_mem = '64MB';
        alter role current_user set temp_file_limit = -1;
        revoke connect on database postgres, template1 from public;
        do $$
        declare
          name text;
        begin
          execute format('revoke temporary on database %I from public', current_database());
          execute format('grant temporary on database %I to subledger_projector', current_database());
          for name in
            select oid::regprocedure
            from pg_proc
            where pronamespace = 'pg_catalog'::regnamespace
              and proname in ('lo_creat', 'lo_create', 'lo_from_bytea', 'pg_logical_emit_message')
          loop
            execute format('revoke execute on function %s from public', name);
          end loop;
        end
        $$
        """
    }

    private static func timeouts(of role: String) -> String {
        let times = Times.standard
        return """
            alter role \(role) set statement_timeout = '\(times.statement.components.seconds)s';
            alter role \(role) set idle_in_transaction_session_timeout = '\(times.idleInTransaction.components.seconds)s';
            alter role \(role) set idle_session_timeout = '\(times.idle.components.seconds)s';
            """
    }
}
