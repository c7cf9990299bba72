import Encoding
import Synchronization

/// What this process has claimed to ask about, by app or stream. It is its own for as long as the process lives.
final class Claims<Part: Hashable & Sendable>: Sendable {
    /// Moves the end of claims.
    typealias Renew = @Sendable (_ ids: [String], _ part: Part, _ end: Instant) async throws -> Void

    private let time: Duration
    private let clock: StoreClock
    private let renew: Renew
    private let held = Mutex<[Part: Set<String>]>([:])

    /// - Parameter time: How long a claim lasts, unless the process reports that it is alive.
    init(lasting time: Duration, _ clock: StoreClock, _ renew: @escaping Renew) {
        self.time = time
        self.clock = clock
        self.renew = renew
    }

    /// When a claim ends that is made at an instant.
    func end(at now: Instant) -> Instant { max(now, clock.date()).advanced(by: time) }

    func note(_ ids: [String], of part: Part) {
        held.withLock { $0[part, default: []].formUnion(ids) }
    }

    /// The records of what was asked end the claims.
    func forget(_ ids: [String], of part: Part) {
        held.withLock { held in
            held[part]?.subtract(ids)
            if held[part]?.isEmpty == true { held[part] = nil }
        }
    }

    /// Reports that this process is alive.
    func keep() async throws {
        for (part, ids) in held.withLock({ $0 }) {
            try await renew(ids.sorted(), part, clock.date().advanced(by: time))
        }
    }
}
