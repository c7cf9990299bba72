import AppStore
import ArgumentParser
import Foundation
import Subscriptions

struct Inspect: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show what notification bodies say and whether Apple signed them: one JSON object a line.",
        discussion: """
            Needs no database and no network. Takes bodies of both versions, and signed texts (JWS) of notifications, \
            transactions, renewal info and app transactions by themselves. Version 1 is not signed, so it is shown \
            unverified. Exit status 65 if a file cannot be read as a notification, or does not verify.
            """)

    @Argument(help: ArgumentHelp("Files with one body each; - is standard input.", valueName: "file"))
    var files: [String]

    @Option(
        help: ArgumentHelp(
            "A root certificate to trust beside Apple's own, DER or PEM. May be repeated.", valueName: "file"))
    var root: [String] = []

    @Flag(help: "Decode only. The output says so.")
    var noVerify = false

    @Option(
        help: ArgumentHelp(
            "The app that it must be of. The id in the App Store is compared in Production.",
            valueName: "bundle-id[:apple-id]"))
    var app: ExpectedApp?

    @Option(
        help: ArgumentHelp(
            """
            The environment that it must be of: Production, Sandbox, Xcode or LocalTesting. The last two are not \
            signed by Apple, and are only verified as far as this.
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
