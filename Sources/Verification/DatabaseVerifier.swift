import AppStore
import EventLog
import Projector

/// Checks log and projections, stream by stream, and stops at the first bad row.
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
        outcome.finding = heads.firstProblem(in: streams)
        guard outcome.finding == nil else { return outcome }
        for stream in streams {
            outcome.streams += 1
            guard let key = stream.key else {
                outcome.finding = .unregistered(stream)
                return outcome
            }
            let before = outcome.events
            let verifier = LogVerifier(
                audit: log, stream: stream, events: EventVerifier(stream: key, signatures: signatures),
                heads: heads.heads)
            outcome.finding = try await verifier.firstProblem { position in
                outcome.events = before + position
                onEvents(outcome.events, total)
            }
            guard outcome.finding == nil else { return outcome }
            if let damage = try await log.firstDamagedConflict(of: stream) {
                outcome.finding = Finding(stream, row: damage)
                return outcome
            }
            do {
                outcome.subscriptions += try await projections.check(
                    stream: stream.id, extent, onProgress: onSubscriptions)
            } catch let problem as ProjectionAudit.Problem {
                outcome.finding = Finding(stream, row: problem.description)
                return outcome
            }
        }
        if let stray = try await projections.strayStream() {
            outcome.finding = Finding(stream: stray.stream, row: stray.problem.description)
        }
        return outcome
    }
}
