import Postgres

/// An analyst whose question has no end: all events joined with all events, in every second stretch of time.
struct CrossJoins {
    /// Where the database's socket is.
    let socketFolder: String

    private static let stretch = 5

    /// - Parameter seconds: From the start.
    static func joins(at seconds: Double) -> Bool { Int(seconds) / stretch % 2 == 1 }

    func run(from start: ContinuousClock.Instant, seconds: Int) async throws {
        let analyst = try await PostgresConnection.connect(
            ConnectionConfiguration(socketFolder: socketFolder, user: "subledger_analyst", database: "subledger"),
            deadline: .now + .seconds(10))
        for second in stride(from: Self.stretch, to: seconds, by: 2 * Self.stretch) {
            try await Task.sleep(until: start + .seconds(second), clock: .continuous)
            let left = min(Self.stretch, seconds - second)
            try await analyst.script("set statement_timeout = '\(left)s'", deadline: .now + .seconds(10))
            do throws(PostgresError) {
                try await analyst.script(
                    "select count(*) from analyst.events as one cross join analyst.events as other",
                    deadline: .now + .seconds(left + 10))
            } catch {
                // The timeout ends it.
                guard error.sqlstate == "57014" else { throw error }
            }
        }
        await analyst.close()
    }
}
