import ArgumentParser
import EventLog
import Server
import Subscriptions

struct ImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Take customers and their purchases over from another service; a server may keep running.",
        discussion: """
            Reads CSV with a header line, or JSON lines: the columns of article Switching, or an export of RevenueCat \
            (transactions) or Adapty (events) as it is. Links each purchase to its customer; the server then reads its \
            history from its store. Writes a line for each row to the result file: taken, known, or refused with the \
            reason. If it is interrupted, the same command goes on after the last result. Prints a summary as JSON. Exit \
            status 65 if a row is refused; 69 if a store or the database cannot be asked.
            """)

    @Argument(help: ArgumentHelp("The file; - is stdin.", valueName: "file"))
    var file: String

    @Option(
        help: ArgumentHelp(
            "The app of the App Store, for rows that name none. [the only configured one]", valueName: "bundle-id"))
    var app: String?

    @Option(
        help: ArgumentHelp(
            "The app of Google Play, for rows that name none. [the only configured one]", valueName: "package-name"))
    var googleApp: String?

    @Option(
        help: ArgumentHelp(
            "The environment of rows that name none: production or sandbox. [production]", valueName: "name"))
    var environment: StreamEnvironment?

    @Option(help: ArgumentHelp("The result file. [FILE.results.jsonl]", valueName: "file"))
    var results: String?

    @OptionGroup var store: StoreFlags

    func validate() throws {
        if file == "-", results == nil { throw ValidationError("--results is required with standard input") }
    }

    func run() async throws {
        try await reportingFailures {
            let summary = try await ImportServices.with(store.merged) { importer, apps, googleApps in
                let rowApps = ImportRow.Apps(
                    appStore: try Self.chosen(app, apps.map(\.bundleId)),
                    googlePlay: try Self.chosen(googleApp, googleApps.map(\.packageName)))
                var run = ImportRun(
                    importer, file,
                    try ImportFile(file, apps: rowApps, environment: environment?.value ?? .production),
                    try ImportResults(results ?? "\(file).results.jsonl"))
                return try await run.run()
            }
            print(summary.line)
            if let reason = summary.unavailable {
                printError("subledger: \(reason): run the command again to go on")
                throw ExitCode.unavailable
            }
            if summary.refused > 0 { throw ExitCode.dataError }
        }
    }

    /// The app that is named, or the only one; nil if several are configured, or none.
    private static func chosen(_ named: String?, _ configured: [String]) throws(SettingError) -> String? {
        guard let named else { return configured.count == 1 ? configured[0] : nil }
        guard configured.contains(named) else { throw SettingError(description: "app \(named) is not configured") }
        return named
    }
}
