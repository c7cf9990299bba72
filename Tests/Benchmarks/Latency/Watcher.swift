import Foundation
import Postgres

/// Watches the checkpoint of the only stream.
struct Watcher {
    let connection: PostgresConnection

    /// Polls until the checkpoint reaches the position.
    ///
    /// - Parameter last: The last position.
    func watch(until last: Int64) async throws -> Sightings {
        var sightings = Sightings()
        var position: Int64 = 0
        let deadline = ContinuousClock.now + .seconds(3700)
        while position < last, ContinuousClock.now < deadline {
            let rows = try await connection.query(Statements.checkpoint, deadline: .now + .seconds(10))
            let time = Date().timeIntervalSince1970
            let found = try rows.first?.value(Int64.self, at: 0) ?? 0
            if found > position {
                position = found
                sightings.all.append((position, time))
            }
            try await Task.sleep(for: .milliseconds(1))
        }
        return sightings
    }

    enum Statements {
        static let checkpoint = Statement(
            "latency_checkpoint",
            """
            select position
            from subledger.checkpoint
            where stream_id = 1
            """)
        static let received = Statement(
            "latency_received",
            """
            select position, (extract(epoch from received_at) * 1000)::bigint
            from subledger.event
            where stream_id = 1
            order by position
            """)
    }
}

/// The positions of the checkpoint and when each was first seen, ascending.
struct Sightings: Sendable {
    var all: [(position: Int64, time: TimeInterval)] = []

    /// The latency of each event, in milliseconds.
    func latencies(on connection: PostgresConnection) async throws -> [Double] {
        let rows = try await connection.query(Watcher.Statements.received, deadline: .now + .seconds(60))
        var latencies: [Double] = []
        var next = 0
        for row in rows {
            let position: Int64 = try row.value(at: 0)
            while next < all.count, all[next].position < position { next += 1 }
            guard next < all.count else { break }
            latencies.append(all[next].time * 1000 - Double(try row.value(Int64.self, at: 1)))
        }
        return latencies
    }
}
