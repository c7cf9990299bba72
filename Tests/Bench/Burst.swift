import Foundation
import Postgres
import TestSupport

/// Ten times as many as can be taken, for ten seconds: what was answered 200 must be in the log under the position that
/// was answered, everybody must be answered in time, and memory must stay flat.
struct Burst {
    let workload: Workload
    let settings: RunSettings

    private static let times = 10.0
    private static let seconds = 10.0
    /// Several times what the server accepts; the others wait in the kernel's line, which is as long as this.
    private static let connections = 4000

    func measure(_ samples: inout Samples) async throws {
        progress("burst")
        var found = samples
        try await MeasuredServer.with(settings) { try await measure($0, &found) }
        samples = found
    }

    private func measure(_ server: MeasuredServer, _ samples: inout Samples) async throws {
        let sustained = try samples.median("\(workload.format.rawValue).rate") ?? calibrate(server)
        let sender = OpenLoop(requests: workload.requests, connections: Self.connections)
        let answers = try sender.run(port: server.port, rate: sustained * Self.times, seconds: Self.seconds)
        let taken = answers.filter { $0.status == 200 }
        samples.add("burst.due", sustained * Self.times * Self.seconds)
        samples.add("burst.sent", Double(answers.count))
        samples.add("burst.taken", Double(taken.count))
        samples.add("burst.refused", Double(answers.count { $0.status == 503 }))
        samples.add("burst.unanswered", Double(answers.count { $0.status != 200 && $0.status != 503 }))
        samples.add("burst.lost", Double(try await lost(taken, server)))
        samples.add("burst.slowest", answers.map(\.millisecondsSinceSent).max() ?? 0)
        samples.add("burst.p99", answers.map(\.millisecondsSinceSent).percentile(0.99))
        samples.add("burst.memory", Double(try ProcessMemory.residentMax(server.process.pid)))
    }

    /// What it takes in the sections that were left out.
    private func calibrate(_ server: MeasuredServer) throws -> Double {
        try Wrk(settings: settings, requests: workload.requests).run(port: server.port).perSecond
    }

    /// How many were answered 200 and are not where they were said to be. Compared by what the store calls them, since
    /// the body that is kept lacks its secret.
    private func lost(_ taken: [OpenLoop.Answer], _ server: MeasuredServer) async throws -> Int {
        let connection = try await TestCluster.connect(server.database.configuration)
        defer { Task { await connection.close() } }
        var stored: [Int64: [UInt8]] = [:]
        for row in try await connection.query(Self.keys, deadline: .now + .seconds(120)) {
            stored[try row.value(at: 0)] = try row.value(at: 1)
        }
        let verifier = try workload.verifier
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: workload.requests.path))
        defer { try? file.close() }
        var keys: [Int: [UInt8]] = [:]
        var lost = 0
        for answer in taken {
            if keys[answer.request] == nil {
                let range = workload.requests.ranges[answer.request]
                try file.seek(toOffset: UInt64(range.lowerBound))
                let request = Array(try file.read(upToCount: range.count) ?? Data())
                let body = Array(request.dropFirst(RequestFile.headBytes(request)))
                keys[answer.request] = try await verifier.verify(body, receivedAt: .now).event.dedupeKey.bytes
            }
            guard let position = answer.position, let key = stored[position] else {
                lost += 1
                continue
            }
            if key != keys[answer.request] { lost += 1 }
        }
        return lost
    }

    private static let keys = Statement(
        "bench_keys",
        """
        select position, dedupe_key
        from subledger.event
        where stream_id = 1
        """)
}
