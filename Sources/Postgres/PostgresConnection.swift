import Synchronization

/// A connection to the server, which does one thing at a time on a thread of its own.
///
/// Calls queue up behind each other; a deadline bounds each one from the moment it runs. A connection that loses the
/// server, or whose deadline passes before the answer is there, is closed at once and stays so. Nothing is ever
/// cancelled on the server, since a cancelled commit can be both reported and lost; what a client gave up on ends by
/// itself.
package actor PostgresConnection {
    enum Condition: UInt8, AtomicRepresentable {
        case usable
        /// A transaction is open.
        case inTransaction
        /// It works, but it carries state that the next user must not meet.
        case unfit
        case closed
    }

    /// What became of a connection since it was lent.
    private enum Lending: UInt8, AtomicRepresentable {
        case unused
        /// Something may have been sent.
        case used
        /// It was gone before anything was sent.
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

    /// The process that serves this connection, as in `pg_stat_activity`.
    nonisolated package var backendPID: Int32 {
        pid.load(ordering: .relaxed)
    }

    /// False after a lost connection or an abandoned deadline, and while a transaction is open.
    package var isUsable: Bool {
        condition == .usable
    }

    /// What the pool needs to know, without waiting for the connection's thread.
    nonisolated var condition: Condition {
        published.load(ordering: .acquiring)
    }

    /// The pool lends it from now on.
    nonisolated func beginLending() {
        lending.store(.unused, ordering: .releasing)
    }

    /// True if it turned out to be lost before anything was sent over it since it was lent.
    nonisolated var brokeUnused: Bool {
        lending.load(ordering: .acquiring) == .brokeUnused
    }

    /// Runs one statement.
    ///
    /// A statement that writes outside of a transaction commits by itself, and an error then does not tell whether it
    /// has: use ``transaction(_:deadline:)`` for what must be known.
    ///
    /// - Throws: ``PostgresError/Kind/server(sqlstate:)`` when the server refuses it, and
    ///   ``PostgresError/Kind/unavailable`` or ``PostgresError/Kind/deadlineExceeded`` when the answer did not come.
    package func query(
        _ statement: Statement, _ parameters: [Parameter] = [], deadline: ContinuousClock.Instant
    ) throws(PostgresError) -> RowSet {
        let batch = try perform(deadline: deadline) { session throws(PostgresError) in
            try session.run([Step(statement, parameters)], deadline: deadline)
        }
        return try Self.rows(of: batch.outcomes[0])
    }

    /// Runs a text of several statements, such as a schema file, as one transaction unless it says otherwise.
    ///
    /// - Throws: As ``query(_:_:deadline:)``; the statements before a refused one are undone with it.
    package func script(_ sql: String, deadline: ContinuousClock.Instant) throws(PostgresError) {
        let failure = try perform(deadline: deadline) { session throws(PostgresError) in
            try session.script(sql, deadline: deadline)
        }
        if let failure { throw failure }
    }

    /// Starts to receive what is sent to the channel. A listening connection is not returned to a pool.
    package func listen(to channel: StaticString, deadline: ContinuousClock.Instant) throws(PostgresError) {
        isListening = true
        try script("listen \(quotedIdentifier(channel.description))", deadline: deadline)
    }

    /// Waits for notifications, until there is at least one, or ``interrupt()`` is called, or the deadline passes.
    ///
    /// - Returns: What has arrived; nothing at the deadline, which leaves the connection as it is.
    /// - Throws: ``PostgresError/Kind/unavailable`` when the connection is lost. Messages may then be missed.
    package func notifications(
        until deadline: ContinuousClock.Instant
    ) throws(PostgresError) -> [Notification] {
        try perform(deadline: nil) { session throws(PostgresError) in
            try session.notifications(until: deadline, wakeUp: wakeUp)
        }
    }

    /// Wakes a waiting ``notifications(until:)``, or else the next one. Safe from any thread, at any time.
    nonisolated package func interrupt() {
        wakeUp.signal()
    }

    /// Closes the connection; an open transaction is rolled back by the server. Safe to repeat.
    ///
    /// It waits for the call that is running, so ``interrupt()`` a waiting ``notifications(until:)`` first.
    package func close() {
        session = nil
        publishCondition()
    }

    /// True if the server has said nothing and not gone away since the last answer.
    func isQuiet() -> Bool {
        guard let session, let readable = try? session.isReadable() else { return false }
        return !readable
    }

    /// Runs something on the session; if that throws, the session is beyond repair and closed.
    ///
    /// - Parameters:
    ///   - deadline: Compared before anything is sent, which harms nothing; `nil` if a passed one is no failure.
    ///   - verdict: The kind of error to report once something may have been sent, if not its own.
    func perform<T>(
        deadline: ContinuousClock.Instant?,
        verdict: PostgresError.Kind? = nil,
        _ body: (Session) throws(PostgresError) -> T
    ) throws(PostgresError) -> T {
        guard let session else {
            throw PostgresError(.unavailable, message: "the connection is closed")
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
        case .skipped: throw PostgresError(.unavailable, message: "the server skipped a statement")
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

/// A name as it stands in SQL, whatever characters it has.
func quotedIdentifier(_ name: String) -> String {
    "\"" + name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
}
