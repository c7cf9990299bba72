import ArgumentParser
import EventLog
import Server

struct WitnessCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "witness",
        abstract: "Have a witness cosign a checkpoint of each stream, and keep the cosignature.",
        discussion: """
            Posts each checkpoint with the proof that it extends the one that the witness cosigned last, by the protocol \
            tlog-witness. A witness learns how many events the log has: use a machine of your own, or one that you trust \
            with that. Run it on a schedule, beside a server. Exits with status 1 if the witness holds a checkpoint that \
            the log does not extend.
            """)

    @Option(help: ArgumentHelp("The prefix of the witness, to which /add-checkpoint is added.", valueName: "url"))
    var url: String

    @Option(help: ArgumentHelp("Its public key: name+id+key.", valueName: "key"))
    var witnessKey: String

    @Option(help: ArgumentHelp("Only streams of this app.", valueName: "bundle-id"))
    var app: String?

    @Option(help: ArgumentHelp("Only streams of this environment: \(StreamEnvironment.names).", valueName: "name"))
    var environment: StreamEnvironment?

    @OptionGroup var key: HeadKeyFlags
    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values.merging(key.values) { first, _ in first })
            let witness = try Settings.witnessKey(witnessKey)
            let client = try WitnessClient(url: url)
            do {
                try await settings.withTrees { signer, store in
                    let run = WitnessRun(client: client, witness: witness, signer: signer, store: store)
                    for stream in try await store.streams(of: app, environment) {
                        guard let (signed, time) = try await run.cosign(stream) else { continue }
                        print(
                            "cosigned: \(signed.checkpoint.origin.text), size \(signed.checkpoint.size), by "
                                + "\(witness.name) at \(time)")
                    }
                }
            } catch {
                await client.shutDown()
                throw error
            }
            await client.shutDown()
        }
    }
}
