import ArgumentParser
import Encoding
import Readers
import Server
import Subscriptions

struct CompareAccess: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "compare-access",
        abstract: "Compare what another service answers about customers with the answers of this log.",
        discussion: """
            Reads CSV with a header line, or JSON lines: customerId, entitlement, active (true or false) and until (an \
            ISO 8601 instant, never, or empty to compare no end). The rows of a customer must follow each other. An \
            entitlement that a customer of the file has here, and that the file does not list, counts as gained. Prints \
            a JSON line for each difference, with the explanation: who gains or loses access if reads are switched to \
            this log, and whose access ends later or earlier; then the counts. Exit status 1 if there is a difference; \
            65 if the file cannot be read; 69 if the database cannot be asked.
            """)

    @Argument(help: ArgumentHelp("The file; - is stdin.", valueName: "file"))
    var file: String

    @Option(help: ArgumentHelp("The instant to compare, ISO 8601. [now]", valueName: "instant"))
    var at: Instant?

    @Option(help: ArgumentHelp("The app. Needed only if several apps have the ids.", valueName: "bundle-id"))
    var app: String?

    @Option(help: ArgumentHelp("The environment: \(StreamEnvironment.names). [production]", valueName: "name"))
    var environment: StreamEnvironment?

    @Option(help: ArgumentHelp("Ends that differ by at most so many seconds are equal.", valueName: "seconds"))
    var tolerance = 1

    @Option(help: ArgumentHelp("Explain so many differences at most; others are only counted.", valueName: "number"))
    var explain = 10_000

    @OptionGroup var database: DatabaseFlags

    func validate() throws {
        guard tolerance >= 0, explain >= 0 else {
            throw ValidationError("--tolerance and --explain must not be negative.")
        }
    }

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values)
            let logger = try settings.logger()
            let instant = at ?? SystemClock.now()
            let summary = try await Database.withExisting(settings, logger: logger) { database in
                let pool = database.pool(.reader, limit: 2, logger: logger)
                var comparison = AccessComparison(
                    CustomerReader(pool: pool), app: app, environment: environment?.value ?? .production, at: instant,
                    tolerance: .seconds(tolerance), explainedMax: explain)
                do {
                    try await comparison.run(file)
                    await pool.close()
                    return comparison.summary
                } catch {
                    await pool.close()
                    throw error
                }
            }
            print(summary.line(at: instant))
            if summary.different > 0 { throw ExitCode.failure }
        }
    }
}
