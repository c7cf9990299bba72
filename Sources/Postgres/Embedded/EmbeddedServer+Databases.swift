extension EmbeddedServer {
    private enum Statements {
        static let databaseExists = Statement(
            "postgres_database_exists", "select exists (select from pg_catalog.pg_database where datname = $1)"
        )
    }

    /// How long to retry while the template has connections: a closed connection takes a moment to end.
    private static let templateTime = Duration.seconds(5)

    /// Creates a database unless it exists. Safe to repeat.
    ///
    /// - Parameter template: The database to copy; it must have no connections.
    /// - Throws: ``PostgresError``, for example if the template is in use (SQLSTATE 55006).
    package func createDatabase(_ name: String, template: String? = nil) async throws(PostgresError) {
        let deadline = ContinuousClock.now + .seconds(30)
        let connection = try await PostgresConnection.connect(
            configuration(database: "postgres"), deadline: deadline
        )
        let exists = try await connection.query(Statements.databaseExists, [Parameter(name)], deadline: deadline)
        if try exists[0].value(Bool.self, at: 0) {
            await connection.close()
            return
        }
        // For a small template, the default takes twice as long.
        let copy = template.map { " template \(quotedIdentifier($0)) strategy file_copy" } ?? ""
        let retryUntil = ContinuousClock.now + Self.templateTime
        while true {
            do {
                try await connection.script("create database \(quotedIdentifier(name))\(copy)", deadline: deadline)
                break
            } catch {
                if error.sqlstate == "42P04" { break }
                guard error.sqlstate == "55006", !retryUntil.hasPassed else {
                    await connection.close()
                    throw error
                }
                await pause(milliseconds: 20)
            }
        }
        await connection.close()
    }
    /// Drops a database if it exists.
    ///
    /// - Throws: ``PostgresError``, for example if it is in use (SQLSTATE 55006).
    package func dropDatabase(_ name: String) async throws(PostgresError) {
        let deadline = ContinuousClock.now + .seconds(30)
        let connection = try await PostgresConnection.connect(
            configuration(database: "postgres"), deadline: deadline)
        do {
            try await connection.script("drop database if exists \(quotedIdentifier(name))", deadline: deadline)
        } catch {
            await connection.close()
            throw error
        }
        await connection.close()
    }
}
