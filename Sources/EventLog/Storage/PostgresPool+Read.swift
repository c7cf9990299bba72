import Postgres

extension PostgresPool {
    /// Runs a statement within a limit.
    @discardableResult
    package nonisolated func run(
        _ statement: Statement, _ parameters: [Parameter] = [], within limit: Duration
    ) async throws(ReadError) -> RowSet {
        do throws(PostgresError) {
            return try await query(statement, parameters, deadline: .now + limit)
        } catch {
            throw ReadError(error)
        }
    }

    /// Runs a statement within a limit, and reads its rows.
    package nonisolated func read<Value>(
        _ statement: Statement, _ parameters: [Parameter] = [], within limit: Duration,
        _ read: (RowSet) throws(PostgresError) -> Value
    ) async throws(ReadError) -> Value {
        let rows = try await run(statement, parameters, within: limit)
        do throws(PostgresError) {
            return try read(rows)
        } catch {
            throw ReadError(error)
        }
    }

    /// Like ``read(_:_:within:_:)``, for statements that read bodies. Otherwise one that is planned while a partition is made
    /// sees an event that is appended then, and not its body.
    package nonisolated func readBodies<Value>(
        _ statement: Statement, _ parameters: [Parameter], within limit: Duration,
        _ read: (RowSet) throws(PostgresError) -> Value
    ) async throws(ReadError) -> Value {
        do throws(PostgresError) {
            let deadline = ContinuousClock.now + limit
            let results = try await withConnection(deadline: deadline) {
                (connection) async throws(PostgresError) -> [RowSet] in
                try await connection.transaction(
                    [Step(statement, parameters)], isolation: .readSnapshot, deadline: deadline)
            }
            return try read(results[0])
        } catch {
            throw ReadError(error)
        }
    }

    /// Runs the body with a connection within a limit. See ``PostgresPool/withConnection(deadline:_:)``.
    package nonisolated func using<Value: Sendable>(
        within limit: Duration, _ body: @Sendable (PostgresConnection) async throws(PostgresError) -> Value
    ) async throws(ReadError) -> Value {
        do throws(PostgresError) {
            return try await withConnection(deadline: .now + limit, body)
        } catch {
            throw ReadError(error)
        }
    }
}
