import EventLog
import Subscriptions

extension LogReader {
    /// Whether what was handed in is projected, at the end of a wait at the latest.
    func isProjected(_ answer: HandInAnswer, wait: Duration) async throws -> Bool {
        guard let position = answer.lastPosition else { return true }
        return try await isProjected(position, of: answer.stream, wait: wait)
    }

    /// Whether the event at a position is projected, at the end of a wait at the latest.
    func isProjected(_ position: Int64, of stream: StreamKey, wait: Duration) async throws -> Bool {
        let end = ContinuousClock.now + wait
        while try await foldedPosition(of: stream) < position {
            guard ContinuousClock.now < end else { return false }
            try await Task.sleep(for: Limits.projectionLookInterval)
        }
        return true
    }
}
