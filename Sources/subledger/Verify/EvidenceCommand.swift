import ArgumentParser
import Encoding
import EventLog
import Server
import Subscriptions
import Verification

struct EvidenceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "evidence",
        abstract: "Write what proves an event to a third party: body, certificates, OCSP responses, proof of the log.",
        discussion: """
            Writes one JSON file, which `subledger verify-evidence` verifies without a database and without a network. \
            The file contains the body, with everything that the event says about the customer, and of later events only \
            digests. May run beside a server. Changes nothing, unless the last signed checkpoint is older than the event: \
            then it signs one. Exit status 65 if there is no such event.
            """)

    @Argument(help: "The event's position in its stream.")
    var position: Int64

    @Option(help: ArgumentHelp("The app of the stream.", valueName: "bundle-id"))
    var app: String

    @Option(help: ArgumentHelp("Its environment: \(StreamEnvironment.names).", valueName: "name"))
    var environment: StreamEnvironment

    @Option(
        help: ArgumentHelp(
            """
            Prove the event by the hash chain, from signed heads, as `subledger head` printed them. The first one of the \
            stream at the position or later is used.
            """, valueName: "file"))
    var head: String?

    @Option(
        help: ArgumentHelp(
            """
            A checkpoint, as `subledger head --checkpoint` printed it, that is to prove the event. [the last one that a \
            witness cosigned, or that was signed]
            """, valueName: "file"))
    var checkpoint: String?

    @Option(help: ArgumentHelp("The file to write. [standard output]", valueName: "file"))
    var output = "-"

    @OptionGroup var archive: ArchiveFlags
    @OptionGroup var key: HeadKeyFlags
    @OptionGroup var database: DatabaseFlags

    func validate() throws {
        guard head == nil || checkpoint == nil else {
            throw ValidationError("--head and --checkpoint exclude each other.")
        }
    }

    func run() async throws {
        try await reportingFailures {
            let flags = key.values.merging(archive.values) { first, _ in first }
            let settings = Settings(flags: database.values.merging(flags) { first, _ in first })
            let stream = StreamKey(app: app, environment: environment.value)
            let evidence = try await head == nil ? byTree(settings, stream) : byChain(settings, stream)
            var writer = JSONWriter()
            evidence.write(to: &writer)
            try OutputFile.write(writer.text + "\n", to: output)
        }
    }

    private func byTree(_ settings: Settings, _ stream: StreamKey) async throws -> EvidenceFile {
        let given = try checkpoint.map { try Settings.checkpoints(inFiles: [$0]) }?.first
        if let given, given.checkpoint.origin.stream != stream || given.checkpoint.size < position {
            throw SettingError(
                description: "\(checkpoint ?? ""): expected a checkpoint of \(app), \(environment.value.rawValue) with "
                    + "at least \(position) events")
        }
        return try await settings.withTrees { signer, store in
            let tree = try await store.streams().first { $0.key == stream }
            guard let tree else { throw EvidenceReader.Refusal.noStream }
            guard 1...max(1, tree.last) ~= position else { throw EvidenceReader.Refusal.noEvent(position: position) }
            var signed = given
            if signed == nil { signed = try await signer.checkpoint(of: tree, covering: position, in: store) }
            guard let signed else { throw EvidenceReader.Refusal.noEvent(position: position) }
            return try await EvidenceReader(log: store.audit(with: settings.archive)).evidence(
                at: position, checkpoint: signed)
        }
    }

    private func byChain(_ settings: Settings, _ stream: StreamKey) async throws -> EvidenceFile {
        let earlier = try head.map { try Settings.heads(inFiles: [$0]) }?
            .filter { $0.head.stream == stream && $0.head.position >= position }
            .min { $0.head.position < $1.head.position }
        guard let earlier else {
            throw SettingError(
                description: "\(head ?? ""): expected a head of \(app), \(environment.value.rawValue) at position "
                    + "\(position) or later")
        }
        return try await Database.withExisting(settings, logger: try settings.logger()) { database in
            // The projector's role is the least privileged one that can read bodies.
            try await database.withConnection(.projector) { connection in
                try await EvidenceReader(log: LogAudit(connection: connection, archive: database.archive)).evidence(
                    at: position, head: earlier)
            }
        }
    }
}
