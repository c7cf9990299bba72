import AppStore
import ArgumentParser
import EventLog
import Projector
import Verification

struct Verify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Verify that the log is complete and authentic, and that the projections match it.",
        discussion: """
            Checks every event for gaps in positions, its body digest, the columns derived from the body, and its \
            signatures as of the signing time, offline. Then recomputes a sample of subscriptions, or all, and compares \
            them with the projections. Changes nothing and may run beside a server. Stops at the first bad row, prints \
            it on stdout and exits with status 1.
            """)

    @Flag(help: "Check every subscription.")
    var all = false

    @Option(help: ArgumentHelp("Check a sample of about this many subscriptions per stream.", valueName: "number"))
    var sample = 1000

    @Option(help: ArgumentHelp("Repeat the sample of an earlier run. [random]", valueName: "number"))
    var seed: UInt64?

    @Option(
        help: ArgumentHelp(
            """
            A root certificate to trust in addition to Apple's, as for `serve`. Repeatable. \
            [SUBLEDGER_ROOT_FILES, comma-separated]
            """, valueName: "file"))
    var root: [String] = []

    @OptionGroup var database: DatabaseFlags

    func validate() throws {
        guard sample > 0 else { throw ValidationError("--sample must be greater than 0.") }
    }

    func run() async throws {
        try await reportingFailures {
            let flags = database.values.merging(
                settings([(["root", "files"], root.isEmpty ? nil : root.joined(separator: ","))]),
                uniquingKeysWith: { first, _ in first })
            let settings = Settings(flags: flags)
            let signatures = SignatureVerifier(roots: try settings.roots())
            let seed = seed ?? UInt64.random(in: 1...999_999)
            let outcome = try await Database.withExisting(settings, logger: try settings.logger()) { database in
                try await verify(database, signatures, seed: seed)
            }
            if let finding = outcome.finding { print(finding) }
            let extent = all ? "all subscriptions" : "sample with seed \(seed)"
            print(
                """
                \(outcome.finding == nil ? "verified" : "not verified"): streams \(outcome.streams), \
                events \(outcome.events), subscriptions \(outcome.subscriptions) (\(extent))
                """)
            if outcome.finding != nil { throw ExitCode.failure }
        }
    }

    private func verify(
        _ database: Database, _ signatures: SignatureVerifier, seed: UInt64
    ) async throws -> DatabaseVerifier.Outcome {
        // The projector's role is the least privileged one that can read bodies, log and projections.
        try await database.withConnection(.projector) { log in
            try await database.withConnection(.projector) { projections in
                try await database.withConnection(.projector) { other in
                    let verifier = DatabaseVerifier(
                        log: LogAudit(connection: log),
                        projections: try await ProjectionAudit(connection: projections, others: [other], seed: seed),
                        signatures: signatures, extent: all ? .all : .sample(sample))
                    let events = ProgressReport("verify", unit: "events")
                    let subscriptions = ProgressReport("verify", unit: "subscriptions")
                    return try await verifier.run(
                        onEvents: { events.update($0, of: $1) }, onSubscriptions: { subscriptions.update($0, of: $1) })
                }
            }
        }
    }
}
