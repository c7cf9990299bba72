extension PostgresConnection {
    /// As ``query(_:_:deadline:)``, for a statement that already has its parameters.
    package func query(_ step: Step, deadline: ContinuousClock.Instant) throws(PostgresError) -> RowSet {
        try query(step.statement, step.parameters, deadline: deadline)
    }
}
