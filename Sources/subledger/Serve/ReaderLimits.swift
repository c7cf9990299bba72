import Postgres

/// What sessions of readers and analysts may take from a private server, each bound with its reason. None of them can
/// be lifted by such a session: PostgreSQL lets only superusers change the settings of the server, and ``ReaderWatch``
/// enforces the times.
enum ReaderLimits {
    struct Times: Sendable {
        /// Longest statement. A figure over a million subscriptions takes seconds.
        var statement = Duration.seconds(60)
        /// Longest wait inside a transaction: while one is open, dead rows and the queue of notifications are kept.
        var idleInTransaction = Duration.seconds(60)
        /// Longest transaction, for the same reason, however many statements it has.
        var transaction = Duration.seconds(300)
        /// Longest idle session. It holds a connection; the pools of backends open another one when they need it.
        var idle = Duration.seconds(3600)
        /// The role's own settings end a statement with an error first; only what lifted those is ended by the watch.
        var grace = Duration.seconds(5)

        static let standard = Times()
    }

    /// Time between two looks. They cost less than a millisecond.
    static let lookTime = Duration.seconds(1)
    /// Most temporary files of one process, so that a sort does not fill the disk that the log is on.
    static let temporaryBytes = "1GB"
    /// Connections out of a hundred that only superusers can have, as the server itself is one.
    static let reservedConnections = 50
    /// Most connections of the login roles: several pools of backends, a few people.
    static let readerConnections = 40
    static let analystConnections = 10

    /// The login roles of a private server.
    static let logins = ["subledger_reader", "subledger_analyst"]

    static let serverSettings = [
        "temp_file_limit": temporaryBytes, "superuser_reserved_connections": "\(reservedConnections)",
    ]

    /// Writes the roles' settings again, since a role can change its own, and takes away what would let a reader use
    /// the disk without limit: temporary tables, large objects, messages in the write-ahead log, other databases.
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
