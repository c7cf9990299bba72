import Encoding
import Synchronization

/// What must not be asked for a while, although it is due. Kept in memory: after a restart it is tried again.
final class PollHolds: Sendable {
    private struct State: Sendable {
        /// By stream: the store cannot be asked about it now.
        var streams: [Int32: Instant] = [:]
        /// By stream and `originalTransactionId`: checks that could not be made or not be recorded.
        var checks: [Int32: [String: Instant]] = [:]
    }

    private let state = Mutex(State())

    func hold(_ streamId: Int32, until end: Instant) {
        state.withLock { state in state.streams[streamId] = max(state.streams[streamId] ?? end, end) }
    }

    func hold(_ id: String, in streamId: Int32, until end: Instant) {
        state.withLock { $0.checks[streamId, default: [:]][id] = end }
    }

    func isHeld(_ streamId: Int32, at now: Instant) -> Bool {
        state.withLock { $0.streams[streamId].map { $0 > now } ?? false }
    }

    /// The subscriptions of a stream that are held.
    func held(in streamId: Int32, at now: Instant) -> Set<String> {
        state.withLock { state in
            let held = (state.checks[streamId] ?? [:]).filter { $0.value > now }
            state.checks[streamId] = held
            return Set(held.keys)
        }
    }

    /// When the next hold of these streams, or of a check of theirs, ends.
    func nextEnd(in streamIds: [Int32], after now: Instant) -> Instant? {
        state.withLock { state in
            let ends =
                streamIds.compactMap { state.streams[$0] } + streamIds.flatMap { (state.checks[$0] ?? [:]).values }
            return ends.filter { $0 > now }.min()
        }
    }
}
