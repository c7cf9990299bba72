// What the receiver takes on this machine, beside what cannot be saved: deploy/bench runs this, see there.
//
// The server is the real one, a process of its own on the test cluster: an embedded PostgreSQL with fsync on. Every
// run has a database of its own. Runs of server and floors come in turn, so that a busy machine is busy for all.

import ArgumentParser

@main
struct Bench: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "deploy/bench", abstract: "Measure what the receiver takes, beside its floors.",
        subcommands: [Measure.self, ServeFloor.self], defaultSubcommand: Measure.self)
}
