// Measures what a push of Google Play costs the receiver, compared with a signed notification of the App Store without
// the work of its three signatures.
//
//     swift build -c release --product subledger && swift build -c release --product Benchmarks
//     .build/release/Benchmarks push
//
// The server is a process of its own on the test cluster. Both are sent at the same steady rate, in alternating runs, each
// on a database of its own. A figure is the processor time of the server for one notification that is stored. Every push
// has an identity token, whose signature is checked each time: nothing of it is cached, and it is part of the figure.

import ArgumentParser
import Foundation
import Simulation
import TestSupport

struct PushBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "push", abstract: "Measure a push of Google Play, compared with a signed notification.")

    @Option(help: "Runs of each measurement. The output shows the medians.")
    var runs = 5

    @Option(help: "Notifications per second.")
    var rate = 500

    @Option(help: "The duration of one run in seconds.")
    var seconds = 8

    @Flag(help: "Exit with status 1 if a push costs more.")
    var strict = false

    func validate() throws {
        guard (1...99).contains(runs), (1...5000).contains(rate), (1...60).contains(seconds) else {
            throw ValidationError(
                "option out of range: expected --runs 1 to 99, --rate 1 to 5000 and --seconds 1 to 60.")
        }
    }

    func run() async throws {
        let folder = try Folder()
        defer { folder.remove() }
        let google = PushedGoogle()
        let store = try await ServedPlay.start(google.play)
        defer { store.stop() }
        try google.writeAppsFile(to: folder.file("apps.json"))
        let count = rate * (seconds + 1)
        let signed = try await Workload.make(.v2, count: count, in: folder)
        progress("making \(count) pushes")
        let pushes = try google.requests(count, in: folder.file("push.requests"))
        var samples = Samples()
        for run in 1...runs {
            progress("run \(run) of \(runs)")
            try await measure("push", pushes, folder, store.address, &samples)
            try await measure("v2", signed.requests, folder, store.address, &samples)
            try ParseFloor(workload: signed).measure(&samples)
            try google.measureToken(&samples)
        }
        try print(samples)
    }

    /// Processor time of the server for one notification.
    private func measure(
        _ name: String, _ requests: RequestFile, _ folder: Folder, _ address: String, _ samples: inout Samples
    ) async throws {
        let database = try await SharedDatabase.make()
        var environment = try MeasuredServer.environment(folder)
        environment["SUBLEDGER_APPS_FILE"] = folder.file("apps.json")
        environment["SUBLEDGER_GOOGLE_KEYS_URL"] = "\(address)/google/oauth2/v3/certs"
        let process = try database.server("receiver", more: environment, logFile: folder.file("server.log"))
        do {
            let port = try await process.ports().public
            let load = OpenLoop(requests: requests, connections: 64)
            // The first request fetches Google's keys.
            let first = try load.run(port: port, rate: Double(rate), seconds: 1)
            let before = try await ProcessorTime.now(of: process.pid)
            let answers = try load.run(port: port, rate: Double(rate), seconds: Double(seconds), from: first.count)
            let used = try await ProcessorTime.now(of: process.pid) - before
            guard (first + answers).allSatisfy({ $0.status == 200 && $0.position != nil }) else {
                throw BenchError("not all notifications were answered 200")
            }
            samples.add("\(name).server", used.own * 1e6 / Double(answers.count))
            samples.add("\(name).database", used.database * 1e6 / Double(answers.count))
            samples.add("\(name).p99", answers.map(\.milliseconds).percentile(0.99))
        } catch {
            process.signal(SIGKILL)
            throw error
        }
        process.signal(SIGTERM)
        try await process.hasEnded()
        try await database.drop()
    }

    private func print(_ samples: Samples) throws {
        func text(_ name: String) -> String {
            let values = (samples.all[name] ?? []).sorted()
            return String(
                format: "%7.1f, %.1f to %.1f", samples.median(name) ?? 0, values.first ?? 0, values.last ?? 0)
        }
        guard let push = samples.median("push.server"), let signed = samples.median("v2.server"),
            let signatures = samples.median("v2.signatures.server"), let token = samples.median("token.server")
        else { throw BenchError("a figure is missing") }
        let ratio = push / (signed - signatures)
        Swift.print(
            """
            \(Machine.description); \(rate)/s for \(seconds) s, medians of \(runs) runs, least to most
            server us for one notification
              push of Google Play    \(text("push.server"))
                its identity token   \(text("token.server"))
              V2                     \(text("v2.server"))
                3 signatures         \(text("v2.signatures.server"))
            database us for one notification
              push of Google Play    \(text("push.database"))
              V2                     \(text("v2.database"))
            p99 of answers in ms
              push of Google Play    \(text("push.p99"))
              V2                     \(text("v2.p99"))
            push / (V2 - 3 signatures)                    \(String(format: "%.2f", ratio))   <= 1.00
            (push - identity token) / (V2 - 3 signatures) \
            \(String(format: "%.2f", (push - token) / (signed - signatures)))
            """)
        if strict, ratio > 1 { throw ExitCode.failure }
    }
}

/// The sender of pushes, and what a server needs to accept them.
private struct PushedGoogle {
    private static let audience = "https://ledger.example.com/google/notifications"
    private static let subscription = "projects/simulated-project/subscriptions/play"
    private static let packageName = "com.example.app"
    private let token = OIDCToken(audience: audience, email: "push@simulated-project.iam.gserviceaccount.com")
    /// Publishes the keys of the identity tokens.
    let play = SimulatedPlay(PlayStoryteller(), stories: 1, SimulatedPlay.Settings(packageName: packageName))

    func writeAppsFile(to path: String) throws {
        let app: [String: Any] = [
            "packageName": Self.packageName,
            "push": ["audience": token.audience, "email": token.email, "subscription": Self.subscription],
        ]
        try JSONSerialization.data(withJSONObject: [app]).write(to: URL(fileURLWithPath: path))
    }

    private func identity() throws -> String {
        guard let text = token.text(play.publishedKeys[0], second: Int64(Date().timeIntervalSince1970)) else {
            throw BenchError("no identity token")
        }
        return text
    }

    /// Distinct pushes about as many purchases.
    func requests(_ count: Int, in path: String) throws -> RequestFile {
        let rendering = PlayRendering(packageName: Self.packageName)
        let push = PlayPush(subscription: Self.subscription)
        var writer = try RequestFile.Writer(
            path: path, target: "/google/notifications", headers: ["Authorization: Bearer \(try identity())"])
        for number in 0..<count {
            var identifiers = PlayIdentifiers(seed: 7, story: number, life: 0)
            let message = PlayMessage(
                messageId: identifiers.messageId(), purchaseToken: identifiers.token(), eventTime: .now,
                content: .subscription(.renewed, productId: "premium"))
            try writer.append(push.body(message, rendering))
        }
        return try writer.finish()
    }

    /// Processor time of one bare check of a token's signature.
    func measureToken(_ samples: inout Samples) throws {
        let text = try identity()
        let key = play.publishedKeys[0]
        let count = 500
        let start = clock()
        for _ in 0..<count where !key.isSigner(of: text) { throw BenchError("a token does not match") }
        samples.add("token.server", Double(clock() - start) * 1e6 / Double(CLOCKS_PER_SEC) / Double(count))
    }
}
