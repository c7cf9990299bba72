extension PostgresConnection {
    private enum Statements {
        static let begin = Statement("postgres_begin", "begin isolation level read committed")
        static let beginReading = Statement(
            "postgres_begin_reading", "begin isolation level repeatable read read only")
        static let commit = Statement("postgres_commit", "commit")
        static let rollback = Statement("postgres_rollback", "rollback")
    }

    /// Isolation of a transaction.
    package enum Isolation: Sendable {
        /// Each step sees what is committed when it begins.
        case readCommitted
        /// All steps see what is committed when the first one begins, and only read. Their plans are made or checked
        /// after that, so what they see of a table has no partition that a plan does not know.
        case readSnapshot
    }

    /// Runs the steps as one transaction, including begin and commit, in one round trip.
    ///
    /// Durable when this returns, on every synchronous replica too. A step cannot use the result of an earlier one.
    ///
    /// - Returns: The rows of each step.
    /// - Throws: ``PostgresError/Kind/server(sqlstate:)`` when the server rejected a step or the commit; the
    ///   transaction is rolled back. ``PostgresError/Kind/outcomeUnknown`` when the commit was sent but not confirmed:
    ///   the connection was lost, the deadline passed, or the server warned that it committed without its replicas.
    ///   ``PostgresError/Kind/unavailable`` or ``PostgresError/Kind/deadlineExceeded`` when nothing was sent.
    /// - Precondition: No transaction is open.
    package func transaction(
        _ steps: [Step], isolation: Isolation = .readCommitted, deadline: ContinuousClock.Instant
    ) throws(PostgresError) -> [RowSet] {
        precondition(condition != .inTransaction, "a transaction is already open")
        let begin = isolation == .readCommitted ? Statements.begin : Statements.beginReading
        let all = [Step(begin)] + steps + [Step(Statements.commit)]
        let batch = try perform(deadline: deadline, verdict: .outcomeUnknown) { session throws(PostgresError) in
            try session.run(all, deadline: deadline)
        }
        var results: [RowSet] = []
        do {
            for outcome in batch.outcomes.dropLast() {
                results.append(try Self.rows(of: outcome))
            }
        } catch {
            endFailedTransaction(deadline: deadline)
            throw error
        }
        try checkCommit(batch, deadline: deadline)
        results.removeFirst()
        return results
    }

    /// Begins a transaction whose steps depend on each other's results, and runs the first ones in the same round trip.
    ///
    /// - Returns: The rows of each step.
    /// - Throws: The errors of ``query(_:_:deadline:)``.
    /// - Precondition: No transaction is open.
    @discardableResult
    package func begin(
        with steps: [Step] = [], deadline: ContinuousClock.Instant
    ) throws(PostgresError) -> [RowSet] {
        precondition(condition != .inTransaction, "a transaction is already open")
        let batch = try perform(deadline: deadline) { session throws(PostgresError) in
            try session.run([Step(Statements.begin)] + steps, deadline: deadline)
        }
        var results: [RowSet] = []
        for outcome in batch.outcomes { results.append(try Self.rows(of: outcome)) }
        return Array(results.dropFirst())
    }

    /// Commits the open transaction. Durable when this returns, on every synchronous replica too.
    ///
    /// - Throws: The errors of ``transaction(_:deadline:)``. If the deadline has passed before the commit is sent, the
    ///   transaction stays open.
    package func commit(deadline: ContinuousClock.Instant) throws(PostgresError) {
        let batch = try perform(deadline: deadline, verdict: .outcomeUnknown) { session throws(PostgresError) in
            try session.run([Step(Statements.commit)], deadline: deadline)
        }
        try checkCommit(batch, deadline: deadline)
    }

    /// Rolls back the open transaction; does nothing without one.
    ///
    /// - Throws: ``PostgresError/Kind/unavailable`` or ``PostgresError/Kind/deadlineExceeded``; the connection is then
    ///   closed, and the server rolls back by itself.
    package func rollback(deadline: ContinuousClock.Instant) throws(PostgresError) {
        guard condition == .inTransaction else { return }
        _ = try query(Statements.rollback, deadline: deadline)
    }

    /// Prepares the connection for its next borrower, within the deadline.
    func cleanUp(deadline: ContinuousClock.Instant) {
        endFailedTransaction(deadline: deadline)
    }

    /// Throws unless the last step of the batch is a commit that the server confirmed without a warning.
    private func checkCommit(_ batch: Session.Batch, deadline: ContinuousClock.Instant) throws(PostgresError) {
        let rows: RowSet
        do {
            rows = try Self.rows(of: batch.outcomes[batch.outcomes.count - 1])
        } catch {
            endFailedTransaction(deadline: deadline)
            // An ERROR at commit precedes the commit record, so the transaction is rolled back. After a warning the
            // outcome is unknown.
            throw batch.lastStepWarned ? error.with(kind: .outcomeUnknown) : error
        }
        guard !batch.lastStepWarned else {
            throw PostgresError(
                .outcomeUnknown, sqlstate: batch.warningSQLSTATE, message: "server warned during commit"
            )
        }
        // The server answers the commit of a failed transaction with ROLLBACK, and reports success.
        guard rows.commandTag == "COMMIT" else {
            throw PostgresError(.server(sqlstate: "25P02"), message: "transaction failed before its commit")
        }
    }

    /// Rolls back the open transaction. If that fails, closes the connection, which has the same effect.
    private func endFailedTransaction(deadline: ContinuousClock.Instant) {
        do {
            try rollback(deadline: deadline)
        } catch {
            close()
        }
    }
}
