import Synchronization

/// A connection to the server that runs one call at a time on a thread of its own.
///
/// Calls are queued; a deadline bounds each from the moment it starts to run. A connection that loses the server, or
/// whose deadline passes before the response arrives, is closed at once and stays closed. Nothing is ever cancelled on
/// the server, since a cancelled commit can be reported as committed and lost later; the server ends an abandoned
/// statement when it detects that the client is gone.
package actor PostgresConnection {
    enum Condition: UInt8, AtomicRepresentable {
        case usable
        /// A transaction is open.
        case inTransaction
        /// It works but carries session state, and must not be lent again.
        case unfit
        case closed
    }

    /// The use of a connection since the pool last lent it.
    private enum Lending: UInt8, AtomicRepresentable {
        case unused
        /// Something may have been sent.
        case used
        /// It was lost before anything was sent.
        case brokeUnused
    }

    nonisolated let thread: ConnectionThread
    nonisolated let wakeUp = WakeUp()
    private nonisolated let pid = Atomic<Int32>(0)
    private nonisolated let published = Atomic<Condition>(.closed)
    private nonisolated let lending = Atomic<Lending>(.used)
    private var session: Session?
    private var isListening = false

    package nonisolated var unownedExecutor: UnownedSerialExecutor {
        thread.asUnownedSerialExecutor()
    }

    private init() {
        thread = ConnectionThread()
    }

    deinit {
        thread.stop()
    }

    /// Connects and authenticates.
    ///
    /// - Throws: ``PostgresError/Kind/unavailable`` or ``PostgresError/Kind/deadlineExceeded``.
    package static func connect(
        _ configuration: ConnectionConfiguration, deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> PostgresConnection {
        let connection = PostgresConnection()
        try await connection.open(configuration, deadline: deadline)
        return connection
    }

    private func open(
        _ configuration: ConnectionConfiguration, deadline: ContinuousClock.Instant
    ) throws(PostgresError) {
        let session = try Session.open(configuration, deadline: deadline)
        pid.store(session.backendPID, ordering: .relaxed)
        self.session = session
        publishCondition()
    }

    /// The process id of the server's backend, as in `pg_stat_activity`.
    nonisolated package var backendPID: Int32 {
        pid.load(ordering: .relaxed)
    }

    /// False once the connection is closed, while a transaction is open, and if the session must not be reused.
    package var isUsable: Bool {
        condition == .usable
    }

    /// The connection's state, readable by the pool without waiting for the connection's thread.
    nonisolated var condition: Condition {
        published.load(ordering: .acquiring)
    }

    /// Marks the connection as lent and not yet used.
    nonisolated func beginLending() {
        lending.store(.unused, ordering: .releasing)
    }

    /// True if the connection was found lost before anything was sent over it since it was lent.
    nonisolated var brokeUnused: Bool {
        lending.load(ordering: .acquiring) == .brokeUnused
    }

    /// Runs one statement.
    ///
    /// Outside of a transaction, a statement that writes commits by itself, and an error leaves open whether it did.
    /// Use ``transaction(_:deadline:)`` where the outcome matters.
    ///
    /// - Throws: ``PostgresError/Kind/server(sqlstate:)`` when the server rejects the statement, and
    ///   ``PostgresError/Kind/unavailable`` or ``PostgresError/Kind/deadlineExceeded`` when no response arrived.
    package func query(
        _ statement: Statement, _ parameters: [Parameter] = [], deadline: ContinuousClock.Instant
    ) throws(PostgresError) -> RowSet {
        let batch = try perform(deadline: deadline) { session throws(PostgresError) in
            try session.run([Step(statement, parameters)], deadline: deadline)
        }
        return try Self.rows(of: batch.outcomes[0])
    }

    /// Runs several statements, such as a schema file, as one transaction unless the script controls transactions
    /// itself.
    ///
    /// - Throws: The errors of ``query(_:_:deadline:)``; the statements before a rejected one are rolled back with it.
    package func script(_ sql: String, deadline: ContinuousClock.Instant) throws(PostgresError) {
        let failure = try perform(deadline: deadline) { session throws(PostgresError) in
            try session.script(sql, deadline: deadline)
        }
        if let failure { throw failure }
    }

    /// Subscribes to the channel. A listening connection is not returned to a pool.
    package func listen(to channel: StaticString, deadline: ContinuousClock.Instant) throws(PostgresError) {
        isListening = true
        try script("listen \(quotedIdentifier(channel.description))", deadline: deadline)
    }

    /// Waits until a notification arrives, ``interrupt()`` is called, or the deadline passes.
    ///
    /// - Returns: The notifications that arrived; empty at the deadline, which leaves the connection usable.
    /// - Throws: ``PostgresError/Kind/unavailable`` when the connection is lost. Notifications may then be missed.
    package func notifications(
        until deadline: ContinuousClock.Instant
    ) throws(PostgresError) -> [ServerNotification] {
        try perform(deadline: nil) { session throws(PostgresError) in
            try session.notifications(until: deadline, wakeUp: wakeUp)
        }
    }

    /// Wakes the waiting call of ``notifications(until:)``, or the next one. Safe from any thread, at any time.
    nonisolated package func interrupt() {
        wakeUp.signal()
    }

    /// Closes the connection; the server rolls back an open transaction. Safe to repeat.
    ///
    /// Waits for the running call, so ``interrupt()`` a waiting ``notifications(until:)`` first.
    package func close() {
        session = nil
        publishCondition()
    }

    /// True if the server has neither sent anything nor disconnected since the last response.
    func isQuiet() -> Bool {
        guard let session, let readable = try? session.isReadable() else { return false }
        return !readable
    }

    /// Runs the body on the session. If the body throws, the session is unusable and is closed.
    ///
    /// - Parameters:
    ///   - deadline: Checked before anything is sent, when failing is still harmless; `nil` if a passed deadline is not
    ///     a failure.
    ///   - verdict: The error kind to report once something may have been sent; `nil` keeps the kind of the error.
    func perform<T>(
        deadline: ContinuousClock.Instant?,
        verdict: PostgresError.Kind? = nil,
        _ body: (Session) throws(PostgresError) -> T
    ) throws(PostgresError) -> T {
        guard let session else {
            throw PostgresError(.unavailable, message: "connection is closed")
        }
        if let deadline, deadline.hasPassed { throw .deadlineExceeded }
        defer { publishCondition() }
        do {
            try session.refresh()
        } catch {
            self.session = nil
            if lending.load(ordering: .relaxed) == .unused { lending.store(.brokeUnused, ordering: .releasing) }
            throw error
        }
        lending.store(.used, ordering: .releasing)
        do {
            return try body(session)
        } catch {
            self.session = nil
            throw verdict.map { error.with(kind: $0) } ?? error
        }
    }

    static func rows(of outcome: Session.Outcome) throws(PostgresError) -> RowSet {
        switch outcome {
        case .rows(let rows): return rows
        case .failed(let error): throw error
        case .skipped: throw PostgresError(.unavailable, message: "server skipped a statement")
        }
    }

    private func publishCondition() {
        let condition: Condition
        if let session {
            if session.isInTransaction {
                condition = .inTransaction
            } else {
                condition = isListening || session.isStale ? .unfit : .usable
            }
        } else {
            condition = .closed
        }
        published.store(condition, ordering: .releasing)
    }
}

/// Quotes a name as an SQL identifier, whatever characters it contains.
func quotedIdentifier(_ name: String) -> String {
    "\"" + name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
}
