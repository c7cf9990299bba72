import Foundation
import Postgres
import TestSupport

/// The floor of commits: one row per transaction, by pgbench with the same number of clients, and by a single client.
struct CommitFloor {
    let workload: Workload
    let settings: RunSettings

    private static let loneCommits = 1000

    func measure(_ samples: inout Samples) async throws {
        let database = try await SharedDatabase.make()
        try await database.script(
            """
            create table bare (
              id   bigint generated always as identity primary key,
              body bytea compression lz4 not null
            )
            """)
        try await measureMany(database, &samples)
        try await measureLone(database, &samples)
        try await database.drop()
    }

    /// The body is a parameter of a prepared statement. It is the same each time, which makes no difference to the
    /// database.
    private func measureMany(_ database: SharedDatabase, _ samples: inout Samples) async throws {
        let script = settings.folder.file("insert.sql")
        try Data("insert into bare (body) values (:body);\n".utf8).write(to: URL(fileURLWithPath: script))
        let body = String(decoding: workload.sample[0], as: UTF8.self)
        guard !body.contains("\\") else {
            throw BenchError("the body contains a backslash, which pgbench would unescape")
        }
        let before = try await ProcessorTime.now()
        let output = try Tool.run(
            try Tool.findBesidePostgres("pgbench"),
            [
                "-n", "-M", "prepared", "-c", "\(settings.connections)", "-j", "1", "-T", "\(settings.seconds)", "-f",
                script, "-D", "body=\(body)", "-h", database.socketFolder, "-U", "subledger", database.name,
            ])
        let used = try await ProcessorTime.now() - before
        guard let tps = output.firstMatch(of: /tps = ([0-9.]+)/).flatMap({ Double($0.output.1) }),
            let latency = output.firstMatch(of: /latency average = ([0-9.]+)/).flatMap({ Double($0.output.1) })
        else { throw BenchError("no result from pgbench: \(output.suffix(300))") }
        let name = "\(workload.format.rawValue).pgbench"
        samples.add("\(name).rate", tps)
        samples.add("\(name).mean", latency)
        samples.add("\(name).database", used.database * 1e6 / (tps * Double(settings.seconds)))
    }

    private func measureLone(_ database: SharedDatabase, _ samples: inout Samples) async throws {
        let connection = try await TestCluster.connect(database.configuration)
        var milliseconds: [Double] = []
        for number in 0..<Self.loneCommits {
            let body = Parameter(workload.sample[number % workload.sample.count])
            let start = ContinuousClock.now
            _ = try await connection.query(Self.insert, [body], deadline: .now + .seconds(20))
            milliseconds.append((ContinuousClock.now - start).inSeconds * 1e3)
        }
        await connection.close()
        let name = "\(workload.format.rawValue).commit"
        samples.add("\(name).p50", milliseconds.percentile(0.5))
        samples.add("\(name).p99", milliseconds.percentile(0.99))
    }

    private static let insert = Statement(
        "bench_insert",
        """
        insert into bare (body)
        values ($1)
        """)
}
