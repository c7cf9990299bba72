import AppStore
import ArgumentParser
import EventLog
import Projector
import Server
import Verification

struct Verify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Verify that the log is complete and authentic, and that the projections match it.",
        discussion: """
            Checks every event for gaps in positions, its body digest, the columns derived from the body, and its \
            signatures as of the signing time, offline; bodies that were archived are read from their files. Then recomputes a sample of subscriptions, or all, and compares \
            them with the projections. With --head and --checkpoint, the log must also extend what was signed earlier. Changes nothing and \
            may run beside a server. Prints every bad event, and the first bad row of the projections of each stream, on \
            stdout; then exits with status 1.
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
            Signed heads that the log must extend, as `subledger head` printed them. The more heads, the narrower the \
            positions of a finding. Repeatable.
            """, valueName: "file"))
    var head: [String] = []

    @Option(
        help: ArgumentHelp(
            """
            A checkpoint that the log must extend, as `subledger head --checkpoint` printed it. Repeatable.
            """, valueName: "file"))
    var checkpoint: [String] = []

    @Option(
        help: ArgumentHelp(
            """
            A public key that may have signed the heads, 64 hexadecimal digits. Repeatable. [that of the head key]
            """, valueName: "key"))
    var publicKey: [String] = []

    @Flag(help: "Check only the hash chain and heads: no bodies, signatures or projections.")
    var chainOnly = false

    @Option(
        help: ArgumentHelp(
            """
            A root certificate to trust in addition to Apple's, as for `serve`. Repeatable. \
            [SUBLEDGER_ROOT_FILES, comma-separated]
            """, valueName: "file"))
    var root: [String] = []

    @OptionGroup var archive: ArchiveFlags
    @OptionGroup var headKey: HeadKeyFlags
    @OptionGroup var database: DatabaseFlags

    func validate() throws {
        guard sample > 0 else { throw ValidationError("--sample must be greater than 0.") }
        guard !chainOnly || !all else { throw ValidationError("--chain-only and --all exclude each other.") }
    }

    func run() async throws {
        try await reportingFailures {
            let keys = headKey.values.merging(archive.values) { first, _ in first }
            let flags = database.values.merging(keys) { first, _ in first }.merging(
                settings([(["root", "files"], root.isEmpty ? nil : root.joined(separator: ","))]),
                uniquingKeysWith: { first, _ in first })
            let settings = Settings(flags: flags)
            let signatures = SignatureVerifier(roots: try settings.roots())
            let seed = seed ?? UInt64.random(in: 1...999_999)
            let heads = try settings.headCheck(heads: head, checkpoints: checkpoint, keys: publicKey)
            let outcome = try await Database.withExisting(settings, logger: try settings.logger()) { database in
                if chainOnly { return try await verifyChain(database, heads) }
                return try await verify(database, signatures, heads, seed: seed)
            }
            for finding in outcome.findings { print(finding) }
            if outcome.further > 0 { print("and \(outcome.further) more") }
            let extent = all ? "all subscriptions" : "sample with seed \(seed)"
            print(
                """
                \(outcome.finding == nil ? "verified" : "not verified"): streams \(outcome.streams), \
                events \(outcome.events)\(outcome.bodies)\
                \(heads.heads.isEmpty ? "" : ", heads \(heads.heads.count)")\
                \(heads.checkpoints.isEmpty ? "" : ", checkpoints \(heads.checkpoints.count)")\
                \(chainOnly ? " (hash chain only)" : ", subscriptions \(outcome.subscriptions) (\(extent))")
                """)
            if outcome.finding != nil { throw ExitCode.failure }
        }
    }

    private func verifyChain(_ database: Database, _ heads: HeadCheck) async throws -> VerificationOutcome {
        try await database.withConnection(.projector) { log in
            let events = ProgressReport("verify", unit: "events")
            return try await ChainVerifier(log: LogAudit(connection: log), heads: heads).run {
                events.update($0, of: $1)
            }
        }
    }

    private func verify(
        _ database: Database, _ signatures: SignatureVerifier, _ heads: HeadCheck, seed: UInt64
    ) async throws -> VerificationOutcome {
        // The projector's role is the least privileged one that can read bodies, log and projections.
        try await database.withConnection(.projector) { log in
            try await database.withConnection(.projector) { projections in
                try await database.withConnection(.projector) { other in
                    let verifier = DatabaseVerifier(
                        log: LogAudit(connection: log, archive: database.archive),
                        projections: try await ProjectionAudit(connection: projections, others: [other], seed: seed),
                        signatures: signatures, extent: all ? .all : .sample(sample), heads: heads)
                    let events = ProgressReport("verify", unit: "events")
                    let subscriptions = ProgressReport("verify", unit: "subscriptions")
                    return try await verifier.run(
                        onEvents: { events.update($0, of: $1) }, onSubscriptions: { subscriptions.update($0, of: $1) })
                }
            }
        }
    }
}

extension VerificationOutcome {
    /// Of how many events the body is not in the database, in parentheses; empty if there are none.
    fileprivate var bodies: String {
        let parts = [
            erased > 0 ? "\(erased) erased" : nil, archived > 0 ? "\(archived) archived" : nil,
            unread > 0 ? "\(unread) not read" : nil,
        ].compactMap(\.self)
        return parts.isEmpty ? "" : " (\(parts.joined(separator: ", ")))"
    }
}

extension Settings {
    /// The heads and checkpoints in files, with the keys whose signatures are accepted.
    fileprivate func headCheck(
        heads: [String], checkpoints: [String], keys: [String]
    ) throws(SettingError) -> HeadCheck {
        guard !heads.isEmpty || !checkpoints.isEmpty else { return .none }
        return HeadCheck(
            heads: try Self.heads(inFiles: heads), checkpoints: try Self.checkpoints(inFiles: checkpoints),
            keys: try headPublicKeys(keys))
    }
}
