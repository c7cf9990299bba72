import AppStore
import ArgumentParser
import EventLog
import Foundation
import Postgres
import Projector
import Server
import Verification

struct Verify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Verify that the log is complete and authentic, and that the projections match it.",
        discussion: """
            Checks every event for gaps in positions, its body digest, the columns derived from the body, and its \
            signatures as of the signing time, offline; bodies that were archived are read from their files. Then \
            recomputes a sample of subscriptions, or all, and compares them with the projections. With --head and \
            --checkpoint, the log must also extend what was signed earlier. With --progress, it goes on where an earlier run \
            ended. Changes nothing in the database and may run beside a server; on a standby, with --log-only. Prints every \
            bad event, and the first bad row of the projections of each stream, on stdout; then exits with status 1.
            """)

    @Flag(help: "Check every event from the first one on, whatever --progress says, and every subscription.")
    var all = false

    @Option(
        help: ArgumentHelp(
            """
            A file that keeps up to where the log was verified, signed with the head key. Events before that are not \
            checked again. It never moves past a bad event.
            """, valueName: "file"))
    var progress: String?

    @Option(
        help: ArgumentHelp(
            "How many ranges of events to check at once, each with a connection. [the number of processors, at most 8]",
            valueName: "number"))
    var workers: Int?

    @Flag(help: "Check only the log: no projections. Needed on a standby, which takes no temporary tables.")
    var logOnly = false

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
        guard !chainOnly || progress == nil else {
            throw ValidationError("--chain-only and --progress exclude each other: it checks no bodies.")
        }
        guard !chainOnly || !logOnly else {
            throw ValidationError("--chain-only and --log-only exclude each other.")
        }
        guard 1...Self.workersMax ~= workers ?? 1 else {
            throw ValidationError("--workers must be between 1 and \(Self.workersMax).")
        }
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
            var verified = try verifiedFile(settings)
            let outcome = try await Database.withExisting(settings, logger: try settings.logger()) { database in
                if chainOnly { return try await verifyChain(database, heads) }
                return try await verify(database, signatures, heads, seed: seed, &verified)
            }
            try verified?.write()
            for finding in outcome.findings { print(finding) }
            if outcome.further > 0 { print("and \(outcome.further) more") }
            let extent = all ? "all subscriptions" : "sample with seed \(seed)"
            let compared = logOnly ? " (log only)" : ", subscriptions \(outcome.subscriptions) (\(extent))"
            print(
                """
                \(outcome.finding == nil ? "verified" : "not verified"): streams \(outcome.streams), \
                events \(outcome.events)\(outcome.bodies)\
                \(heads.heads.isEmpty ? "" : ", heads \(heads.heads.count)")\
                \(heads.checkpoints.isEmpty ? "" : ", checkpoints \(heads.checkpoints.count)")\
                \(chainOnly ? " (hash chain only)" : compared)
                """)
            if outcome.finding != nil { throw ExitCode.failure }
        }
    }

    /// Each has a connection.
    private static let workersMax = 64

    private func verifiedFile(_ settings: Settings) throws -> VerifiedFile? {
        guard let progress else { return nil }
        return try VerifiedFile(
            path: progress, key: try settings.headKey(), roots: try settings.roots().digest,
            release: Subledger.configuration.version, isNew: all)
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
        _ database: Database, _ signatures: SignatureVerifier, _ heads: HeadCheck, seed: UInt64,
        _ verified: inout VerifiedFile?
    ) async throws -> VerificationOutcome {
        // More connections are for the operator to grant.
        let workers = workers ?? min(8, ProcessInfo.processInfo.activeProcessorCount)
        // The projector's role is the least privileged one that can read bodies, log and projections.
        return try await database.withConnections(.projector, count: workers + 1) { connections in
            let audits = connections.map { LogAudit(connection: $0, archive: database.archive) }
            let verifier = DatabaseVerifier(
                log: audits[0], workers: Array(audits.dropFirst()),
                projections: logOnly ? nil : try await audit(connections, seed), signatures: signatures,
                extent: all ? .all : .sample(sample), heads: heads, from: verified?.places ?? [:])
            let events = ProgressReport("verify", unit: "events")
            let subscriptions = ProgressReport("verify", unit: "subscriptions")
            return try await verifier.run(
                onEvents: { events.update($0, of: $1) }, onSubscriptions: { subscriptions.update($0, of: $1) },
                onVerified: { try verified?.note($0, at: SystemClock.now()) })
        }
    }

    private func audit(_ connections: [PostgresConnection], _ seed: UInt64) async throws -> ProjectionAudit {
        do throws(PostgresError) {
            return try await ProjectionAudit(
                connection: connections[0], others: Array(connections.dropFirst()), seed: seed)
        } catch {
            // read_only_sql_transaction
            guard error.sqlstate == "25006" else { throw error }
            throw CommandProblem(
                "the database is a standby, which takes no temporary tables to compare projections with: use --log-only",
                .unavailable)
        }
    }
}

extension VerificationOutcome {
    /// How many events were not checked again, and of how many the body is not in the database, in parentheses; empty if
    /// there are none.
    fileprivate var bodies: String {
        let parts = [
            verifiedBefore > 0 ? "\(verifiedBefore) verified before" : nil,
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
