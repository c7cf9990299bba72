import Foundation
import Postgres
import TestSupport

/// Ten times the sustainable rate for ten seconds. Each notification answered 200 must be in the log at the answered
/// position, every request must be answered in time, and memory must stay flat.
struct Burst {
    let workload: Workload
    let settings: RunSettings

    private static let times = 10.0
    private static let seconds = 10.0
    /// Several times the server's limit. The other connections wait in the kernel's backlog, which is as long as this.
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
        let accepted = answers.filter { $0.status == 200 }
        samples.add("burst.due", sustained * Self.times * Self.seconds)
        samples.add("burst.sent", Double(answers.count))
        samples.add("burst.taken", Double(accepted.count))
        samples.add("burst.refused", Double(answers.count { $0.status == 503 }))
        samples.add("burst.unanswered", Double(answers.count { $0.status != 200 && $0.status != 503 }))
        samples.add("burst.lost", Double(try await lost(accepted, server)))
        samples.add("burst.slowest", answers.map(\.millisecondsSinceSent).max() ?? 0)
        samples.add("burst.p99", answers.map(\.millisecondsSinceSent).percentile(0.99))
        samples.add("burst.memory", Double(try ProcessMemory.residentMax(server.process.pid)))
    }

    /// The sustainable rate, if the section that measures it was not run.
    private func calibrate(_ server: MeasuredServer) throws -> Double {
        try Wrk(settings: settings, requests: workload.requests).run(port: server.port).perSecond
    }

    /// The number of notifications that were answered 200 and are not at the answered position. Compared by the
    /// deduplication key, because the stored body lacks its secret.
    private func lost(_ accepted: [OpenLoop.Answer], _ server: MeasuredServer) async throws -> Int {
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
        for answer in accepted {
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
