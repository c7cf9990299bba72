import Encoding
import EventLog
import Postgres
import Subscriptions

/// Folds the events of one stream into its projections, one batch per transaction, in order of position.
struct StreamProjector: Sendable {
    /// Should lend ``connectionsMax`` connections at the same time.
    let pool: PostgresPool
    let streamId: Int32
    var tables = ProjectionTables.live
    /// Decides when boundaries are published; no row of the projection depends on it.
    let now: @Sendable () -> Instant
    /// The refolds of all streams that this process folds into the same tables.
    let refolds: RefoldHistory
    /// Called with the number of account tokens that are shared by too many store accounts from now on, after each
    /// commit that found some.
    var onSharedTokens: @Sendable (Int) -> Void = { _ in }
    /// Called with the number of customers who lost a seat, since there are fewer seats than claims, after each commit that
    /// found some.
    var onLostSeats: @Sendable (Int) -> Void = { _ in }
    /// Called with what events say about customers besides their facts, after the commit of each batch that has some.
    var onNotices: @Sendable ([CustomerNotice]) -> Void = { _ in }
    /// Called with the products whose purchases need what their configuration does not say, after the commit of each batch
    /// with such purchases.
    var onGaps: @Sendable (Set<ProductGap>) async -> Void = { _ in }

    /// Called before all rows are computed again from their facts.
    var onRefold: @Sendable (Checkpoint) -> Void = { _ in }

    /// One connection writes, one loads subscriptions, one reads events.
    static let connectionsMax = 3

    enum Progress: Sendable, Hashable {
        /// Folded up to this position; there may be more events.
        case folded(Int64)
        /// There is no event after the checkpoint.
        ///
        /// - Parameter untilNextOnClock: How long until the next boundary is due; nil if there is none.
        case caughtUp(untilNextOnClock: Duration?)
        /// Another projector leads the stream, or has just advanced it.
        case ledElsewhere
    }

    /// Folds the next batches. The rows and the checkpoint of each batch are committed together or not at all, so after
    /// a crash the fold continues where the last committed batch ended.
    ///
    /// Due boundaries are published first, so they are published even if an event cannot be folded.
    ///
    /// - Throws: ``ProjectionError/unfoldable(position:problem:)`` when the next event cannot be folded. Nothing is
    ///   skipped: the events before it were committed by the previous call. ``ProjectionError/repeatedRefold`` when all
    ///   rows would be rewritten for the same reason as last time.
    /// - Parameters:
    ///   - end: Only the first batch may begin after this instant.
    ///   - last: No event after this position is folded.
    func fold(
        batchesMax: Int, until end: ContinuousClock.Instant? = nil, through last: Int64 = .max
    ) async throws(ProjectionError) -> Progress {
        let writer = self.writer
        let checkpoint = try await writer.checkpoint().get()
        var untilNext: Duration?
        if tables == .live {
            guard case .caughtUp(let next) = try await publishDueBoundaries() else { return .ledElsewhere }
            untilNext = next
        }
        let rest = checkpoint.canWait ? refolds.rest(streamId) : .zero
        if checkpoint.isOutOfDate, rest == .zero {
            guard refolds.allow(streamId, checkpoint) else { throw .repeatedRefold }
            onRefold(checkpoint)
            let start = ContinuousClock.now
            let products = ProductCatalog(configured: checkpoint.configured.text)
            let progress = try await writer.refoldAll(products, after: checkpoint).get()
            if case .folded = progress { refolds.note(streamId, checkpoint, took: .now - start) }
            return progress
        }
        if checkpoint.isOutOfDate { untilNext = min(untilNext ?? rest, rest) }
        let products = ProductCatalog(configured: checkpoint.rowProducts.text)
        let reader = BatchReader(
            pool: pool, streamId: streamId, products: products, checks: checkpoint.checks, tables: tables, last: last)
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

    /// Publishes all boundaries that are due.
    private func publishDueBoundaries() async throws(ProjectionError) -> Progress {
        while true {
            let next = try await writer.untilNextOnClock().get()
            guard let next, next <= .zero, !Task.isCancelled else { return .caughtUp(untilNextOnClock: next) }
            guard try await writer.publishDueBoundaries().get() else { return .ledElsewhere }
        }
    }

    private var writer: BatchWriter {
        BatchWriter(
            pool: pool, streamId: streamId, tables: tables, now: now, onSharedTokens: onSharedTokens,
            onLostSeats: onLostSeats, onNotices: onNotices, onGaps: onGaps)
    }
}

/// The position up to which a stream is folded, and what its rows were computed with.
struct Checkpoint: Sendable, Hashable {
    /// The version of this release. It changes in every release in which equal facts give different rows.
    static let projectionVersion: Int32 = 21

    var position: Int64 = 0
    /// The configured products that the rows were computed with, byte for byte as ``configured`` was then.
    var products = ByteString("")
    /// The projection version of the release that wrote the rows.
    var projectionVersion = projectionVersion
    /// The current value of view `product_catalog`.
    var configured = ByteString("")
    /// The version of the checkpoint row. Every write changes it, even if the values stay the same. Empty if there is
    /// no row.
    var version = ""
    /// The number of events that operators have skipped. Events that were read before another skip must be read again.
    var skips: Int64 = 0
    /// The ownership rules by which the rows were computed.
    var ownership = OwnershipRules.standard.text
    /// The ownership rules that are configured now.
    var rules = OwnershipRules.standard
    /// The lead of checks by which the rows were computed.
    var checkLead = CheckPolicy.standard.lead
    /// The policy of checks that is configured now.
    var checks = CheckPolicy.standard

    /// True if there are rows and they must be rewritten before anything else.
    var isOutOfDate: Bool {
        position > 0
            && (products != configured || ownership != rules.text || checkLead != checks.lead
                || projectionVersion != Self.projectionVersion)
    }

    /// Whether rows that are out of date can stay so while events are folded: then they are as they were before an operator
    /// configured products differently.
    var canWait: Bool {
        ownership == rules.text && checkLead == checks.lead && projectionVersion == Self.projectionVersion
    }

    /// The products by which the rows of further events are computed: those of the other rows.
    var rowProducts: ByteString { position > 0 ? products : configured }

    /// What has changed since the rows were computed, for the log.
    var change: String {
        projectionVersion == Self.projectionVersion
            ? "products or settings of the app"
            : "projection version \(projectionVersion), this release has \(Self.projectionVersion)"
    }
}

package enum ProjectionError: Error, CustomStringConvertible {
    case database(PostgresError)
    /// The projector stops at this event until an operator skips it or installs a release that can fold it.
    case unfoldable(position: Int64, problem: String)
    /// The rows are out of date for the same reason for which this process has just rewritten all of them.
    case repeatedRefold

    init(_ event: UnfoldableEvent) {
        self = .unfoldable(position: event.position, problem: event.problem)
    }

    package var description: String {
        switch self {
        case .database(let error): error.description
        case .unfoldable(let position, let problem): UnfoldableEvent(position: position, problem: problem).description
        case .repeatedRefold:
            "all rows were rewritten and are out of date again for the same reason: another release may be running"
        }
    }
}

/// Distinguishes errors in rows from errors of the connection that returned them.
typealias ProjectionOutcome<Value> = Result<Value, ProjectionError>
