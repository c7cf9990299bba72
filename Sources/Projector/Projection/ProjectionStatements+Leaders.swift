import Postgres

/// SQL for leading a stream. A leader holds the lock on the row of the stream's checkpoint.
extension ProjectionStatements {
    /// Creates the row that ``lockStream`` locks. It is committed before it is locked: two projectors that created it
    /// inside their batches would wait for each other.
    static let makeCheckpoint = Statement(
        "projector_make_checkpoint",
        """
        insert into checkpoint (stream_id, position, products, projection_version)
        values ($1, 0, '', $2)
        on conflict (stream_id) do nothing
        """)

    /// Locks the stream's checkpoint for its only leader; returns no row while another transaction leads. The lock ends
    /// with the transaction, so a dead leader holds nothing, and a role with read rights only cannot take it. Each set
    /// of tables has its own leaders.
    static let lockStream = Statement(
        "projector_lock_stream",
        """
        select stream_id
        from checkpoint
        where stream_id = $1
        for update skip locked
        """)

    /// Keeps a stream of a distributed database on its node until the end of the transaction: a lock on a row does not
    /// move with it. Other databases do not have the function.
    static let holdStream = Statement("projector_hold_stream", "select subledger.hold_stream($1)")

    /// The transactions that lead some streams, including some that have ended.
    static let leaders = Statement(
        "projector_leaders",
        """
        select xmax::text
        from subledger.checkpoint
        where stream_id = any ($1::integer[])
          and xmax::text <> '0'
        """)

    /// Ends the sessions of some transactions that have waited for their client for a number of seconds in the middle
    /// of a statement. A session that waits for `copy` data does so without limit:
    /// `idle_in_transaction_session_timeout` counts only between statements.
    static let endSilentLeaders = Statement(
        "projector_end_silent_leaders",
        """
        select pg_terminate_backend(pg_locks.pid)
        from pg_locks
        join pg_stat_activity using (pid)
        where pg_locks.locktype = 'transactionid'
          and pg_locks.mode = 'ExclusiveLock'
          and pg_locks.granted
          and pg_locks.transactionid::text = any ($1::text[])
          and pg_stat_activity.datname = current_database()
          and pg_stat_activity.state = 'active'
          and pg_stat_activity.wait_event = 'ClientRead'
          and pg_stat_activity.query_start < clock_timestamp() - $2 * interval '1 second'
        """)

    /// Restores the login's own rights: a session may end sessions of its login, which a role that it has assumed may
    /// not.
    static let workAsLogin = Statement("projector_work_as_login", "set local role none")
}
