import ArgumentParser

@main
struct Subledger: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "subledger",
        abstract: "A ledger of App Store subscriptions that you run yourself.",
        version: "0.1.0",
        subcommands: [
            Serve.self, Migrate.self, Inspect.self, Fold.self, Simulate.self, ProjectorCommand.self, Rebuild.self,
            Verify.self, ProductCommand.self, TokenCommand.self,
        ])
}

/// Exit statuses beyond 0, 1 and 64 (usage), in the numbers of sysexits.h.
extension ExitCode {
    /// Input that is not what it should be.
    static let dataError = ExitCode(65)
    /// Something that the command needs is away: the database, a port.
    static let unavailable = ExitCode(69)
    /// A setting that cannot be used.
    static let configurationError = ExitCode(78)
}
