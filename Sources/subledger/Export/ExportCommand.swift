import ArgumentParser
import Readers
import Server

extension ExportLayout: ExpressibleByArgument {}

struct ExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Write the log and what was computed from it to files, for a data warehouse.",
        discussion: """
            Writes a folder for each export: files of rows with a manifest, which has the number of rows and the SHA-256 \
            of each file. The first export contains everything, each later one what is new. Events and changes never \
            change. Of every subscription and customer with news, the next export contains all rows again: those with \
            the highest number in column export count. So a warehouse only inserts. An export that was interrupted goes \
            on where it ended. Changes nothing in the database and may run beside a server. Exit status 65 if the \
            database is not the one of the earlier exports; 69 if a file cannot be written or the database cannot be read.
            """)

    @Option(help: ArgumentHelp("The folder of the exports.", valueName: "folder"))
    var to: String

    @Option(
        help: ArgumentHelp(
            "Where to begin: cursor in the manifest of an earlier export. [the last one in the folder]",
            valueName: "cursor"))
    var since: String?

    @Flag(help: "Export everything again.")
    var full = false

    @Option(
        name: .customLong("as"),
        help: ArgumentHelp(
            "The tables to write: subledger, or revenuecat-v5 for one table of purchases with the columns of that export.",
            valueName: "layout"))
    var layout = ExportLayout.subledger

    @Option(help: "The format of the files: csv or jsonl.")
    var format = ExportFormat.csv

    @Option(help: ArgumentHelp("Begin a new file after so many rows.", valueName: "number"))
    var rowsPerFile = 100_000

    @Option(help: ArgumentHelp("Only streams of this app.", valueName: "bundle-id"))
    var app: String?

    @Option(help: ArgumentHelp("Only streams of this environment: \(StreamEnvironment.names).", valueName: "name"))
    var environment: StreamEnvironment?

    @OptionGroup var database: DatabaseFlags

    func validate() throws {
        guard rowsPerFile > 0 else { throw ValidationError("--rows-per-file must be above 0.") }
        guard since == nil || !full else { throw ValidationError("--since and --full exclude each other.") }
    }

    func run() async throws {
        try await reportingFailures {
            let cursor = try since.map { text in
                guard let cursor = ExportCursor(text) else {
                    throw CommandProblem("--since is not a cursor: expected member cursor of a manifest")
                }
                return cursor
            }
            let folder = try ExportFolder(to)
            let request = ExportRun.Request(
                app: app, environment: environment?.value, layout: layout, format: format, rowsPerFile: rowsPerFile,
                since: cursor, isFull: full)
            let outcome = try await database.withConnection(.reader) { connection in
                try await ExportRun(folder: folder, reader: ExportReader(connection: connection), request: request)
                    .run()
            }
            switch outcome {
            case .nothingNew(let export): print("nothing new since export \(export)")
            case .written(let folder, let rows):
                let counts = rows.map { "\($0.table.rawValue) \($0.count)" }.joined(separator: ", ")
                print("exported to \(folder)\(counts.isEmpty ? "" : ": \(counts)")")
            }
        }
    }
}
