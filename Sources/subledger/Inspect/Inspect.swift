import AppStore
import ArgumentParser
import Foundation
import Server
import Subscriptions

struct Inspect: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print decoded notification bodies and their verification result: one JSON object per line.",
        discussion: """
            Works offline and without a database. Accepts V1 and V2 bodies, single signed objects (JWS) of \
            notifications, transactions, renewal info and app transactions, signed data of devices as it is stored, \
            answers of verifyReceipt, and requests of operators. V1 bodies, answers and requests are not signed and are \
            shown unverified. Exit status 65 \
            if a file can be decoded as none of these or fails verification.
            """)

    @Argument(help: ArgumentHelp("Files with one body each; - reads standard input.", valueName: "file"))
    var files: [String]

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
            if hasFailed { throw ExitCode.dataError }
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
