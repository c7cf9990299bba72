extension PostgresConnection {
    /// As ``query(_:_:deadline:)``, for a statement that already has its parameters, or rows to copy.
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
