import ArgumentParser
import EventLog
import Postgres
import Server

struct Migrate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Create or upgrade the schema and roles.",
        discussion: """
            Safe to repeat and to run concurrently. `serve` does the same when it starts. Each migration is a \
            transaction; what it does is printed to stderr.
            """)

    @OptionGroup var database: DatabaseFlags

    @Flag(help: "Distribute the tables over the nodes of a Citus cluster, by stream. Stop all servers before.")
    var distributed = false

    @Flag(help: "Print what would be applied and locked, and change nothing.")
    var dryRun = false

    func validate() throws {
        guard !dryRun || !distributed else {
            throw ValidationError("--dry-run does not show what --distributed would do: use one of them")
        }
    }

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values)
            if dryRun {
                for line in try await Database.plan(settings, logger: try settings.logger()).lines { print(line) }
                return
            }
            let database = try await Database.open(settings, logger: try settings.logger()) { printError("\($0)") }
            await database.embedded?.stop()
            if distributed { try await distribute(database) }
            switch database.outcome {
            case .applied: print("schema version \(Schema.version) applied")
            case .upToDate: print("schema is up to date at version \(Schema.version)")
            case .inUse: throw MigrationError.inUse
            }
        }
    }

    private func distribute(_ database: Database) async throws {
        guard database.embedded == nil else { throw DistributionError.noExtension }
        let connection = try await PostgresConnection.connect(
            database.owner, deadline: .now + Database.Limits.connectWaitMax)
        do {
            try await Distribution.distribute(connection)
            await connection.close()
        } catch {
            await connection.close()
            throw error
        }
        print("tables are distributed by stream")
    }
}
