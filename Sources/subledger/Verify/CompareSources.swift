import ArgumentParser
import Projector
import Server

struct CompareSources: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "compare-sources",
        abstract: "Compare what version 1 and receipts say about subscriptions with what version 2 says.",
        discussion: """
            Computes the access periods of each subscription twice: from version 1 notifications and answers about \
            receipts alone, and from signed notifications alone. Compares them for the time that both report on: from \
            the first signed event about the subscription until version 1 or version 2 ends in the log. Prints one JSON \
            object for each subscription that differs, with the positions of the events, and exits with status 1 if \
            there is one; 65 if the log has no events of the app. Changes nothing and may run beside a server.
            """)

    @Option(help: ArgumentHelp("The app.", valueName: "bundle-id"))
    var app: String

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let counts = try await database.withConnection(.reader) { connection in
                try await SourceComparison(connection: connection).compare(app: app) { print($0.json) }
            }
            guard let counts else {
                printError("subledger: the log has no events of app \(app)")
                throw ExitCode.dataError
            }
            print(
                """
                \(counts.differing == 0 ? "same" : "not the same"): subscriptions \(counts.compared), differing \
                \(counts.differing), never at the same time \(counts.apart), only in version 1 or receipts \
                \(counts.onlyUnsigned), only in version 2 \(counts.onlySigned)
                """)
            if counts.differing > 0 { throw ExitCode.failure }
        }
    }
}
