import EventLog
import Subscriptions

extension LogReader {
    /// Waits for a limited time until a stream is folded up to a position; returns whether it is.
    ///
    /// - Parameter waits: False to return at once.
    func isFolded(
        _ stream: StreamKey, through position: Int64, waits: Bool, clock: StoreClock
    ) async throws -> Bool {
        let end = clock.now() + (waits ? Limits.projectionWaitMax : .zero)
        while try await foldedPosition(of: stream) < position {
            guard clock.now() < end else { return false }
            try await clock.sleep(clock.now() + Limits.handInLookInterval)
        }
        return true
    }
}
