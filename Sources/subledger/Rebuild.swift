import ArgumentParser
import Projector

struct Rebuild: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Fold the whole log anew, beside a running server, and put the result in place.",
        discussion: """
            Readers see the old rows until the new ones are complete, then all of the new ones at once. Products are \
            those that the rows were folded with. When it is killed or fails, nothing has changed; the next rebuild \
            clears away what is left. Exit status 69 if another rebuild is running, 65 if there is no such stream.
            """)

    @Option(help: ArgumentHelp("Only this app's streams.", valueName: "bundle-id"))
    var app: String?

    @Option(help: ArgumentHelp("Only this environment's: \(StreamEnvironment.names).", valueName: "name"))
    var environment: StreamEnvironment?

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values)
            let logger = try settings.logger()
            let outcome = try await Database.withExisting(settings, logger: logger) { database in
                let pool = database.pool(.projector, limit: Projector.connectionsMax, logger: logger)
                let rebuild = ProjectionRebuild(
                    owner: database.owner, pool: pool, app: app, environment: environment?.value, now: Clock.now)
                let report = ProgressReport("rebuild", unit: "events")
                do {
                    let outcome = try await rebuild.run { progress in
                        report.tell(progress.eventsFolded, of: progress.eventsTotal)
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
