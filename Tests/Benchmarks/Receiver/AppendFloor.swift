import Encoding
import EventLog
import Foundation
import Logging
import Postgres
import Subscriptions
import TestSupport

/// The floor of appends: the rows of the same bodies, inserted by the log's own statement on one connection.
struct AppendFloor {
    let workload: Workload

    /// About the batch of one commit with 64 connections: while one half is committed, the other half queues.
    private static let batchEvents = 32

    func measure(_ samples: inout Samples) async throws {
        // By stream, so that a batch is a single transaction in a distributed database too.
        let entries = try await entries().sorted { $0.stream.app < $1.stream.app }
        var configuration = try await TestCluster.freshDatabase().with(role: "subledger_receiver")
        // The receiver's session settings.
        configuration.sessionSettings.merge(EventLogWriter.planSettings) { $1 }
        if CitusCluster.isWanted { configuration.sessionSettings["plan_cache_mode"] = "force_custom_plan" }
        let quiet = Logger(label: "bench", factory: { _ in SwiftLogNoOpLogHandler() })
        let pool = PostgresPool(configuration, limit: 1, logger: quiet)
        let writer = EventLogWriter(pool: pool)
        let deadline = ContinuousClock.now + .seconds(60)
        var ids: [StreamKey: Int32] = [:]
        for stream in Set(entries.map(\.stream)) {
            ids[stream] = try await writer.streamId(of: stream, deadline: deadline)
        }
        let before = try await ProcessorTime.now()
        let start = ContinuousClock.now
        for first in stride(from: 0, to: entries.count, by: Self.batchEvents) {
            let batch = Array(entries[first..<min(first + Self.batchEvents, entries.count)])
            let places = await writer.append(
                batch, streamIds: batch.compactMap { ids[$0.stream] }, deadline: deadline)
            guard try places.allSatisfy({ try $0.get()?.isNew == true }) else {
                throw BenchError("a row already existed")
            }
        }
        let seconds = (ContinuousClock.now - start).inSeconds
        let used = try await ProcessorTime.now() - before
        await pool.close()
        let name = "\(workload.format.rawValue).append"
        let count = Double(entries.count)
        samples.add("\(name).rate", count / seconds)
        samples.add("\(name).server", used.own * 1e6 / count)
        samples.add("\(name).database", used.database * 1e6 / count)
    }

    private func entries() async throws -> [PreparedEvent] {
        let verifier = try workload.verifier
        var entries: [PreparedEvent] = []
        for body in workload.sample {
            let notification = try await verifier.verify(body, receivedAt: .now)
            entries.append(PreparedEvent(notification, receivedAt: .now))
        }
        return entries
    }
}

extension Instant {
    static var now: Instant { Instant(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) ?? .latest }
}
