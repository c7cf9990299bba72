import Encoding
import Logging
import Metrics
import Postgres

/// Finds streams that do not advance although events wait, for any reason. It reads the database independently of the
/// projector, since the projector itself may hang.
actor StallWatch {
    private struct WaitingStream {
        let app: String
        let environment: String
        let position: Int64
        let first: ContinuousClock.Instant
        let since: Instant
        /// The reported cause; nil until the stream is reported.
        var reported: StallCause?
    }

    private let pool: PostgresPool
    private let logger: Logger
    private let now: @Sendable () -> Instant
    private let stallAfter: Duration
    private let metrics = StallMetrics()
    /// The streams that waited at the last check, with their positions.
    private var waitingStreams: [Int32: WaitingStream] = [:]
    /// The result of the last attempt to fold each stream, if it failed: the cause and the text of the error.
    private var attempts: [Int32: (cause: StallCause, failure: String)] = [:]
    /// Since when and why the log cannot be read.
    private var unreadable: (first: ContinuousClock.Instant, since: Instant, cause: StallCause, isReported: Bool)?

    init(
        pool: PostgresPool, stallAfter: Duration, now: @escaping @Sendable () -> Instant, logger: Logger
    ) {
        self.pool = pool
        self.stallAfter = stallAfter
        self.now = now
        self.logger = logger
    }

    /// All streams that are stalled as of the last check.
    var stalled: [StalledStream] {
        let streams = waitingStreams.sorted { $0.key < $1.key }.compactMap { _, stream in
            stream.reported.map {
                StalledStream(app: stream.app, environment: stream.environment, cause: $0, since: stream.since)
            }
        }
        guard let unreadable, unreadable.isReported else { return streams }
        return streams + [StalledStream(app: nil, environment: nil, cause: unreadable.cause, since: unreadable.since)]
    }

    /// Notes that an attempt to fold a stream failed.
    ///
    /// - Returns: True if the previous attempt did not fail in the same way, so that the failure should be logged.
    func note(_ streamId: Int32, failed error: ProjectionError) -> Bool {
        let isNews = attempts[streamId]?.failure != error.description
        attempts[streamId] = (StallCause(error), error.description)
        return isNews
    }

    func noteSuccess(_ streamId: Int32) {
        attempts[streamId] = nil
    }

    /// Keeps a failure that this process has met itself, since it says more.
    func noteLedElsewhere(_ streamId: Int32) {
        if attempts[streamId]?.cause.isSecondHand != false { attempts[streamId] = (.leader, "") }
    }

    /// Checks at regular intervals until its task is cancelled.
    func run() async {
        while !Task.isCancelled {
            await look()
            try? await Task.sleep(for: stallAfter / Limits.stallLooks)
        }
    }

    private func look() async {
        do throws(PostgresError) {
            let rows = try await pool.query(
                StallStatements.waiting, [Parameter(Checkpoint.projectionVersion)], deadline: .now + Limits.readWaitMax)
            try take(rows)
            if unreadable?.isReported == true { logger.notice("projector reads the log again") }
            unreadable = nil
        } catch {
            if Task.isCancelled { return }
            noteUnreadable(StallCause(error))
        }
        for id in waitingStreams.keys.sorted() { await report(id) }
        await clear()
        metrics.record(stalled)
    }

    /// Keeps the streams that are still at the same position, and logs reported ones that have advanced.
    private func take(_ rows: RowSet) throws(PostgresError) {
        var waiting: [Int32: WaitingStream] = [:]
        for row in rows {
            let id: Int32 = try row.value(at: 0)
            let found = WaitingStream(
                app: try row.value(at: 1), environment: try row.value(at: 2), position: try row.value(at: 3),
                first: .now, since: try row.value(at: 4))
            waiting[id] = waitingStreams[id].flatMap { $0.position == found.position ? $0 : nil } ?? found
        }
        for (id, old) in waitingStreams where waiting[id]?.position != old.position {
            if waiting[id] == nil { attempts[id] = nil }
            if old.reported != nil { logger.notice("projector resumed", metadata: metadata(old)) }
        }
        waitingStreams = waiting
    }

    private func noteUnreadable(_ cause: StallCause) {
        let first = unreadable?.first ?? .now
        let isReported = unreadable?.isReported == true
        let isNow = ContinuousClock.now - first >= stallAfter
        unreadable = (first, unreadable?.since ?? now(), cause, isNow)
        guard isNow, !isReported else { return }
        metrics.count(cause)
        logger.error("projector stalled", metadata: ["cause": "\(cause.rawValue)"])
    }

    /// Reports a stream that has waited for too long: once, and again if a more informative cause is found.
    private func report(_ id: Int32) async {
        guard var stream = waitingStreams[id], ContinuousClock.now - stream.first >= stallAfter else { return }
        let cause = attempts[id]?.cause ?? unreadable?.cause ?? .busy
        if let reported = stream.reported, !cause.saysMore(than: reported) { return }
        stream.reported = cause
        waitingStreams[id] = stream
        metrics.count(cause)
        var metadata = metadata(stream)
        metadata["cause"] = "\(cause.rawValue)"
        metadata["since"] = "\(stream.since)"
        logger.error("projector stalled", metadata: metadata)
        // For `projector status`. If this write fails, the log and the metrics still report the stall.
        _ = try? await pool.query(
            StallStatements.record,
            [
                Parameter(id), Parameter(stream.position), Parameter(cause.rawValue), Parameter(stream.since),
                Parameter(cause.isSecondHand),
            ], deadline: .now + Limits.readWaitMax)
    }

    private func clear() async {
        guard unreadable == nil else { return }
        let ids = waitingStreams.keys.sorted()
        _ = try? await pool.query(
            StallStatements.clear, [.array(ids), .array(ids.compactMap { waitingStreams[$0]?.position })],
            deadline: .now + Limits.readWaitMax)
    }

    private func metadata(_ stream: WaitingStream) -> Logger.Metadata {
        [
            "stream.app": "\(stream.app)", "stream.environment": "\(stream.environment)",
            "checkpoint.position": "\(stream.position)",
        ]
    }
}

/// Metrics of stalled streams. Created at start, so that each is exported from then on.
private struct StallMetrics: Sendable {
    private let stalled = StallCause.allCases.map { cause in
        (cause, Gauge(label: "subledger_projector_stalled_streams", dimensions: [("cause", cause.rawValue)]))
    }
    private let stalls = StallCause.allCases.map { cause in
        (cause, Counter(label: "subledger_projector_stalls_total", dimensions: [("cause", cause.rawValue)]))
    }

    func record(_ streams: [StalledStream]) {
        for (cause, gauge) in stalled { gauge.record(streams.count { $0.cause == cause }) }
    }

    func count(_ cause: StallCause) {
        for (other, counter) in stalls where other == cause { counter.increment() }
    }
}
