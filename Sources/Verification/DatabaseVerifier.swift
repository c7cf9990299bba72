import AppStore
import EventLog
import Projector

/// Checks log and projections, stream by stream, and stops at the first bad row.
struct Verification {
    let log: LogAudit
    let projections: ProjectionAudit
    let signatures: SignatureVerifier
    let extent: ProjectionAudit.Extent

    struct Outcome: Sendable {
        var finding: Finding?
        var streams = 0
        var events: Int64 = 0
        var lines: Int64 = 0
    }

    /// - Parameters:
    ///   - onEvents: Called with the numbers of checked events and of all events.
    ///   - onLines: Called with the numbers of checked subscriptions and of all subscriptions of the current stream.
    func run(
        onEvents: (Int64, Int64) -> Void = { _, _ in }, onLines: (Int64, Int64) -> Void = { _, _ in }
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
            let check = LogCheck(
                audit: log, stream: stream, check: EventCheck(stream: key, signatures: signatures))
            outcome.finding = try await check.firstProblem { position in
                outcome.events = before + position
                onEvents(outcome.events, total)
            }
            guard outcome.finding == nil else { return outcome }
            do {
                outcome.lines += try await projections.check(stream: stream.id, extent, onProgress: onLines)
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
