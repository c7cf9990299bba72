import AppStore
import ArgumentParser
import Encoding
import Foundation
import Server
import Subscriptions

struct Fold: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Compute subscriptions from bodies without a database: one JSON object per subscription.",
        discussion: """
            A file contains one body, or one per line, either plain or as {"receivedAt": …, "body": …}. Bodies without \
            receivedAt count as received now. Answers of verifyReceipt, and signed data of devices as it is stored, are \
            bodies, too. Signatures and secrets are not verified. Invalid bodies are reported on stderr with exit \
            status 65; all others are processed.
            """)

    @Argument(help: ArgumentHelp("Files with bodies; - reads standard input.", valueName: "file"))
    var files: [String]

    @Option(help: ArgumentHelp("Evaluate as of this instant, ISO 8601. [--known-at, or now]", valueName: "instant"))
    var at: Instant?

    @Option(help: ArgumentHelp("Use only bodies received by this instant.", valueName: "instant"))
    var knownAt: Instant?

    @Option(
        help: ArgumentHelp(
            "Publication time of a magazine issue; repeat for all relevant issues. Adds whether each is readable.",
            valueName: "instant"))
    var publishedAt: [Instant] = []

    @Option(
        help: ArgumentHelp(
            "CSV file of products as for `subledger product import`, which determines their kinds; - reads stdin.",
            valueName: "file"))
    var products: String?

    func run() throws {
        let catalogs = try catalogs()
        var ledger = MemoryLedger()
        var hasFailed = false
        for file in files {
            for problem in fold(file, into: &ledger) {
                printError(problem)
                hasFailed = true
            }
        }
        let instant = at ?? knownAt ?? SystemClock.now()
        for (stream, subscription) in ledger.subscriptions(products: catalogs) {
            var writer = JSONWriter()
            writer.object { writer in
                writer.member("app", stream.app)
                writer.member("environment", stream.environment.rawValue)
                subscription.writeMembers(at: instant, to: &writer)
                if !publishedAt.isEmpty {
                    writer.key("issues")
                    writer.array(subscription.contentAccess(issues: publishedAt, at: instant)) { $1.write(to: &$0) }
                }
            }
            print(writer.text)
        }
        if hasFailed { throw ExitCode.dataError }
    }

    private func catalogs() throws -> [String: ProductCatalog] {
        guard let products else { return [:] }
        do throws(CSVFile.Malformed) {
            return try ProductFile.read(products).catalogs
        } catch {
            printError("subledger: \(error)")
            throw ExitCode.dataError
        }
    }

    /// Returns one message per body that could not be processed.
    private func fold(_ file: String, into ledger: inout MemoryLedger) -> [String] {
        guard let bytes = InputFile.read(file) else { return ["\(file): \(InputFile.unreadable)"] }
        var problems: [String] = []
        func note(_ line: Int?, _ problem: any Error) {
            problems.append("\(file)\(line.map { ":\($0)" } ?? ""): \(problem)")
        }
        for delivery in Delivery.read(bytes) {
            switch delivery {
            case .failure(let malformed): note(malformed.line, malformed)
            case .success(let delivery):
                let receivedAt = delivery.receivedAt ?? SystemClock.now()
                if let knownAt, receivedAt > knownAt { continue }
                do {
                    let event = try StoreBody(decoding: delivery.body).event(receivedAt: receivedAt)
                    ledger.append(event, receivedAt: receivedAt)
                } catch {
                    note(delivery.line, error)
                }
            }
        }
        return problems
    }
}

extension Instant: ExpressibleByArgument {
    @usableFromInline
    package init?(argument: String) {
        self.init(iso8601: argument)
    }
}
