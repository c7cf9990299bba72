import Logging
import Postgres
import Subscriptions

/// Takes events from many requests and commits them together.
///
/// While one batch is being committed the next one gathers, so the size of batches follows the load by itself and a
/// lone event waits for nobody. What waits is bounded in number and bytes.
package actor Appender {
    private let writer: EventLogWriter
    private let queueEventsMax: Int
    private let logger: Logger
    private let durability: DurabilityWatch?
    private let metrics = AppendMetrics()
    private var streamIds: [StreamKey: Int32] = [:]
    private var queue: [Waiting] = []
    private var queueBytes = 0
    private var wakeWriter: CheckedContinuation<Void, Never>?
    private var isStopping = false

    private struct Waiting {
        let entry: EventLogWriter.Entry
        let enqueuedAt: ContinuousClock.Instant
        let continuation: CheckedContinuation<Result<Appended, AppendError>, Never>
    }

    /// - Parameter durability: Refuses events while the database is unsafe; nil if nobody looks.
    package init(
        pool: PostgresPool, queueEventsMax: Int = Limits.queueEventsMax, durability: DurabilityWatch? = nil,
        logger: Logger
    ) {
        self.writer = EventLogWriter(pool: pool)
        self.durability = durability
        self.queueEventsMax = queueEventsMax
        self.logger = logger
    }

    /// How many events wait for the next commit.
    package var queuedEvents: Int { queue.count }

    /// Appends a proven event and returns its place, or the place that it already has.
    ///
    /// Durable when this returns. Safe to repeat: the dedupe key is unique in its stream, so a retry finds the
    /// first row and writes nothing. Not cancellable, because a commit on its way cannot be called back.
    ///
    /// - Parameter receivedAt: Our clock.
    package nonisolated func append(
        _ proven: some ProvenEvent, receivedAt: Instant
    ) async throws(AppendError) -> Appended {
        // Here, where the request waits, and not where the others wait in line.
        try await append(EventLogWriter.Entry(proven, receivedAt: receivedAt))
    }

    /// Appends what was made ready before; otherwise as ``append(_:receivedAt:)``.
    package func append(_ entry: EventLogWriter.Entry) async throws(AppendError) -> Appended {
        guard !isStopping, durability?.condition ?? .safe == .safe else { throw .unavailable }
        guard queue.count < queueEventsMax, queueBytes + entry.bodyBytes <= Limits.queueBytesMax else {
            throw .queueFull
        }
        let result = await withCheckedContinuation { continuation in
            queue.append(Waiting(entry: entry, enqueuedAt: .now, continuation: continuation))
            queueBytes += entry.bodyBytes
            metrics.queue.record(queue.count)
            wakeWriter?.resume()
            wakeWriter = nil
        }
        return try result.get()
    }

    /// Commits batches until `stop()`; then what is still queued, and returns.
    package func run() async {
        while true {
            if queue.isEmpty {
                if isStopping { return }
                await withCheckedContinuation { wakeWriter = $0 }
                continue
            }
            await commit(takeBatch())
        }
    }

    /// Lets `run()` end once the queue is empty. Events that come later are not taken.
    package func stop() {
        isStopping = true
        wakeWriter?.resume()
        wakeWriter = nil
    }

    private func takeBatch() -> [Waiting] {
        var count = 0
        var bytes = 0
        for waiting in queue {
            guard count < Limits.batchEventsMax, count == 0 || bytes + waiting.entry.bodyBytes <= Limits.batchBytesMax
            else { break }
            count += 1
            bytes += waiting.entry.bodyBytes
        }
        let batch = Array(queue.prefix(count))
        queue.removeFirst(count)
        queueBytes -= bytes
        metrics.queue.record(queue.count)
        return batch
    }

    private func commit(_ batch: [Waiting]) async {
        let oldest = ContinuousClock.now - Limits.queueWaitMax
        for late in batch where late.enqueuedAt < oldest {
            late.continuation.resume(returning: .failure(.unavailable))
        }
        let inTime = batch.filter { $0.enqueuedAt >= oldest }
        guard !inTime.isEmpty else { return }
        do throws(AppendError) {
            let places = try await append(inTime.map(\.entry))
            for (waiting, place) in zip(inTime, places) {
                waiting.continuation.resume(returning: .success(place))
            }
        } catch {
            // One event that the database refuses must not take the others with it.
            if case .refused = error, inTime.count > 1 {
                for waiting in inTime { await commit([waiting]) }
                return
            }
            for waiting in inTime { waiting.continuation.resume(returning: .failure(error)) }
        }
    }

    private func append(_ entries: [EventLogWriter.Entry]) async throws(AppendError) -> [Appended] {
        let start = ContinuousClock.now
        let deadline = start + Limits.commitWaitMax
        defer { metrics.time.record(duration: ContinuousClock.now - start) }
        do throws(PostgresError) {
            var ids: [Int32] = []
            for entry in entries {
                if let known = streamIds[entry.stream] {
                    ids.append(known)
                } else {
                    let id = try await writer.streamId(of: entry.stream, deadline: deadline)
                    streamIds[entry.stream] = id
                    ids.append(id)
                }
            }
            let places = try await writer.append(entries, streamIds: ids, deadline: deadline)
            metrics.batches.increment()
            metrics.batchEvents.increment(by: entries.count)
            return places
        } catch {
            // After a failover the streams may have other ids.
            streamIds.removeAll()
            logger.warning(
                "batch was not stored",
                metadata: [
                    "batch.events": "\(entries.count)", "db.error": "\(error.label)",
                    "db.sqlstate": "\(error.sqlstate ?? "none")", "db.statement": "\(error.statement ?? "none")",
                ])
            throw AppendError(error)
        }
    }
}
