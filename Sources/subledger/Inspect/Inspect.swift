import AppStore
import ArgumentParser
import EventLog
import Foundation
import Server
import Subscriptions

struct Inspect: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print decoded notification bodies and their verification result: one JSON object per line.",
        discussion: """
            Works offline, and without a database unless --position names an event of one. Accepts V1 and V2 bodies, single signed objects (JWS) of \
            notifications, transactions, renewal info and app transactions, signed data of devices as it is stored, \
            answers of verifyReceipt, and requests of operators. V1 bodies, answers and requests are not signed and are \
            shown unverified. Exit status 65 \
            if a file can be decoded as none of these or fails verification.
            """)

    @Argument(help: ArgumentHelp("Files with one body each; - reads standard input.", valueName: "file"))
    var files: [String] = []

    @Option(
        help: ArgumentHelp(
            "An event of the log instead of files, of --app and --environment; its body may be archived.",
            valueName: "position"))
    var position: Int64?

    @Option(
        help: ArgumentHelp(
            "A root certificate to trust in addition to Apple's, DER or PEM. Repeatable.", valueName: "file"))
    var root: [String] = []

    @Flag(help: "Decode without verifying; the output says so.")
    var noVerify = false

    @Option(
        help: ArgumentHelp(
            "The expected app. The App Store id is compared only in Production.",
            valueName: "bundle-id[:apple-id]"))
    var app: ExpectedApp?

    @Option(
        help: ArgumentHelp(
            """
            The expected environment: Production, Sandbox, Xcode or LocalTesting. Apple does not sign data of the \
            last two, so for these only --app and --environment are checked.
            """, valueName: "name"))
    var environment: ExpectedEnvironment?

    @OptionGroup var archive: ArchiveFlags
    @OptionGroup var database: DatabaseFlags

    func validate() throws {
        guard files.isEmpty != (position == nil) else { throw ValidationError("expected files, or --position.") }
        guard position == nil || app != nil && environment != nil else {
            throw ValidationError("--position requires --app and --environment.")
        }
    }

    func run() async throws {
        try await reportingFailures {
            var roots = RootCertificates.apple
            for path in root { roots = roots + (try Settings.root(path)) }
            let inspection = Inspection(
                signatures: noVerify ? nil : SignatureVerifier(roots: roots),
                expectation: AppExpectation(
                    bundleId: app?.bundleId, appAppleId: app?.appleId, environments: environment.map { [$0.value] }))
            var hasFailed = false
            for file in files {
                do {
                    guard let body = InputFile.read(file) else { throw Unreadable() }
                    let result = try await inspection.inspect(body, file)
                    print(result.line)
                    if let problem = result.problem { throw problem }
                } catch {
                    printError("\(file): \(error)")
                    hasFailed = true
                }
            }
            if let position {
                do {
                    let result = try await inspection.inspect(try await body(at: position), "position \(position)")
                    print(result.line)
                    if let problem = result.problem { throw problem }
                } catch let error where error is DamagedBody || error is UndecodableBody || error is any Rejection {
                    printError("position \(position): \(error)")
                    hasFailed = true
                }
            }
            if hasFailed { throw ExitCode.dataError }
        }
    }

    /// The body of an event, wherever it is.
    private func body(at position: Int64) async throws -> [UInt8] {
        let settings = Settings(flags: database.values.merging(archive.values) { first, _ in first })
        let key = StreamKey(app: app?.bundleId ?? "", environment: environment?.value ?? .production)
        return try await Database.withExisting(settings, logger: try settings.logger()) { database in
            // The projector's role is the least privileged one that can read bodies.
            try await database.withConnection(.projector) { connection in
                let audit = LogAudit(connection: connection, archive: database.archive)
                guard let stream = try await audit.streams().first(where: { $0.key == key }) else {
                    throw CommandProblem("the log has no such stream")
                }
                guard position > 0,
                    let event = try await audit.page(of: stream, after: position - 1, through: position).first
                else { throw CommandProblem("the log has no event at position \(position)") }
                return try event.body()
            }
        }
    }

    private struct Unreadable: Error, CustomStringConvertible {
        let description = InputFile.unreadable
    }
}

/// `com.example.app` or `com.example.app:1234567890`.
struct ExpectedApp: ExpressibleByArgument {
    let bundleId: String
    let appleId: Int64?

    init?(argument: String) {
        let parts = argument.split(separator: ":", omittingEmptySubsequences: false)
        guard (1...2).contains(parts.count), let bundleId = parts.first, !bundleId.isEmpty else { return nil }
        self.bundleId = String(bundleId)
        appleId = parts.count == 2 ? Int64(parts[1]) : nil
        if parts.count == 2, appleId == nil { return nil }
    }
}

struct ExpectedEnvironment: ExpressibleByArgument {
    let value: Environment

    init?(argument: String) {
        guard let value = Environment(v2Name: argument) else { return nil }
        self.value = value
    }
}
