import ArgumentParser
import Encoding
import EventLog
import Server
import Subscriptions
import Verification

struct EvidenceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "evidence",
        abstract: "Write what proves an event to a third party: body, certificates, OCSP responses, hash chain.",
        discussion: """
            Writes one JSON file, which `subledger verify-evidence` verifies without a database and without a network. \
            The file contains the body, with everything that the event says about the customer, and of later events only \
            digests. Changes nothing and may run beside a server. Exit status 65 if there is no such event.
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
            Signed heads, as `subledger head` printed them. The first one of the stream at the position or later is \
            used. [the current head, signed now]
            """, valueName: "file"))
    var head: String?

    @Option(help: ArgumentHelp("The file to write. [standard output]", valueName: "file"))
    var output = "-"

    @OptionGroup var key: HeadKeyFlags
    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values.merging(key.values) { first, _ in first })
            let stream = StreamKey(app: app, environment: environment.value)
            let earlier = try head.map { try Settings.heads(inFiles: [$0]) }?
                .filter { $0.head.stream == stream && $0.head.position >= position }
                .min { $0.head.position < $1.head.position }
            guard head == nil || earlier != nil else {
                throw SettingError(
                    description: "\(head ?? ""): expected a head of \(app), \(environment.value.rawValue) at position "
                        + "\(position) or later")
            }
            let evidence = try await Database.withExisting(settings, logger: try settings.logger()) { database in
                // The projector's role is the least privileged one that can read bodies.
                try await database.withConnection(.projector) { connection in
                    var signed = earlier
                    if signed == nil {
                        let current = try await StreamHead.all(on: connection).first { $0.stream == stream }
                        guard let current else { throw EvidenceReader.Refusal.noStream }
                        signed = try settings.headKey().sign(current, at: SystemClock.now())
                    }
                    guard let signed else { throw EvidenceReader.Refusal.noStream }
                    return try await EvidenceReader(log: LogAudit(connection: connection))
                        .evidence(at: position, head: signed)
                }
            }
            var writer = JSONWriter()
            evidence.write(to: &writer)
            try OutputFile.write(writer.text + "\n", to: output)
        }
    }
}
