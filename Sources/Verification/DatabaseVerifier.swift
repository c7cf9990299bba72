import AppStore
import EventLog
import Postgres
import Projector
import Subscriptions

/// Checks log and projections, stream by stream: every event, and the projections of each stream up to their first bad row.
package struct DatabaseVerifier {
    let log: LogAudit
    let workers: [LogAudit]
    let projections: ProjectionAudit?
    let signatures: SignatureVerifier
    let extent: ProjectionAudit.Extent
    let heads: HeadCheck
    let places: [StreamKey: VerifiedPlace]
    let rangeEventsMax: Int

    /// - Parameters:
    ///   - workers: Check events concurrently, each with a connection of its own; empty to check them with that of `log`.
    ///   - projections: Nil to check the log alone.
    ///   - heads: Signed heads that the log must extend.
    ///   - places: Where an earlier verification of each stream ended. What comes before is not checked again.
    ///   - rangeEventsMax: How many events a worker checks before it takes others.
    package init(
        log: LogAudit, workers: [LogAudit] = [], projections: ProjectionAudit?, signatures: SignatureVerifier,
        extent: ProjectionAudit.Extent, heads: HeadCheck = .none, from places: [StreamKey: VerifiedPlace] = [:],
        rangeEventsMax: Int = Limits.auditRangeEventsMax
    ) {
        self.log = log
        self.workers = workers
        self.projections = projections
        self.signatures = signatures
        self.extent = extent
        self.heads = heads
        self.places = places
        self.rangeEventsMax = rangeEventsMax
    }

    /// - Parameters:
    ///   - onEvents: Called with the numbers of checked events, those verified before included, and of all events.
    ///   - onSubscriptions: Called with the numbers of checked subscriptions and of all subscriptions of the current
    ///     stream.
    ///   - onVerified: Called with a place up to which nothing is wrong with the events of a stream, each time that it has
    ///     moved.
    package func run(
        onEvents: (Int64, Int64) -> Void = { _, _ in }, onSubscriptions: (Int64, Int64) -> Void = { _, _ in },
        onVerified: (VerifiedPlace) throws -> Void = { _ in }
    ) async throws -> VerificationOutcome {
        var outcome = VerificationOutcome()
        let streams = try await log.streams()
        let total = streams.reduce(0) { $0 + $1.last }
        for finding in heads.problems(in: streams) { outcome.add(finding) }
        for stream in streams {
            outcome.streams += 1
            guard let key = stream.key else {
                outcome.add(.unregistered(stream))
                continue
            }
            let verifier = LogVerifier(
                audit: log, workers: workers, stream: stream,
                events: EventVerifier(stream: key, signatures: signatures), heads: heads, place: places[key],
                rangeEventsMax: rangeEventsMax)
            let before = outcome.total
            try await verifier.check(&outcome, onProgress: { onEvents($0, total) }, onVerified: onVerified)
            let isSound = outcome.total == before
            if let damage = try await log.firstDamagedConflict(of: stream) {
                outcome.add(Finding(stream, row: damage))
            }
            // Without its last events, or with others, projections wait for what does not come.
            guard let projections, stream.head == stream.last else { continue }
            do {
                outcome.subscriptions += try await projections.check(
                    stream: stream.id, extent, onProgress: onSubscriptions)
            } catch let problem as ProjectionAudit.Problem {
                outcome.add(Finding(stream, row: problem.description))
            } catch let error where !isSound && !(error is PostgresError) {
                outcome.add(Finding(stream, row: "projections cannot be compared with damaged events"))
            }
        }
        if let projections, let stray = try await projections.strayStream() {
            outcome.add(Finding(stream: stray.stream, row: stray.problem.description))
        }
        return outcome
    }
}
