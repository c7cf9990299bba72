import AppStore
import ArgumentParser
import Encoding
import Server
import StoreClient

struct ReceiptCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "receipt", abstract: "Ask the App Store about receipts.", subcommands: [ReceiptVerify.self])
}

struct ReceiptVerify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Print what the App Store says about receipts: one JSON object per line.",
        discussion: """
            For each file, prints a line with the checks of the receipt, and a line for each of its transactions and \
            renewals. Stores nothing and needs no database, so it does not check who handed the receipt in. \
            Configure the app and its shared secret as for `serve`. Exit status 65 if a file is not a receipt, or if the \
            App Store refuses it; 69 if the App Store cannot be asked; 78 if it rejects the shared secret.
            """)

    @Argument(
        help: ArgumentHelp(
            "Files with one receipt each, as base64 or as raw bytes; - reads standard input.", valueName: "file"))
    var files: [String]

    @Option(
        help: ArgumentHelp("The app, if several are configured.", valueName: "bundle-id"))
    var app: String?

    @Option(
        help: ArgumentHelp("JSON file with the apps, as for `serve`. [SUBLEDGER_APPS_FILE]", valueName: "file"))
    var appsFile: String?

    func run() async throws {
        try await reportingFailures {
            let flags = settings([(["apps", "file"], appsFile)])
            let settings = Settings(flags: flags)
            let app = try chosen(try settings.apps())
            let logger = try settings.logger()
            let addresses = try settings.receiptAddresses()
            let transport = HTTPStoreTransport()
            let inspection = ReceiptInspection(
                client: ReceiptClient(
                    transport: transport, addresses: addresses, clock: StoreClock(date: SystemClock.now),
                    logger: logger),
                app: app, now: SystemClock.now)
            var worst: ReceiptInspection.Problem?
            for file in files {
                let result = await inspection.inspect(InputFile.read(file), file)
                for line in result.lines { print(line) }
                guard let problem = result.problem else { continue }
                printError("\(file): \(problem.description)")
                worst = max(worst ?? problem, problem)
            }
            await transport.shutDown()
            if let worst { throw worst.exitCode }
        }
    }

    private func chosen(_ apps: [App]) throws(SettingError) -> App {
        guard let app else {
            guard let only = apps.first else {
                throw SettingError(
                    description: "no app is configured: set SUBLEDGER_APPS_FILE or SUBLEDGER_APP_BUNDLE_ID")
            }
            guard apps.count == 1 else {
                throw SettingError(description: "several apps are configured: choose one with --app")
            }
            return only
        }
        guard let configured = apps.first(where: { $0.bundleId == app }) else {
            throw SettingError(description: "app \(app) is not configured")
        }
        return configured
    }
}
