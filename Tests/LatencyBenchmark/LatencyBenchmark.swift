// How long it takes from the receipt of a notification until what it says can be read, at a steady rate: a server of its
// own with a private PostgreSQL, real HTTP, and a reader that watches how far the log is folded.
//
//     swift build -c release --product subledger && swift build -c release --product LatencyBenchmark
//     .build/release/LatencyBenchmark --rate 500 --seconds 20 --format v2
//
// Receipt is `received_at` of the event, by the server's clock; readable is when the watcher first sees a checkpoint at
// or behind its position. It looks every millisecond, so a latency is too long by one at most.

import ArgumentParser
import AsyncHTTPClient
import Foundation
import NIOCore
import Postgres
import StoreSimulator
import TestSupport

@main
struct LatencyBenchmark: AsyncParsableCommand {
    enum Format: String, CaseIterable, ExpressibleByArgument {
        case v1, v2
    }

    @Option(help: "The version of the notifications: v1, of one transaction, or v2, signed.")
    var format = Format.v1

    @Option(help: "Notifications a second.")
    var rate = 500

    @Option(help: "For how long.")
    var seconds = 20

    @Option(help: "Exit status 1 if p99 is above so many milliseconds.")
    var limit = 100

    func validate() throws {
        guard (1...10_000).contains(rate), (1...3600).contains(seconds), limit > 0 else {
            throw ValidationError("--rate, --seconds and --limit must be positive, and not enormous.")
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
        // Made before, so that making them takes nothing from the rate.
        let bodies = try bodies(count)
        let watching = Task { try await Watcher(connection: reader).watch(until: Int64(count)) }
        let late = await post(bodies, to: port)
        let seen = try await watching.value
        let latencies = try await seen.latencies(on: reader)
        await reader.close()
        let sorted = latencies.sorted()
        func percentile(_ share: Double) -> Double { sorted[min(sorted.count - 1, Int(Double(sorted.count) * share))] }
        print("\(count) notifications (\(format.rawValue)) at \(rate)/s, posted late: \(late)")
        print(
            String(
                format: "receipt to readable: median %.1f ms, p99 %.1f ms, max %.1f ms",
                percentile(0.5), percentile(0.99), sorted.last ?? 0))
        print("memory of the server: \(try ProcessMemory.residentMax(server.pid) >> 20) MB at most")
        if percentile(0.99) > Double(limit) { throw ExitCode.failure }
    }

    private func bodies(_ count: Int) throws -> [[UInt8]] {
        guard format == .v2 else { return try (1...count).map { try V1Body(number: $0).bytes } }
        let app = SimulatedApp(bundleId: V1Body.app, appAppleId: 1, environment: .production, sharedSecret: nil)
        var settings = Simulation.Settings(app: app)
        // Each has one notification at least.
        settings.subscriptions = count
        guard let deliveries = Simulation(settings)?.deliveries else { throw ExitCode.failure }
        return (0..<count).map { deliveries[$0].body() }
    }

    /// Posts one after the other at their times, without waiting for answers.
    ///
    /// - Returns: How many were posted more than 20 ms behind their time: the sender did not keep the rate.
    private func post(_ bodies: [[UInt8]], to port: Int) async -> Int {
        var configuration = AsyncHTTPClient.HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.httpVersion = .http1Only
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 64
        let client = AsyncHTTPClient.HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        let start = ContinuousClock.now
        var late = 0
        await withDiscardingTaskGroup { group in
            for (number, body) in bodies.enumerated() {
                let time = start + .seconds(1) * (Double(number) / Double(rate))
                try? await Task.sleep(until: time, clock: .continuous)
                if ContinuousClock.now - time > .milliseconds(20) { late += 1 }
                group.addTask {
                    var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)/apple/notifications")
                    request.method = .POST
                    request.body = .bytes(ByteBuffer(bytes: body))
                    let response = try? await client.execute(request, timeout: .seconds(30))
                    if response?.status != .ok { printError("not answered 200: \(response?.status.code ?? 0)") }
                    _ = try? await response?.body.collect(upTo: 1 << 16)
                }
            }
        }
        try? await client.shutdown()
        return late
    }
}

func printError(_ line: String) { FileHandle.standardError.write(Data((line + "\n").utf8)) }
