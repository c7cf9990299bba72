import Foundation
import TestSupport

/// Entitlement lookups over HTTP, as a backend makes them at every start of its app, compared with pgbench's point
/// selects of the rows that identify the same customers. Both choose random customers.
struct Lookups {
    let settings: RunSettings
    let subscriptions: Int
    let runs: Int

    private static let requestsMax = 200_000

    func measure(_ samples: inout Samples) async throws {
        let database = try await SharedDatabase.make()
        progress("making \(subscriptions) subscriptions")
        try await LookupRows.fill(database, subscriptions: subscriptions)
        let requests = try requests(token: try await database.token())
        let server = try database.server("reader", logFile: settings.folder.file("reader.log"))
        do {
            let port = try await server.privatePort()
            for round in 1...runs {
                progress("lookups, run \(round) of \(runs)")
                try await ask(server.pid, port, requests, &samples)
                try await select(database, &samples)
            }
            samples.add("lookups.memory", Double(try ProcessMemory.residentMax(server.pid)))
            server.signal(SIGTERM)
            try await server.hasEnded()
        } catch {
            server.signal(SIGKILL)
            throw error
        }
        try await database.drop()
    }

    /// Requests for random customers, in the format of `send.lua`.
    private func requests(token: String) throws -> RequestFile {
        var random = SeededGenerator(seed: 1)
        var file = Data()
        var ranges: [Range<Int>] = []
        for _ in 0..<min(Self.requestsMax, subscriptions) {
            let customer = Int.random(in: 1...subscriptions, using: &random)
            let request = """
                GET /customers/\(customer)/entitlements HTTP/1.1\r
                Host: localhost\r
                Authorization: Bearer \(token)\r
                \r

                """
            let digits = String(request.utf8.count)
            file += (String(repeating: "0", count: 8 - digits.utf8.count) + digits).utf8
            ranges.append(file.count..<file.count + request.utf8.count)
            file += request.utf8
        }
        let path = settings.folder.file("lookups.requests")
        try file.write(to: URL(fileURLWithPath: path))
        return RequestFile(path: path, ranges: ranges)
    }

    private func ask(_ server: Int32, _ port: Int, _ requests: RequestFile, _ samples: inout Samples) async throws {
        let before = try await ProcessorTime.now(of: server)
        // Requests may repeat, because the server does not cache answers.
        let outcome = try Wrk(settings: settings, requests: requests).run(port: port, limit: requests.ranges.count)
        let used = try await ProcessorTime.now(of: server) - before
        let count = outcome.perSecond * Double(settings.seconds)
        samples.add("lookups.rate", outcome.perSecond)
        samples.add("lookups.p50", outcome.p50)
        samples.add("lookups.p99", outcome.p99)
        samples.add("lookups.client", outcome.clientMicroseconds)
        samples.add("lookups.server", used.own * 1e6 / count)
        samples.add("lookups.database", used.database * 1e6 / count)
    }

    private func select(_ database: SharedDatabase, _ samples: inout Samples) async throws {
        let script = settings.folder.file("select.sql")
        let sql = """
            \\set customer random(1, \(subscriptions))
            \(LookupRows.select);

            """
        try Data(sql.utf8).write(to: URL(fileURLWithPath: script))
        let before = try await ProcessorTime.now()
        let output = try Tool.run(
            try Tool.findBesidePostgres("pgbench"),
            [
                "-n", "-M", "prepared", "-c", "\(settings.connections)", "-j", "1", "-T", "\(settings.seconds)", "-f",
                script, "-h", database.socketFolder, "-U", "subledger", database.name,
            ])
        let used = try await ProcessorTime.now() - before
        guard let tps = output.firstMatch(of: /tps = ([0-9.]+)/).flatMap({ Double($0.output.1) }),
            let latency = output.firstMatch(of: /latency average = ([0-9.]+)/).flatMap({ Double($0.output.1) })
        else { throw BenchError("no result from pgbench: \(output.suffix(300))") }
        samples.add("lookups.pgbench.rate", tps)
        samples.add("lookups.pgbench.mean", latency)
        samples.add("lookups.pgbench.database", used.database * 1e6 / (tps * Double(settings.seconds)))
    }
}
