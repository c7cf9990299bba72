import Synchronization

/// Limits how often a customer hands purchases in: what a backend passes on is chosen by the app's users, and each may cost
/// questions to a store and bytes on the disk.
final class HandInRate: Sendable {
    private struct Key: Hashable {
        let app: String
        let customerId: String
    }

    private let buckets = Mutex<[Key: TokenBucket]>([:])

    /// Counts a request without a customer, or one within the limits.
    ///
    /// - Throws: ``Problem`` with status 429.
    func admit(_ customerId: String?, _ app: String, at now: ContinuousClock.Instant = .now) throws(Problem) {
        guard let customerId else { return }
        let key = Key(app: app, customerId: customerId)
        let isAdmitted = buckets.withLock { buckets in
            if buckets.count >= Limits.handInCustomersMax { buckets = buckets.filter { !$0.value.isFull(at: now) } }
            // So many customers at once: then the shares of the questions to the stores are the limit.
            if buckets.count >= Limits.handInCustomersMax { buckets = [:] }
            var bucket =
                buckets[key]
                ?? TokenBucket(
                    perSecond: Limits.handInsPerSecond, capacity: Limits.handInBurstMax, at: now)
            defer { buckets[key] = bucket }
            return bucket.take(at: now)
        }
        guard !isAdmitted else { return }
        throw Problem(
            .tooManyRequests, "too many hand-ins of this customer: at most \(Limits.handInsPerSecond) per second",
            field: "customerId", headers: [.retryAfter: "\(Limits.retryAfterSeconds)"])
    }
}
