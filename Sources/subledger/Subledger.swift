import ArgumentParser

@main
struct Subledger: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "subledger",
        abstract: "A self-hosted ledger of App Store and Google Play subscriptions.",
        version: "0.1.0",
        subcommands: [
            Serve.self, Migrate.self, Inspect.self, Fold.self, Simulate.self, ProjectorCommand.self, Rebuild.self,
            Verify.self, HeadCommand.self, EvidenceCommand.self, VerifyEvidence.self, CompareSources.self, Explain.self,
            ReceiptCommand.self, Poll.self, Backfill.self, Audit.self, Probe.self, Extend.self,
            AccountTokenCommand.self, ProductCommand.self, RateCommand.self, CommissionCommand.self, TaxCommand.self,
            WebhookCommand.self, TokenCommand.self,
        ])
}

/// Exit statuses besides 0, 1 and 64 (usage), numbered as in sysexits.h, and by shells.
extension ExitCode {
    /// Invalid input.
    static let dataError = ExitCode(65)
    /// A required resource is unavailable: the database, a port.
    static let unavailable = ExitCode(69)
    /// An invalid setting.
    static let configurationError = ExitCode(78)
    /// Ended by SIGINT or SIGTERM before it was finished, as shells report it.
    static let interrupted = ExitCode(130)
}
