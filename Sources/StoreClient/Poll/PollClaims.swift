import Encoding
import EventLog
import Synchronization

/// The checks that this process has claimed. They are its own for as long as it lives.
struct PollClaims: Sendable {
    let queue: CheckQueue
    let clock: StoreClock
    private let held = Held()

    private final class Held: Sendable {
        /// By stream: `originalTransactionId`s.
        let checks = Mutex<[Int32: Set<String>]>([:])
    }

    init(queue: CheckQueue, clock: StoreClock) {
        self.queue = queue
        self.clock = clock
    }

    private var end: Instant { clock.date().advanced(by: Limits.checkClaimTime) }

    /// Claims checks that are due, a few at a time, longest due first.
    func claimDue(
        in stream: CheckQueue.PolledStream, at now: Instant
    ) async throws(ReadError) -> [CheckQueue.DueCheck] {
        let claimed = try await queue.claimDue(
            in: stream, at: now, until: max(end, now.advanced(by: Limits.checkClaimTime)),
            limit: Limits.checksClaimedMax)
        held.checks.withLock { $0[stream.id, default: []].formUnion(claimed.map(\.originalTransactionId)) }
        return claimed
    }

    /// Ends claims without a record: the checks stay as due as they are.
    ///
    /// - Parameter pause: For how long nobody makes them.
    func release(
        _ ids: some Collection<String>, in streamId: Int32, for pause: Duration? = nil, at now: Instant
    ) async throws(ReadError) {
        forget(ids, in: streamId)
        try await queue.claim(ids, in: streamId, until: pause.map { now.advanced(by: $0) })
    }

    /// The records of checks end their claims.
    func forget(_ ids: some Collection<String>, in streamId: Int32) {
        held.checks.withLock { checks in
            checks[streamId]?.subtract(ids)
            if checks[streamId]?.isEmpty == true { checks[streamId] = nil }
        }
    }

    /// Reports that this process is alive.
    func keep() async throws(ReadError) {
        for (streamId, ids) in held.checks.withLock({ $0 }) {
            try await queue.claim(ids.sorted(), in: streamId, until: end)
        }
    }
}
