// Measures the receiver on this machine, together with its floors: the costs that it cannot avoid. Run it with
// deploy/bench.
//
// The server is a process of its own on the test cluster, an embedded PostgreSQL with fsync on. Every run has a database
// of its own. Runs of the server and the floors alternate, so that other load on the machine affects all of them.

import ArgumentParser

@main
struct Bench: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "deploy/bench", abstract: "Measure the receiver and its floors.",
        subcommands: [Measure.self, ServeFloor.self], defaultSubcommand: Measure.self)
}
