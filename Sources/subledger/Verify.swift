import AppStore
import ArgumentParser
import EventLog
import Projector

struct Verify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check that the log is whole and genuine, and that the projections are what it folds into.",
        discussion: """
            Every event: positions without a gap, the body's digest, what the body says against what is stored beside \
            it, and its signatures as of the time of signing, offline. Then subscriptions against a fresh fold: a \
            sample of them, or all. It changes nothing, and a server may run on the database. The first bad row is \
            named on stdout and ends it, with exit status 1.
            """)

    @Flag(help: "Fold all subscriptions anew.")
    var all = false

    @Option(help: ArgumentHelp("Fold about as many of each stream anew.", valueName: "number"))
    var sample = 1000

    @Option(help: ArgumentHelp("Take the sample of an earlier run. [a new one]", valueName: "number"))
    var seed: UInt64?

    @Option(
        help: ArgumentHelp(
            """
            A root certificate to trust beside Apple's own, as `serve` had it. May be repeated. \
            [SUBLEDGER_ROOT_FILES, with commas]
            """, valueName: "file"))
    var root: [String] = []

    @OptionGroup var database: DatabaseFlags

    func validate() throws {
        guard sample > 0 else { throw ValidationError("--sample must be a number larger than 0.") }
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
                events \(outcome.events), subscriptions \(outcome.lines) (\(extent))
                """)
            if outcome.finding != nil { throw ExitCode.failure }
        }
    }

    private func verify(
        _ database: Database, _ signatures: SignatureVerifier, seed: UInt64
    ) async throws -> Verification.Outcome {
        // The projector's role reads log and projections, bodies included, and nothing less does.
        try await database.withConnection(.projector) { log in
            try await database.withConnection(.projector) { projections in
                try await database.withConnection(.projector) { other in
                    let verification = Verification(
                        log: LogAudit(connection: log),
                        projections: try await ProjectionAudit(connection: projections, others: [other], seed: seed),
                        signatures: signatures, extent: all ? .all : .sample(sample))
                    let events = ProgressReport("verify", unit: "events")
                    let lines = ProgressReport("verify", unit: "subscriptions")
                    return try await verification.run(
                        onEvents: { events.tell($0, of: $1) }, onLines: { lines.tell($0, of: $1) })
                }
            }
        }
    }
}
