import ArgumentParser
import EventLog
import Postgres
import Server

struct Migrate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Create or upgrade the schema and roles.",
        discussion: "Safe to repeat and to run concurrently. `serve` does the same when it starts.")

    @OptionGroup var database: DatabaseFlags

    @Flag(help: "Distribute the tables over the nodes of a Citus cluster, by stream. Stop all servers before.")
    var distributed = false

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values)
            let database = try await Database.open(settings, logger: try settings.logger())
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
