extension PostgresConnection {
    private enum Statements {
        static let begin = Statement("postgres_begin", "begin isolation level read committed")
        static let commit = Statement("postgres_commit", "commit")
        static let rollback = Statement("postgres_rollback", "rollback")
    }

    /// Runs the steps in a transaction, with its begin and commit, in one round trip.
    ///
    /// Durable when this returns, on every synchronous replica too. A step cannot use what an earlier one returned.
    ///
    /// - Returns: The rows of each step.
    /// - Throws: ``PostgresError/Kind/server(sqlstate:)`` when a step or the commit was refused, and nothing has happened;
    ///   ``PostgresError/Kind/outcomeUnknown`` when the commit was sent and not confirmed: the connection was lost, the
    ///   deadline passed, or the server warned that it committed without its replicas;
    ///   ``PostgresError/Kind/unavailable`` or ``PostgresError/Kind/deadlineExceeded`` when nothing was sent.
    /// - Precondition: No transaction is open.
    package func transaction(
        _ steps: [Step], deadline: ContinuousClock.Instant
    ) throws(PostgresError) -> [RowSet] {
        precondition(condition != .inTransaction, "a transaction inside of a transaction")
        let all = [Step(Statements.begin)] + steps + [Step(Statements.commit)]
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

    /// Opens a transaction whose steps depend on each other's results.
    ///
    /// - Precondition: No transaction is open.
    package func begin(deadline: ContinuousClock.Instant) throws(PostgresError) {
        precondition(condition != .inTransaction, "a transaction inside of a transaction")
        _ = try query(Statements.begin, deadline: deadline)
    }

    /// Commits the open transaction. Durable when this returns, on every synchronous replica too.
    ///
    /// - Throws: As ``transaction(_:deadline:)``. A deadline that has passed before the commit was sent leaves the
    ///   transaction open.
    package func commit(deadline: ContinuousClock.Instant) throws(PostgresError) {
        let batch = try perform(deadline: deadline, verdict: .outcomeUnknown) { session throws(PostgresError) in
            try session.run([Step(Statements.commit)], deadline: deadline)
        }
        try checkCommit(batch, deadline: deadline)
    }

    /// Undoes the open transaction. Without one it does nothing.
    ///
    /// - Throws: ``PostgresError/Kind/unavailable`` or ``PostgresError/Kind/deadlineExceeded``; the connection is then
    ///   closed, and the server undoes the transaction by itself.
    package func rollback(deadline: ContinuousClock.Instant) throws(PostgresError) {
        guard condition == .inTransaction else { return }
        _ = try query(Statements.rollback, deadline: deadline)
    }

    /// Makes the connection fit for the next user, within the deadline.
    func cleanUp(deadline: ContinuousClock.Instant) {
        endFailedTransaction(deadline: deadline)
    }

    /// Throws unless the last step of the batch is a commit that the server confirmed without a word of doubt.
    private func checkCommit(_ batch: Session.Batch, deadline: ContinuousClock.Instant) throws(PostgresError) {
        let rows: RowSet
        do {
            rows = try Self.rows(of: batch.outcomes[batch.outcomes.count - 1])
        } catch {
            endFailedTransaction(deadline: deadline)
            // An ERROR at commit comes before the commit record, so the transaction is gone. After a warning we cannot
            // tell any more.
            throw batch.lastStepWarned ? error.with(kind: .outcomeUnknown) : error
        }
        guard !batch.lastStepWarned else {
            throw PostgresError(
                .outcomeUnknown, sqlstate: batch.warningSQLSTATE, message: "the server warned while it committed"
            )
        }
        // To the commit of a failed transaction the server answers ROLLBACK, and calls that success.
        guard rows.commandTag == "COMMIT" else {
            throw PostgresError(.server(sqlstate: "25P02"), message: "the transaction had failed before its commit")
        }
    }

    /// Rolls back what is open. If that fails the connection is closed, which rolls back just as well.
    private func endFailedTransaction(deadline: ContinuousClock.Instant) {
        do {
            try rollback(deadline: deadline)
        } catch {
            close()
        }
    }
}
