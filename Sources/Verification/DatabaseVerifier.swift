import AppStore
import EventLog
import Projector

/// Checks log and projections, stream by stream, and stops at the first bad row.
package struct DatabaseVerifier {
    let log: LogAudit
    let projections: ProjectionAudit
    let signatures: SignatureVerifier
    let extent: ProjectionAudit.Extent

    package init(
        log: LogAudit, projections: ProjectionAudit, signatures: SignatureVerifier, extent: ProjectionAudit.Extent
    ) {
        self.log = log
        self.projections = projections
        self.signatures = signatures
        self.extent = extent
    }

    package struct Outcome: Sendable {
        package fileprivate(set) var finding: Finding?
        package fileprivate(set) var streams = 0
        package fileprivate(set) var events: Int64 = 0
        package fileprivate(set) var subscriptions: Int64 = 0
    }

    /// - Parameters:
    ///   - onEvents: Called with the numbers of checked events and of all events.
    ///   - onSubscriptions: Called with the numbers of checked subscriptions and of all subscriptions of the current
    ///     stream.
    package func run(
        onEvents: (Int64, Int64) -> Void = { _, _ in }, onSubscriptions: (Int64, Int64) -> Void = { _, _ in }
    ) async throws -> Outcome {
        var outcome = Outcome()
        let streams = try await log.streams()
        let total = streams.reduce(0) { $0 + $1.last }
        for stream in streams {
            outcome.streams += 1
            guard let key = stream.key else {
                outcome.finding = Finding(stream, "has a head or events but is not registered")
                return outcome
            }
            if let damage = try await log.firstDamage(beside: stream) {
                outcome.finding = Finding(stream, row: damage)
                return outcome
            }
            let before = outcome.events
            let verifier = LogVerifier(
                audit: log, stream: stream, events: EventVerifier(stream: key, signatures: signatures))
            outcome.finding = try await verifier.firstProblem { position in
                outcome.events = before + position
                onEvents(outcome.events, total)
            }
            guard outcome.finding == nil else { return outcome }
            do {
                outcome.subscriptions += try await projections.check(
                    stream: stream.id, extent, onProgress: onSubscriptions)
            } catch let problem as ProjectionAudit.Problem {
                outcome.finding = Finding(stream, row: problem.description)
                return outcome
            }
        }
        if let damage = try await log.firstDamagedVerdict() {
            outcome.finding = Finding(row: damage)
        } else if let stray = try await projections.strayStream() {
            outcome.finding = Finding(stream: stray.stream, row: stray.problem.description)
        }
        return outcome
    }
}
