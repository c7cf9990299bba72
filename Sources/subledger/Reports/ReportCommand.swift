import ArgumentParser
import Readers
import Server

struct ReportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "report", abstract: "Import the stores' own reports, and compare them with the log.",
        subcommands: [ReportImport.self, ReportDifferences.self])
}

struct ReportImport: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Import reports of App Store Connect and of the Play Console, as they are downloaded.",
        discussion: """
            Files may be compressed by gzip or in a ZIP archive. A file is recognised by its English header: Apple's daily \
            sales, subscription, subscription event and subscriber reports, financial and finance detail reports; Google's \
            estimated sales and earnings. Everything is kept: a file with the name of an earlier one counts in its place. A file that was \
            imported before changes nothing. Exit status 65 if a file is invalid; then nothing of it is imported, and no \
            file after it.
            """)

    @Argument(help: ArgumentHelp("The files.", valueName: "file"))
    var files: [String]

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            try await database.withConnection(.products) { connection in
                for path in files {
                    let file = try ReportFile(path)
                    let report = file.report
                    let end: String
                    switch try await file.add(on: connection) {
                    case .added(false): end = "\(report.rows) rows imported"
                    case .added(true): end = "\(report.rows) rows imported, which replace those of an earlier file"
                    case .known: end = "imported before"
                    }
                    print("\(report.kind) \(report.name), \(report.firstDay) to \(report.lastDay): \(end)")
                }
            }
        }
    }
}

struct ReportDifferences: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "differences",
        abstract: "Print where the imported reports and the log differ, as JSON lines.",
        discussion: """
            Apple's reports are compared by day, product, country and currency, those of subscriptions by event or state, \
            Google's by order. Then a line on standard error counts the differences by reason. Exit status 1 if there is \
            one.
            """)

    @Option(help: ArgumentHelp("The time zone of the days in Apple's reports.", valueName: "zone"))
    var zone = "America/Los_Angeles"

    @Option(help: ArgumentHelp("Only days of this month, such as 2026-10.", valueName: "month"))
    var month: String?

    @OptionGroup var database: DatabaseFlags

    func validate() throws {
        guard month?.wholeMatch(of: /[0-9]{4}-(0[1-9]|1[0-2])/) != nil || month == nil else {
            throw ValidationError("--month must be a month such as 2026-10.")
        }
    }

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values)
            let differences = try await Database.withExisting(settings, logger: try settings.logger()) { database in
                try await database.withFigures { connection in
                    try await StoreReports.differences(zone: zone, month: month, on: connection)
                }
            }
            for line in differences.lines { print(line) }
            let reasons = differences.reasons.map { ", \($0.reason) \($0.count)" }.joined()
            printError("differences: \(differences.lines.count)\(reasons)")
            if !differences.lines.isEmpty { throw ExitCode.failure }
        }
    }
}
