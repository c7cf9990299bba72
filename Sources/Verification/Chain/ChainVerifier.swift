import EventLog

/// Checks the hash chains of all streams without reading bodies, which takes a fraction of the time of a
/// ``DatabaseVerifier``, and stops at the first bad event.
package struct ChainVerifier {
    let log: LogAudit
    let heads: HeadCheck

    /// - Parameter heads: Signed heads that the log must extend.
    package init(log: LogAudit, heads: HeadCheck) {
        self.log = log
        self.heads = heads
    }

    /// - Parameter onEvents: Called with the numbers of checked events and of all events.
    package func run(onEvents: (Int64, Int64) -> Void = { _, _ in }) async throws -> VerificationOutcome {
        var outcome = VerificationOutcome()
        let streams = try await log.streams()
        let total = streams.reduce(0) { $0 + $1.last }
        outcome.finding = heads.firstProblem(in: streams)
        for stream in streams where outcome.finding == nil {
            outcome.streams += 1
            let before = outcome.events
            outcome.finding = try await firstProblem(in: stream) { position in
                outcome.events = before + position
                onEvents(outcome.events, total)
            }
        }
        return outcome
    }

    private func firstProblem(in stream: AuditedStream, onProgress: (Int64) -> Void) async throws -> Finding? {
        guard stream.key != nil else { return .unregistered(stream) }
        var walk = ChainWalk(stream, heads: heads.heads)
        if let finding = walk.start() { return finding }
        while true {
            let links = try await log.links(of: stream, after: walk.position)
            guard !links.isEmpty else { return walk.end() }
            for link in links {
                if let finding = walk.next(link) { return finding }
            }
            onProgress(walk.position)
        }
    }
}
