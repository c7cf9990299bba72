extension PostgresConnection {
    /// Runs a step: a statement with its parameters, or with rows to copy. Like ``query(_:_:deadline:)``.
    package func query(_ step: Step, deadline: ContinuousClock.Instant) throws(PostgresError) -> RowSet {
        guard let rows = step.rows else {
            return try query(step.statement, step.parameters, deadline: deadline)
        }
        let outcome = try perform(deadline: deadline) { session throws(PostgresError) in
            try session.copy(rows, by: step.statement, deadline: deadline)
        }
        return try Self.rows(of: outcome)
    }
}
