import Encoding
import Synchronization

/// The streams about which the store cannot be asked for a while. Kept in memory: after a restart it is tried again.
final class PollHolds: Sendable {
    private let streams = Mutex<[Int32: Instant]>([:])

    func hold(_ streamId: Int32, until end: Instant) {
        streams.withLock { streams in streams[streamId] = max(streams[streamId] ?? end, end) }
    }

    func isHeld(_ streamId: Int32, at now: Instant) -> Bool {
        streams.withLock { $0[streamId].map { $0 > now } ?? false }
    }

    /// When the next hold of these streams ends.
    func nextEnd(in streamIds: [Int32], after now: Instant) -> Instant? {
        streams.withLock { streams in streamIds.compactMap { streams[$0] }.filter { $0 > now }.min() }
    }
}
