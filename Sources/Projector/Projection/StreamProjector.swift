import Encoding
import EventLog
import Postgres
import Subscriptions

/// Folds the events of one stream into its projections, one batch a transaction, in the order of positions.
struct StreamProjector: Sendable {
    /// Should lend as many as ``connectionsMax`` at the same time.
    let pool: PostgresPool
    let streamId: Int32
    var tables = ProjectionTables.live
    /// Decides what is published; no row depends on it.
    let now: @Sendable () -> Instant
    /// Of all streams that are folded in this process, into the same tables.
    let refolds: RefoldHistory

    /// One writes, one loads subscriptions, one reads events.
    static let connectionsMax = 3

    enum Progress: Sendable, Hashable {
        /// Up to this position; there may be more.
        case folded(Int64)
        /// Nothing after the checkpoint.
        ///
        /// - Parameter untilNextOnClock: How long until the next period boundary is due; nil for never.
        case caughtUp(untilNextOnClock: Duration?)
        /// Another projector leads this stream at the moment, or has just folded some of it.
        case ledElsewhere
    }

    /// Folds the next batches. Rows and checkpoint of each are committed together or not at all, and the batch after
    /// a crash begins where the last one ended.
    ///
    /// Due period boundaries are published first, so they are even where an event cannot be folded.
    ///
    /// - Throws: ``ProjectionError/unfoldable(position:problem:)`` when the next event cannot be folded. Nothing is
    ///   skipped: those before it are committed by the call before. ``ProjectionError/repeatedRefold`` when all rows
    ///   would be written again for the reason for which they were written last.
    /// - Parameter end: No batch but the first is begun after it.
    func fold(
        batchesMax: Int, until end: ContinuousClock.Instant? = nil
    ) async throws(ProjectionError) -> Progress {
        let writer = self.writer
        let checkpoint = try await writer.checkpoint().get()
        var untilNext: Duration?
        if tables == .live {
            guard case .caughtUp(let next) = try await publishDueBoundaries() else { return .ledElsewhere }
            untilNext = next
        }
        let products = ProductCatalog(configured: checkpoint.configured.text)
        if checkpoint.isOutOfDate {
            guard refolds.allow(streamId, checkpoint) else { throw .repeatedRefold }
            let progress = try await writer.refoldAll(products, after: checkpoint).get()
            if case .folded = progress { refolds.note(streamId, checkpoint) }
            return progress
        }
        let reader = BatchReader(pool: pool, streamId: streamId, products: products, tables: tables)
        let first = try await reader.page(
            after: checkpoint.position,
            eventsMax: batchesMax == 1 ? Limits.batchEventsMax : Limits.firstBatchEventsMax
        ).get()
        guard !first.events.isEmpty else {
            if let failure = first.failure { throw failure }
            return .caughtUp(untilNextOnClock: untilNext)
        }
        var pipeline = BatchPipeline(
            reader: reader, writer: writer, from: first, after: checkpoint, batchesMax: batchesMax, end: end)
        return try await pipeline.run().get()
    }

    /// Publishes the periods that have begun or ended by now.
    private func publishDueBoundaries() async throws(ProjectionError) -> Progress {
        while true {
            let next = try await writer.untilNextOnClock().get()
            guard let next, next <= .zero, !Task.isCancelled else { return .caughtUp(untilNextOnClock: next) }
            guard try await writer.publishDueBoundaries().get() else { return .ledElsewhere }
        }
    }

    private var writer: BatchWriter { BatchWriter(pool: pool, streamId: streamId, tables: tables, now: now) }
}

/// How far a stream is folded, and with what.
struct Checkpoint: Sendable, Hashable {
    /// This release's. Another number in every release in which equal facts give other rows.
    static let projectionVersion: Int32 = 3

    var position: Int64 = 0
    /// The configured text that the rows were folded with, byte for byte as ``configured`` was then.
    var products = ByteString("")
    /// Of the fold that wrote the rows.
    var projectionVersion = projectionVersion
    /// What view `product_catalog` gives now.
    var configured = ByteString("")
    /// Of the row: whoever writes it gives it another, even if it stays the same. Empty for none.
    var version = ""
    /// How many events an operator has had the projector pass over: those read before are no longer what is to be
    /// folded when there is another.
    var skips: Int64 = 0

    /// There are rows, and they are to be written anew before anything else.
    var isOutOfDate: Bool { position > 0 && (products != configured || projectionVersion != Self.projectionVersion) }
}

package enum ProjectionError: Error, CustomStringConvertible {
    case database(PostgresError)
    /// The fold stops at this event until somebody has looked.
    case unfoldable(position: Int64, problem: String)
    /// The rows are out of date for the reason for which this process has just written all of them.
    case repeatedRefold

    init(_ event: UnfoldableEvent) {
        self = .unfoldable(position: event.position, problem: event.problem)
    }

    package var description: String {
        switch self {
        case .database(let error): error.description
        case .unfoldable(let position, let problem): UnfoldableEvent(position: position, problem: problem).description
        case .repeatedRefold:
            "all rows were written again, and are out of date again for the same reason: another release may be running"
        }
    }
}

/// What went wrong with rows is distinguished from what went wrong with the connection that they came from.
typealias ProjectionOutcome<Value> = Result<Value, ProjectionError>
