import ArgumentParser
import EventLog

struct Migrate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Create or upgrade the schema and roles.",
        discussion: "Safe to repeat and to run concurrently. `serve` does the same when it starts.")

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values)
            let database = try await Database.open(settings, logger: try settings.logger())
            await database.embedded?.stop()
            switch database.outcome {
            case .applied: print("schema version \(Schema.version) applied")
            case .upToDate: print("schema is up to date at version \(Schema.version)")
            case .inUse: throw MigrationError.inUse
            }
        }
    }
}
