import Encoding
import Synchronization

/// The parts about which a store cannot be asked for a while. Kept in memory: after a restart it is tried again.
final class Holds<Part: Hashable & Sendable>: Sendable {
    private let ends = Mutex<[Part: Instant]>([:])

    func hold(_ part: Part, until end: Instant) {
        ends.withLock { ends in ends[part] = max(ends[part] ?? end, end) }
    }

    func isHeld(_ part: Part, at now: Instant) -> Bool { end(of: part, after: now) != nil }

    /// When the hold of a part ends; nil if it is not held.
    func end(of part: Part, after now: Instant) -> Instant? {
        ends.withLock { $0[part] }.flatMap { $0 > now ? $0 : nil }
    }
}
