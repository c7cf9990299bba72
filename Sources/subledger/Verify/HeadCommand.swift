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
            that the log still contains everything that it contained then. Changes nothing and may run beside a server. \
            With --checkpoint, prints a checkpoint of one stream in the open format of transparency logs instead. It is \
            signed, and recorded, only if it is proven to extend the last one; otherwise the exit status is 1.
            """)

    @Option(help: ArgumentHelp("Only streams of this app.", valueName: "bundle-id"))
    var app: String?

    @Option(help: ArgumentHelp("Only streams of this environment: \(StreamEnvironment.names).", valueName: "name"))
    var environment: StreamEnvironment?

    @Flag(help: "Print the checkpoint of one stream.")
    var checkpoint = false

    @Flag(help: "Print the name and key with which others verify the checkpoints of each stream.")
    var verifierKey = false

    @OptionGroup var key: HeadKeyFlags
    @OptionGroup var database: DatabaseFlags

    func validate() throws {
        guard !checkpoint || !verifierKey else {
            throw ValidationError("--checkpoint and --verifier-key exclude each other.")
        }
    }

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values.merging(key.values) { first, _ in first })
            if checkpoint { return try await printCheckpoint(settings) }
            let heads = try await Database.withExisting(settings, logger: try settings.logger()) { database in
                try await database.withConnection(.reader) { try await StreamHead.all(on: $0) }
            }
            let signer = try settings.headKey()
            let checkpoints = try verifierKey ? settings.checkpointSigner(signer) : nil
            for head in heads where app ?? head.stream.app == head.stream.app {
                guard environment?.value ?? head.stream.environment == head.stream.environment else { continue }
                if let checkpoints {
                    print(checkpoints.verifierKey(of: head.stream).text)
                    continue
                }
                let signed = try signer.sign(head, at: SystemClock.now())
                var writer = JSONWriter()
                writer.object { signed.writeMembers(to: &$0) }
                print(writer.text)
            }
        }
    }

    private func printCheckpoint(_ settings: Settings) async throws {
        let signed = try await settings.withTrees { signer, store in
            let streams = try await store.streams(of: app, environment)
            guard streams.count == 1, let stream = streams.first else {
                throw CommandProblem(
                    streams.isEmpty
                        ? "no such stream" : "several streams: expected --app and --environment, which name one")
            }
            guard let signed = try await signer.buildAndSign(stream, in: store) else {
                throw CommandProblem("the stream has no events")
            }
            return signed
        }
        print(signed.note.encoded, terminator: "")
    }
}

extension Settings {
    /// Runs a command with what signs checkpoints, and with the trees of the database.
    func withTrees<Value>(
        _ command: (CheckpointSigner, TreeStore) async throws -> Value
    ) async throws -> Value {
        guard let signer = try checkpointSigner(try headKey()) else {
            throw SettingError(description: "no key signs heads: set --head-key or SUBLEDGER_HEAD_KEY")
        }
        return try await Database.withExisting(self, logger: try logger()) { database in
            try await database.withConnection(.projector) { connection in
                try await command(signer, TreeStore(connection: connection))
            }
        }
    }
}

extension TreeStore {
    /// Those of an app and of an environment, or all.
    func streams(of app: String?, _ environment: StreamEnvironment?) async throws -> [TreeStream] {
        try await streams().filter {
            app ?? $0.key.app == $0.key.app && environment?.value ?? $0.key.environment == $0.key.environment
        }
    }
}
