import Encoding
import Logging
import Postgres
import Subscriptions

/// Takes events from many requests and commits them together.
///
/// While one batch is being committed the next one gathers, so the size of batches follows the load by itself and a
/// lone event does not wait. What waits is bounded in number and bytes.
package actor Appender {
    private let writer: EventLogWriter
    private let queueEventsMax: Int
    private let logger: Logger
    private let durability: DurabilityWatch?
    private let metrics = AppendMetrics()
    private let notifier: StreamNotifier
    private var streamIds: [StreamKey: Int32] = [:]
    /// The last look-up of an id that was begun; each waits for the one before.
    private var lookUp: Task<Result<Int32, PostgresError>, Never>?
    private var failures = AppendFailures()
    private var queue: [Waiting] = []
    private var queueBytes = 0
    private var wakeWriter: CheckedContinuation<Void, Never>?
    private var isStopping = false

    private struct Waiting {
        let event: PreparedEvent
        let streamId: Int32
        let enqueuedAt: ContinuousClock.Instant
        let continuation: CheckedContinuation<Result<Appended, AppendError>, Never>
    }

    /// - Parameter durability: Refuses events while the database is unsafe; nil if it is not watched.
    package init(
        pool: PostgresPool, queueEventsMax: Int = Limits.queueEventsMax, durability: DurabilityWatch? = nil,
        logger: Logger
    ) {
        self.writer = EventLogWriter(pool: pool)
        self.durability = durability
        self.notifier = StreamNotifier(pool: pool, channel: "subledger_event", logger: logger)
        self.queueEventsMax = queueEventsMax
        self.logger = logger
    }

    /// How many events wait for the next commit.
    package var queuedEvents: Int { queue.count }

    /// Whether events can be stored, as far as the latest batches show.
    package var condition: AppendCondition { failures.condition(at: .now) }

    /// Appends a prepared event and returns its place, or the place that it already has.
    ///
    /// Durable when this returns. Safe to repeat: the dedupe key is unique in its stream, so a retry finds the
    /// first row and writes nothing. Not cancellable, because a commit on its way cannot be called back.
    package func append(_ event: PreparedEvent) async throws(AppendError) -> Appended {
        try checkRoom(for: event)
        let streamId = try await streamId(of: event.stream)
        // While it was looked up the queue may have filled.
        try checkRoom(for: event)
        let result = await withCheckedContinuation { continuation in
            enqueue(Waiting(event: event, streamId: streamId, enqueuedAt: .now, continuation: continuation))
        }
        return try result.get()
    }

    private func checkRoom(for event: PreparedEvent) throws(AppendError) {
        guard !isStopping, durability?.condition ?? .safe == .safe else { throw .unavailable }
        guard queue.count < queueEventsMax, queueBytes + event.bodyBytes <= Limits.queueBytesMax else {
            throw .queueFull
        }
    }

    private func enqueue(_ waiting: Waiting) {
        queue.append(waiting)
        queueBytes += waiting.event.bodyBytes
        metrics.queue.record(queue.count)
        wakeWriter?.resume()
        wakeWriter = nil
    }

    /// The id of a stream, made if there is none yet.
    ///
    /// Outside of the writer's turn, so that batches of other streams go on meanwhile; and one at a time, so that
    /// look-ups never take all connections.
    private func streamId(of stream: StreamKey) async throws(AppendError) -> Int32 {
        if let known = streamIds[stream] { return known }
        let start = ContinuousClock.now
        let previous = lookUp
        let next = Task {
            _ = await previous?.value
            return await lookUpId(of: stream, deadline: start + Limits.commitWaitMax)
        }
        lookUp = next
        switch await next.value {
        case .success(let id): return id
        case .failure(let error): throw note(error, "stream could not be looked up", startedAt: start)
        }
    }

    private func lookUpId(
        of stream: StreamKey, deadline: ContinuousClock.Instant
    ) async -> Result<Int32, PostgresError> {
        // An earlier look-up may have found it.
        if let known = streamIds[stream] { return .success(known) }
        do throws(PostgresError) {
            let id = try await writer.streamId(of: stream, deadline: deadline)
            streamIds[stream] = id
            return .success(id)
        } catch {
            return .failure(error)
        }
    }

    /// Puts an event whose stream has another id than it had before, as after a failover, back into the queue.
    private func enqueueAgain(_ waiting: Waiting) async {
        do throws(AppendError) {
            let streamId = try await streamId(of: waiting.event.stream)
            guard !isStopping else { throw .unavailable }
            enqueue(
                Waiting(
                    event: waiting.event, streamId: streamId, enqueuedAt: waiting.enqueuedAt,
                    continuation: waiting.continuation))
        } catch {
            waiting.continuation.resume(returning: .failure(error))
        }
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
        var admission = AppendBatch.Admission()
        for waiting in queue {
            guard count < Limits.batchEventsMax, count == 0 || bytes + waiting.event.bodyBytes <= Limits.batchBytesMax,
                admission.admit(waiting.event)
            else { break }
            count += 1
            bytes += waiting.event.bodyBytes
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
        let outcomes = await append(inTime)
        if outcomes.contains(.success(nil)) { streamIds.removeAll() }
        var refused: [Waiting] = []
        for (waiting, outcome) in zip(inTime, outcomes) {
            switch outcome {
            case .success(let place?): waiting.continuation.resume(returning: .success(place))
            case .success(nil): Task { await enqueueAgain(waiting) }
            case .failure(.refused) where inTime.count > 1: refused.append(waiting)
            case .failure(let error): waiting.continuation.resume(returning: .failure(error))
            }
        }
        // One event that the database refuses must not take the others with it.
        for waiting in refused { await commit([waiting]) }
    }

    private func append(_ batch: [Waiting]) async -> [Result<Appended?, AppendError>] {
        let start = ContinuousClock.now
        defer { metrics.time.record(duration: ContinuousClock.now - start) }
        let outcomes = await writer.append(
            batch.map(\.event), streamIds: batch.map(\.streamId), deadline: start + Limits.commitWaitMax)
        var succeeded = 0
        var changed: Set<Int32> = []
        var errors: [PostgresError] = []
        for (waiting, outcome) in zip(batch, outcomes) {
            switch outcome {
            case .success(let place):
                succeeded += 1
                if place?.isNew == true {
                    changed.insert(waiting.streamId)
                    metrics.unknownValues.note(waiting.event.event.defects)
                }
            case .failure(let error): errors.append(error)
            }
        }
        if let error = errors.first {
            _ = note(error, "batch was not stored", startedAt: start, ["batch.events": "\(errors.count)"])
        }
        if succeeded > 0 {
            // Also if other streams failed, whose node is away: a server that stores some notifications must receive them.
            failures.noteSuccess()
            metrics.batches.increment()
            metrics.batchEvents.increment(by: succeeded)
            await notifier.notify(changed)
        }
        return outcomes.map { $0.mapError { AppendError($0) } }
    }

    private func note(
        _ error: PostgresError, _ message: Logger.Message, startedAt: ContinuousClock.Instant,
        _ metadata: Logger.Metadata = [:]
    ) -> AppendError {
        let result = AppendError(error)
        failures.note(result, startedAt: startedAt, at: .now)
        logger.warning(
            message,
            metadata: metadata.merging([
                "db.error": "\(error.label)", "db.sqlstate": "\(error.sqlstate ?? "none")",
                "db.statement": "\(error.statement ?? "none")",
            ]) { $1 })
        return result
    }
}
