import AppStore
import EventLog
import Postgres
import Projector

/// Checks log and projections, stream by stream: every event, and the projections of each stream up to their first bad row.
package struct DatabaseVerifier {
    let log: LogAudit
    let projections: ProjectionAudit
    let signatures: SignatureVerifier
    let extent: ProjectionAudit.Extent
    let heads: HeadCheck

    /// - Parameter heads: Signed heads that the log must extend.
    package init(
        log: LogAudit, projections: ProjectionAudit, signatures: SignatureVerifier, extent: ProjectionAudit.Extent,
        heads: HeadCheck = .none
    ) {
        self.log = log
        self.projections = projections
        self.signatures = signatures
        self.extent = extent
        self.heads = heads
    }

    /// - Parameters:
    ///   - onEvents: Called with the numbers of checked events and of all events.
    ///   - onSubscriptions: Called with the numbers of checked subscriptions and of all subscriptions of the current
    ///     stream.
    package func run(
        onEvents: (Int64, Int64) -> Void = { _, _ in }, onSubscriptions: (Int64, Int64) -> Void = { _, _ in }
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
                audit: log, stream: stream, events: EventVerifier(stream: key, signatures: signatures),
                heads: heads)
            let before = outcome.findings.count
            try await verifier.check(&outcome) { onEvents($0, total) }
            let isSound = outcome.findings.count == before
            if let damage = try await log.firstDamagedConflict(of: stream) {
                outcome.add(Finding(stream, row: damage))
            }
            // Without its last events, or with others, projections wait for what does not come.
            guard stream.head == stream.last else { continue }
            do {
                outcome.subscriptions += try await projections.check(
                    stream: stream.id, extent, onProgress: onSubscriptions)
            } catch let problem as ProjectionAudit.Problem {
                outcome.add(Finding(stream, row: problem.description))
            } catch let error where !isSound && !(error is PostgresError) {
                outcome.add(Finding(stream, row: "projections cannot be compared with damaged events"))
            }
        }
        if let stray = try await projections.strayStream() {
            outcome.add(Finding(stream: stray.stream, row: stray.problem.description))
        }
        return outcome
    }
}
