import ArgumentParser

@main
struct Subledger: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "subledger",
        abstract: "A self-hosted ledger of App Store and Google Play subscriptions.",
        version: "0.1.0",
        subcommands: [
            Serve.self, Migrate.self, Inspect.self, Fold.self, ProjectorCommand.self, Rebuild.self, Sizes.self,
            Verify.self, HeadCommand.self, WitnessCommand.self, EvidenceCommand.self, VerifyEvidence.self,
            CompareSources.self, Explain.self,
            ReceiptCommand.self, ImportCommand.self, CompareAccess.self, ExportCommand.self, GrantCommand.self,
            OrderCommand.self,
            Poll.self,
            Backfill.self, Audit.self, Probe.self, Extend.self, AccountTokenCommand.self, ProductCommand.self,
            RateCommand.self,
            CommissionCommand.self, TaxCommand.self, ReportCommand.self, CloseCommand.self, ArchiveCommand.self,
            EraseCommand.self,
            WebhookCommand.self, TokenCommand.self, Simulate.self,
        ])
}
