/// Limits how often a customer hands purchases in: what a backend passes on is chosen by the app's users, and each may cost
/// questions to a store and bytes on the disk.
final class HandInRate: Sendable {
    private struct Key: Hashable {
        let app: String
        let customerId: String
    }

    private let buckets = KeyedBuckets<Key>(
        perSecond: Limits.handInsPerSecond, capacity: Limits.handInBurstMax, keysMax: Limits.handInCustomersMax)

    /// Counts a request without a customer, or one within the limits.
    ///
    /// - Throws: ``Problem`` with status 429.
    func admit(_ customerId: String?, _ app: String, at now: ContinuousClock.Instant = .now) throws(Problem) {
        guard let customerId else { return }
        guard !buckets.admit(Key(app: app, customerId: customerId), at: now) else { return }
        throw Problem(
            .tooManyRequests, "too many hand-ins of this customer: at most \(Limits.handInsPerSecond) per second",
            field: "customerId", headers: [.retryAfter: "\(Limits.retryAfterSeconds)"])
    }
}
