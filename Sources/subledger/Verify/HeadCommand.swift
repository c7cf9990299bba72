import ArgumentParser
import Encoding
import EventLog
import Server

struct HeadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "head",
        abstract: "Print the signed head of each stream: its last position and the value of its hash chain.",
        discussion: """
            Prints one line of JSON per stream. Keep the lines elsewhere: `subledger verify --head` proves with them \
            that the log still contains everything that it contained then. Changes nothing and may run beside a server.
            """)

    @Option(help: ArgumentHelp("Only streams of this app.", valueName: "bundle-id"))
    var app: String?

    @Option(help: ArgumentHelp("Only streams of this environment: \(StreamEnvironment.names).", valueName: "name"))
    var environment: StreamEnvironment?

    @OptionGroup var key: HeadKeyFlags
    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values.merging(key.values) { first, _ in first })
            let heads = try await Database.withExisting(settings, logger: try settings.logger()) { database in
                try await database.withConnection(.reader) { try await StreamHead.all(on: $0) }
            }
            let signer = try settings.headKey()
            for head in heads where app ?? head.stream.app == head.stream.app {
                guard environment?.value ?? head.stream.environment == head.stream.environment else { continue }
                let signed = try signer.sign(head, at: SystemClock.now())
                var writer = JSONWriter()
                writer.object { signed.writeMembers(to: &$0) }
                print(writer.text)
            }
        }
    }
}
