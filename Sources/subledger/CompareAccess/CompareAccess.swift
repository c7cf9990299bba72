import ArgumentParser
import Encoding
import Readers
import Server
import Subscriptions

struct CompareAccess: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "compare-access",
        abstract: "Compare what another service answers about customers with the answers of this log.",
        discussion: """
            Reads CSV with a header line, or JSON lines: customerId, entitlement, active (true or false) and until (an \
            ISO 8601 instant, never, or empty to compare no end). The rows of a customer must follow each other. An \
            entitlement that a customer of the file has here, and that the file does not list, counts as gained. Prints \
            a JSON line for each difference, with the explanation: who gains or loses access if reads are switched to \
            this log, and whose access ends later or earlier; then the counts. Exit status 1 if there is a difference; \
            65 if the file cannot be read; 69 if the database cannot be asked.
            """)

    @Argument(help: ArgumentHelp("The file; - is stdin.", valueName: "file"))
    var file: String

    @Option(help: ArgumentHelp("The instant to compare, ISO 8601. [now]", valueName: "instant"))
    var at: Instant?

    @Option(help: ArgumentHelp("The app. Needed only if several apps have the ids.", valueName: "bundle-id"))
    var app: String?

    @Option(help: ArgumentHelp("The environment: \(StreamEnvironment.names). [production]", valueName: "name"))
    var environment: StreamEnvironment?

    @Option(help: ArgumentHelp("Ends that differ by at most so many seconds are equal.", valueName: "seconds"))
    var tolerance = 1

    @Option(help: ArgumentHelp("Explain so many differences at most; others are only counted.", valueName: "number"))
    var explain = 10_000

    @OptionGroup var database: DatabaseFlags

    func validate() throws {
        guard tolerance >= 0, explain >= 0 else {
            throw ValidationError("--tolerance and --explain must not be negative.")
        }
    }

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values)
            let logger = try settings.logger()
            let instant = at ?? SystemClock.now()
            let summary = try await Database.withExisting(settings, logger: logger) { database in
                let pool = database.pool(.reader, limit: 2, logger: logger)
                do {
                    let summary = try await compare(CustomerReader(pool: pool), at: instant)
                    await pool.close()
                    return summary
                } catch {
                    await pool.close()
                    throw error
                }
            }
            print(summary.line(at: instant))
            if summary.different > 0 { throw ExitCode.failure }
        }
    }

    /// Prints a JSON line for each difference.
    private func compare(
        _ customers: CustomerReader, at instant: Instant
    ) async throws -> AccessComparison.Summary {
        var comparison = AccessComparison(
            customers, app: app, environment: environment?.value ?? .production, at: instant,
            tolerance: .seconds(tolerance), explainedMax: explain)
        do {
            var access = try CSVFile.naming(file) { try AccessFile(TextRecords(file: file)) }
            let progress = ProgressReport("compare-access", unit: "customers")
            while let differences = try await comparison.next(of: &access) {
                for difference in differences { print(difference.line) }
                let compared = Double(comparison.summary.customers)
                let total = access.bytesCount.map { compared * Double($0) / Double(max(1, access.offset)) }
                progress.update(Int64(compared), of: Int64(total ?? compared))
            }
        } catch let error as CSVRecords.Malformed {
            throw CSVFile.Malformed(description: "\(file):\(error.line): \(error.problem)")
        } catch let ambiguous as AccessComparison.Ambiguous {
            switch ambiguous {
            case .severalApps(let apps):
                throw CSVFile.Malformed(
                    description:
                        "several apps know a customer: choose one with --app (\(apps.joined(separator: ", ")))")
            case .severalKinds: throw CSVFile.Malformed(description: "an id of the file leads to different customers")
            }
        }
        return comparison.summary
    }
}

extension AccessDifference {
    fileprivate var line: String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("customerId", customerId)
            writer.member("entitlement", entitlement)
            writer.member("difference", kind.rawValue)
            writer.key("there")
            Self.write(there?.active ?? false, there?.until, isListed: there != nil, to: &writer)
            writer.key("here")
            Self.write(here != nil, here, isListed: true, to: &writer)
            writer.member("reason", reason)
            writer.member("explanation", explanation)
        }
        return writer.text
    }

    private static func write(_ active: Bool, _ until: Instant?, isListed: Bool, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("active", active)
            if active, let until { writer.member("until", end: until) }
            if !isListed { writer.member("listed", false) }
        }
    }
}

extension AccessComparison.Summary {
    fileprivate func line(at instant: Instant) -> String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("at", instant)
            writer.member("customers", Int64(customers))
            writer.member("compared", Int64(compared))
            writer.member("same", Int64(compared - different))
            writer.member("gains", Int64(differences[.gains] ?? 0))
            writer.member("loses", Int64(differences[.loses] ?? 0))
            writer.member("later", Int64(differences[.later] ?? 0))
            writer.member("earlier", Int64(differences[.earlier] ?? 0))
            writer.key("reasons")
            let counts = reasons.map { (reason: "\($0.key.kind.rawValue) \($0.key.rule)", count: $0.value) }
            writer.array(counts.sorted { $0.reason < $1.reason }) { writer, count in
                writer.object { writer in
                    writer.member("reason", count.reason)
                    writer.member("count", Int64(count.count))
                }
            }
        }
        return writer.text
    }
}
