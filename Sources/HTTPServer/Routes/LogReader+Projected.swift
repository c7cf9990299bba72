import EventLog

extension LogReader {
    /// Whether what was handed in is projected, at the end of a wait at the latest.
    func isProjected(_ answer: HandInAnswer, wait: Duration) async throws -> Bool {
        guard let position = answer.lastPosition else { return true }
        let end = ContinuousClock.now + wait
        while try await foldedPosition(of: answer.stream) < position {
            guard ContinuousClock.now < end else { return false }
            try await Task.sleep(for: Limits.projectionLookInterval)
        }
        return true
    }
}
