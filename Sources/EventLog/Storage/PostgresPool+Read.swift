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
