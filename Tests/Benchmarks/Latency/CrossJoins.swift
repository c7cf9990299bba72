import Postgres

/// An analyst who runs a cross join of all events, during every second interval.
struct CrossJoins {
    /// The folder of the database's socket.
    let socketFolder: String

    /// The length of an interval, in seconds.
    private static let interval = 5

    /// Whether the analyst's query runs.
    ///
    /// - Parameter seconds: Since the start.
    static func joins(at seconds: Double) -> Bool { Int(seconds) / interval % 2 == 1 }

    func run(from start: ContinuousClock.Instant, seconds: Int) async throws {
        let analyst = try await PostgresConnection.connect(
            ConnectionConfiguration(socketFolder: socketFolder, user: "subledger_analyst", database: "subledger"),
            deadline: .now + .seconds(10))
        for second in stride(from: Self.interval, to: seconds, by: 2 * Self.interval) {
            try await Task.sleep(until: start + .seconds(second), clock: .continuous)
            let left = min(Self.interval, seconds - second)
            try await analyst.script("set statement_timeout = '\(left)s'", deadline: .now + .seconds(10))
            do throws(PostgresError) {
                try await analyst.script(
                    "select count(*) from analyst.events as one cross join analyst.events as other",
                    deadline: .now + .seconds(left + 10))
            } catch {
                // The statement timeout ends the query.
                guard error.sqlstate == "57014" else { throw error }
            }
        }
        await analyst.close()
    }
}
