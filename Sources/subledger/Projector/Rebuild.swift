import ArgumentParser
import Foundation
import Projector
import Server

struct Rebuild: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Rebuild projections from the whole log; servers may keep running.",
        discussion: """
            Readers see the old rows until all new ones replace them at once. Several connections fold a stream \
            (--workers), each some subscriptions at a time from all of their events. Product settings are those that applied \
            to the old rows. An interrupted or failed rebuild changes nothing; the next one cleans up. Exit status 69 \
            if another rebuild is running, 65 if there is no such stream.

            With --diff, folds the log in the same way, but only prints what a rebuild with this release would change: \
            one JSON object for each row and field, with the rules that lead to the new value. Changes no row, and \
            exits with status 1 if anything differs.
            """)

    @Flag(help: "Print what a rebuild would change, and change nothing.")
    var diff = false

    @Option(help: ArgumentHelp("Only streams of this app.", valueName: "bundle-id"))
    var app: String?

    @Option(help: ArgumentHelp("Only streams of this environment: \(StreamEnvironment.names).", valueName: "name"))
    var environment: StreamEnvironment?

    @Option(
        help: ArgumentHelp(
            "How many connections fold a stream at once. [the number of processors, at most 8]", valueName: "number"))
    var workers: Int?

    @OptionGroup var database: DatabaseFlags

    /// Each has a connection.
    private static let workersMax = 64

    func validate() throws {
        guard 1...Self.workersMax ~= workers ?? 1 else {
            throw ValidationError("--workers must be between 1 and \(Self.workersMax).")
        }
    }

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values)
            let logger = try settings.logger()
            try await Database.withExisting(settings, logger: logger) { database in
                // More connections are for the operator to grant.
                let workers = self.workers ?? min(8, ProcessInfo.processInfo.activeProcessorCount)
                let pool = database.pool(
                    .projector, limit: max(Projector.connectionsMax, workers), logger: logger)
                let rebuild = ProjectionRebuild(
                    owner: database.owner, pool: pool, app: app, environment: environment?.value, now: SystemClock.now,
                    workers: workers)
                do {
                    if diff { try await compare(rebuild) } else { try await run(rebuild) }
                    await pool.close()
                } catch {
                    await pool.close()
                    throw error
                }
            }
        }
    }

    private func run(_ rebuild: ProjectionRebuild) async throws {
        let report = ProgressReport("rebuild", unit: "events")
        let outcome = try await rebuild.run { report.update($0.eventsFolded, of: $0.eventsTotal) }
        print(
            """
            rebuilt: streams \(outcome.streams), events \(outcome.eventsFolded), rows replaced \
            \(outcome.rowsReplaced)
            """)
    }

    private func compare(_ rebuild: ProjectionRebuild) async throws {
        let report = ProgressReport("rebuild", unit: "events")
        let comparison = try await rebuild.compare { progress in
            report.update(progress.eventsFolded, of: progress.eventsTotal)
        } onDifference: { difference in
            print(difference.json)
        }
        print(
            """
            \(comparison.rows == 0 ? "the same" : "not the same"): streams \(comparison.streams), events \
            \(comparison.eventsFolded), rows \(comparison.rows), subscriptions \(comparison.subscriptions)
            """)
        if comparison.rows > 0 { throw ExitCode.failure }
    }
}
