import Encoding
import EventLog
import Synchronization

/// Counts the purchases of each app that wait for Google's first answer, once in a few seconds.
final class UnansweredPurchases: Sendable {
    private struct Count {
        let areTooMany: Bool
        let until: Instant
    }

    private let counts = Mutex<[String: Count]>([:])
    private let queue: PurchaseQueue
    private let clock: StoreClock

    init(queue: PurchaseQueue, clock: StoreClock) {
        self.queue = queue
        self.clock = clock
    }

    /// - Throws: ``ReadError``.
    func areTooMany(of app: String) async throws(ReadError) -> Bool {
        let now = clock.date()
        if let count = counts.withLock({ $0[app] }), now < count.until { return count.areTooMany }
        let limit = Limits.unansweredPurchasesMax
        let areTooMany = try await queue.unanswered(of: app, limit: limit) >= limit
        counts.withLock {
            $0[app] = Count(areTooMany: areTooMany, until: now.advanced(by: Limits.unansweredCountAgeMax))
        }
        return areTooMany
    }
}
