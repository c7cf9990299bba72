import ArgumentParser
import Projector

struct Rebuild: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Rebuild projections from the whole log; servers may keep running.",
        discussion: """
            Readers see the old rows until all new ones replace them at once. Product settings are those that applied \
            to the old rows. An interrupted or failed rebuild changes nothing; the next one cleans up. Exit status 69 \
            if another rebuild is running, 65 if there is no such stream.
            """)

    @Option(help: ArgumentHelp("Only streams of this app.", valueName: "bundle-id"))
    var app: String?

    @Option(help: ArgumentHelp("Only streams of this environment: \(StreamEnvironment.names).", valueName: "name"))
    var environment: StreamEnvironment?

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values)
            let logger = try settings.logger()
            let outcome = try await Database.withExisting(settings, logger: logger) { database in
                let pool = database.pool(.projector, limit: Projector.connectionsMax, logger: logger)
                let rebuild = ProjectionRebuild(
                    owner: database.owner, pool: pool, app: app, environment: environment?.value, now: SystemClock.now)
                let report = ProgressReport("rebuild", unit: "events")
                do {
                    let outcome = try await rebuild.run { progress in
                        report.update(progress.eventsFolded, of: progress.eventsTotal)
                    }
                    await pool.close()
                    return outcome
                } catch {
                    await pool.close()
                    throw error
                }
            }
            print(
                """
                rebuilt: streams \(outcome.streams), events \(outcome.eventsFolded), rows replaced \
                \(outcome.rowsReplaced)
                """)
        }
    }
}
