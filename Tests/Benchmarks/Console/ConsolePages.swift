import EventLog
import Foundation
import Logging
import Postgres
import Projector
import TestSupport

/// The latency of each page of the console, on a log with many subscriptions, while notifications arrive.
///
/// The log is that of ``BenchmarkLog``, folded by the projector. Server, database and both senders share the machine.
/// Pages are requested on a schedule, about random subscriptions. Slow figures are read before, as any visit does.
struct ConsolePages {
    let settings: RunSettings
    let subscriptions: Int
    let runs: Int

    private static let ingestPerSecond = 500.0
    private static let pagesPerSecond = 10.0
    private static let connections = 4

    func measure(_ samples: inout Samples) async throws {
        let database = try await SharedDatabase.make()
        let middle = try await fill(database)
        let urls = try await ConsoleURLs(database: database, known: middle).all
        let seconds = Double(settings.seconds * urls.count * runs)
        let workload = try await Workload.make(
            .v1, seconds: Int(seconds * Self.ingestPerSecond) / Format.v1.goalPerSecond, in: settings.folder)
        let server = try database.server(
            "receiver,projector,reader", more: try MeasuredServer.environment(settings.folder),
            logFile: settings.folder.file("console.log"))
        do {
            let ports = (open: try await server.ports().public, closed: try await server.privatePort())
            let cookie = try await cookie(database)
            try await warm(urls, cookie, ports.closed)
            progress("500 notifications per second beside the pages")
            let ingest = Task.detached { [connections = settings.connections] in
                try OpenLoop(requests: workload.requests, connections: connections).run(
                    port: ports.open, rate: Self.ingestPerSecond, seconds: seconds)
            }
            for round in 1...runs {
                for (name, paths) in urls {
                    progress("console, run \(round) of \(runs): \(name)")
                    try await visit(name, paths, cookie, ports.closed, &samples)
                }
            }
            let answers = try await ingest.value
            samples.add("console.ingest.failed", Double(answers.count { $0.status != 200 }))
            samples.add("console.ingest.p99", answers.map(\.milliseconds).percentile(0.99))
            samples.add("console.memory", Double(try ProcessMemory.residentMax(server.pid)))
            server.signal(SIGTERM)
            try await server.hasEnded()
        } catch {
            server.signal(SIGKILL)
            throw error
        }
        try await database.drop()
    }

    /// Fills log and projections, and returns the time of half of the events.
    private func fill(_ database: SharedDatabase) async throws -> String {
        progress("making \(subscriptions) subscriptions, by folding their events")
        let log = try await BenchmarkLog.filled(database) { made, events in
            made >= subscriptions ? nil : events + min(BenchmarkLog.step, max(1000, (subscriptions - made) * 3))
        }
        return log.middle.description
    }

    private func cookie(_ database: SharedDatabase) async throws -> String {
        guard let token = AccessToken(try await database.token()) else { throw BenchError("the token is malformed") }
        let quiet = Logger(label: "benchmark", factory: { _ in SwiftLogNoOpLogHandler() })
        let pool = PostgresPool(
            database.configuration.with(role: "subledger_authenticator"), limit: 1, logger: quiet)
        let begun = try await ConsoleSessions(pool: pool).begin(token)
        await pool.close()
        guard let secret = begun else { throw BenchError("the token begins no session") }
        return "subledger=\(secret.text)"
    }

    /// Visits each page once. The first visit of a slow figure waits for it.
    private func warm(_ urls: [(name: String, paths: [String])], _ cookie: String, _ port: Int) async throws {
        for (name, paths) in urls {
            let requests = try requests(name, Array(paths.prefix(1)), cookie)
            let answers = try OpenLoop(requests: requests, connections: 1).run(port: port, rate: 1, seconds: 0.5)
            guard answers.allSatisfy({ $0.status == 200 || $0.status == 303 }) else {
                throw BenchError("page \(name) is answered \(answers.map(\.status)): \(paths[0])")
            }
            progress(String(format: "  first visit of %@: %.0f ms", name, answers.map(\.milliseconds).max() ?? 0))
        }
    }

    private func visit(
        _ name: String, _ paths: [String], _ cookie: String, _ port: Int, _ samples: inout Samples
    ) async throws {
        let requests = try requests(name, paths, cookie)
        let seconds = Double(settings.seconds)
        let sending = Task.detached {
            try OpenLoop(requests: requests, connections: Self.connections).run(
                port: port, rate: Self.pagesPerSecond, seconds: seconds)
        }
        let answers = try await sending.value
        let wrong = answers.filter { $0.status != 200 && $0.status != 303 }
        guard wrong.isEmpty else { throw BenchError("page \(name) is answered \(Set(wrong.map(\.status)))") }
        samples.add("console.\(name).p50", answers.map(\.milliseconds).percentile(0.5))
        samples.add("console.\(name).p99", answers.map(\.milliseconds).percentile(0.99))
        samples.add("console.\(name).most", answers.map(\.milliseconds).max() ?? 0)
    }

    /// In the format of `send.lua`.
    private func requests(_ name: String, _ paths: [String], _ cookie: String) throws -> RequestFile {
        var file = Data()
        var ranges: [Range<Int>] = []
        for path in paths {
            let request = "GET \(path) HTTP/1.1\r\nHost: localhost\r\nCookie: \(cookie)\r\n\r\n"
            let digits = String(request.utf8.count)
            file += (String(repeating: "0", count: 8 - digits.utf8.count) + digits).utf8
            ranges.append(file.count..<file.count + request.utf8.count)
            file += request.utf8
        }
        let place = settings.folder.file("console-\(name).requests")
        try file.write(to: URL(fileURLWithPath: place))
        return RequestFile(path: place, ranges: ranges)
    }
}
