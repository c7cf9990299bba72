import Foundation
import Postgres
import Simulation
import TestSupport

/// Compares the rate on a log of many rows with the rate on an empty one.
struct LongLog {
    let workload: Workload
    let settings: RunSettings
    let rows: Int
    let runs: Int

    func measure(_ samples: inout Samples) async throws {
        let long = try await SharedDatabase.make()
        let start = ContinuousClock.now
        progress("filling a log with \(rows) rows")
        try await fill(long)
        progress("filled in \((ContinuousClock.now - start).components.seconds) s")
        var sent = 0
        for round in 1...runs {
            progress("long log, run \(round) of \(runs)")
            let first = sent
            let empty = try await MeasuredServer.with(settings) { try await send(to: $0, from: first) }
            samples.add("rows.empty.rate", empty.perSecond)
            let outcome = try await MeasuredServer.with(settings, database: long) {
                try await send(to: $0, from: first)
            }
            samples.add("rows.long.rate", outcome.perSecond)
            sent += outcome.events + settings.connections
        }
        try await long.drop()
    }

    /// Sends requests that were not sent before, from the given number on.
    private func send(to server: MeasuredServer, from first: Int) async throws -> (events: Int, perSecond: Double) {
        let before = try await server.headPosition()
        let outcome = try Wrk(settings: settings, requests: workload.requests).run(port: server.port, from: first)
        return (try await server.settledPosition() - before, outcome.perSecond)
    }

    /// Fills the log by COPY, with random keys like real ones. The indexes are created afterwards; otherwise each row
    /// would write a page of each index.
    private func fill(_ database: SharedDatabase) async throws {
        try await database.script(
            """
            insert into subledger.stream (stream_id, app, environment) values (1, '\(V1Body.app)', 'production');
            insert into subledger.stream_head (stream_id, position, chain) values (1, \(rows), sha256(''));
            alter table subledger.event drop constraint event_pkey;
            drop index subledger.event_dedupe_key_key;
            drop index subledger.event_received_at_idx;
            """)
        try copy(into: database)
        let connection = try await TestCluster.connect(database.configuration)
        for step in [
            """
            alter table subledger.event
              add constraint event_pkey primary key (stream_id, position)
            """,
            """
            create unique index event_dedupe_key_key on subledger.event (
              stream_id, dedupe_key, (case when source = 'apple-v1' then position else 0 end)
            )
            """,
            "create index event_received_at_idx on subledger.event (stream_id, received_at)",
            "vacuum analyze subledger.event", "checkpoint",
        ] {
            try await connection.script(step, deadline: .now + .seconds(1800))
        }
        await connection.close()
    }

    private func copy(into database: SharedDatabase) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: try Tool.findBesidePostgres("psql"))
        process.arguments = [
            "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", database.socketFolder, "-U", "subledger", "-d", database.name,
            "-c",
            """
            copy subledger.event (
              stream_id, position, received_at, source, kind, dedupe_key, facts, body_sha256, chain
            )
            from stdin
            """,
        ]
        let input = Pipe()
        process.standardInput = input
        try process.run()
        var random = SplitMix64(seed: 1, 1)
        var text: [UInt8] = []
        for position in 1...rows {
            text += "1\t\(position)\t".utf8
            text += "2026-01-01 00:00:00+00\tapple-v1\trenewal\t\\\\x".utf8
            for _ in 0..<4 { Self.append(hexadecimal: random.next(), to: &text) }
            text += "\t{\"renewals\": [], \"transactions\": []}\t\\\\x".utf8
            for _ in 0..<4 { Self.append(hexadecimal: random.next(), to: &text) }
            text += "\t\\\\x".utf8
            for _ in 0..<4 { Self.append(hexadecimal: random.next(), to: &text) }
            text.append(UInt8(ascii: "\n"))
            if text.count > 1 << 20 || position == rows {
                try input.fileHandleForWriting.write(contentsOf: Data(text))
                text.removeAll(keepingCapacity: true)
            }
        }
        try input.fileHandleForWriting.close()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw BenchError("psql could not fill the log") }
    }

    private static func append(hexadecimal value: UInt64, to text: inout [UInt8]) {
        for shift in stride(from: 60, through: 0, by: -4) {
            let digit = UInt8(truncatingIfNeeded: value >> UInt64(shift)) & 15
            text.append(digit < 10 ? 48 + digit : 87 + digit)
        }
    }
}
