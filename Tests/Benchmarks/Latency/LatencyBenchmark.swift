// Measures the latency from the receipt of a notification until its effect can be read, at a steady rate: a server with
// a private PostgreSQL, real HTTP, and a reader that watches the projector's checkpoint.
//
//     swift build -c release --product subledger && swift build -c release --product Benchmarks
//     .build/release/Benchmarks latency --rate 500 --seconds 20 --format v2
//     .build/release/Benchmarks latency --rate 500 --seconds 60 --analyst
//
// Receipt is `received_at` of the event, by the server's clock. An event is readable when the watcher first sees a
// checkpoint at or after its position. The watcher polls every millisecond, so latencies are at most one millisecond too
// long. The time of an answer counts from when its notification was due. With --analyst, an analyst runs a cross join of
// all events during every second interval of five seconds, and answers are reported separately for these intervals.

import ArgumentParser
import AsyncHTTPClient
import Foundation
import NIOCore
import Postgres
import Simulation
import TestSupport

struct LatencyBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latency", abstract: "Measure the time from receipt to a readable effect, at a steady rate.")

    enum Format: String, CaseIterable, ExpressibleByArgument {
        case v1, v2
    }

    @Option(help: "The version of notifications: v1 with one transaction, or v2, signed.")
    var format = Format.v1

    @Option(help: "Notifications per second.")
    var rate = 500

    @Option(help: "The duration in seconds.")
    var seconds = 20

    @Flag(help: "Run an analyst's cross join of all events half of the time.")
    var analyst = false

    @Option(help: "Exit with status 1 if p99 exceeds this number of milliseconds.")
    var limit = 100

    func validate() throws {
        guard (1...10_000).contains(rate), (1...3600).contains(seconds), limit > 0 else {
            throw ValidationError(
                "option out of range: expected --rate 1 to 10000, --seconds 1 to 3600 and a positive --limit.")
        }
    }

    func run() async throws {
        let folder = "/tmp/subledger-latency-\(getpid())"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let root = folder + ".pem"
        try Data(TestCertificates.standard.rootPEM.utf8).write(to: URL(fileURLWithPath: root))
        defer { try? FileManager.default.removeItem(atPath: root) }
        let server = try ServerProcess(
            dataFolder: folder,
            environment: [
                "SUBLEDGER_OCSP": "off", "SUBLEDGER_LOG_LEVEL": "info", "SUBLEDGER_ROOT_FILES": root,
                "SUBLEDGER_APP_APPLE_ID": "1",
            ])
        let outcome: Result<Void, any Error>
        do {
            try await measure(server, folder)
            outcome = .success(())
        } catch {
            outcome = .failure(error)
        }
        server.signal(SIGTERM)
        try await server.hasEnded()
        try outcome.get()
    }

    private func measure(_ server: ServerProcess, _ folder: String) async throws {
        let port = try await server.ports().public
        let database = ConnectionConfiguration(socketFolder: folder + "/run", user: "subledger", database: "subledger")
        let reader = try await PostgresConnection.connect(
            database.with(role: "subledger_reader"), deadline: .now + .seconds(10))
        let count = rate * seconds
        // Made in advance, so that signing does not reduce the rate.
        let bodies = try bodies(count)
        let watching = Task { try await Watcher(connection: reader).watch(until: Int64(count)) }
        let start = ContinuousClock.now
        let joining =
            analyst
            ? Task { try await CrossJoins(socketFolder: folder + "/run").run(from: start, seconds: seconds) } : nil
        let (late, answers) = await post(bodies, to: port, from: start)
        try await joining?.value
        let seen = try await watching.value
        let latencies = try await seen.latencies(on: reader)
        await reader.close()
        print("\(count) notifications (\(format.rawValue)) at \(rate)/s, posted late: \(late)")
        if analyst {
            print(
                "due to answered, no analyst: \(Spread(answers.filter { !CrossJoins.joins(at: $0.due) }.map(\.time)))")
            print("due to answered, analyst:    \(Spread(answers.filter { CrossJoins.joins(at: $0.due) }.map(\.time)))")
        }
        let readable = Spread(latencies)
        print("receipt to readable: \(readable)")
        print("peak memory of the server: \(try ProcessMemory.residentMax(server.pid) >> 20) MB")
        if readable.p99 > Double(limit) { throw ExitCode.failure }
    }

    private func bodies(_ count: Int) throws -> [[UInt8]] {
        guard format == .v2 else { return try (1...count).map { try V1Body(number: $0).bytes } }
        let app = SimulatedApp(bundleId: V1Body.app, appAppleId: 1, environment: .production, sharedSecret: nil)
        var settings = Simulation.Settings(app: app)
        // Each story has at least one notification.
        settings.subscriptions = count
        guard let deliveries = Simulation(settings)?.deliveries else { throw ExitCode.failure }
        return (0..<count).map { deliveries[$0].body() }
    }

    /// Posts the bodies on schedule, without waiting for answers.
    ///
    /// - Returns: The number of bodies posted more than 20 ms late because the sender fell behind, and for each body when
    ///   it was due and how long its answer took from then.
    private func post(
        _ bodies: [[UInt8]], to port: Int, from start: ContinuousClock.Instant
    ) async -> (late: Int, answers: [Answer]) {
        var configuration = AsyncHTTPClient.HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.httpVersion = .http1Only
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 64
        let client = AsyncHTTPClient.HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        var late = 0
        let answers = await withTaskGroup(of: Answer.self) { group in
            for (number, body) in bodies.enumerated() {
                let due = Double(number) / Double(rate)
                let time = start + .seconds(1) * due
                try? await Task.sleep(until: time, clock: .continuous)
                if ContinuousClock.now - time > .milliseconds(20) { late += 1 }
                group.addTask {
                    var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)/apple/notifications")
                    request.method = .POST
                    request.body = .bytes(ByteBuffer(bytes: body))
                    let response = try? await client.execute(request, timeout: .seconds(30))
                    if response?.status != .ok { printError("not answered 200: \(response?.status.code ?? 0)") }
                    _ = try? await response?.body.collect(upTo: 1 << 16)
                    return Answer(due: due, time: (ContinuousClock.now - time) / .milliseconds(1))
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        try? await client.shutdown()
        return (late, answers)
    }

    private struct Answer {
        /// Seconds since the start.
        let due: Double
        /// Milliseconds from due to answered.
        let time: Double
    }
}

func printError(_ line: String) { FileHandle.standardError.write(Data((line + "\n").utf8)) }
