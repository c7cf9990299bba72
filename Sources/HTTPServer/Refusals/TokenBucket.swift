/// A token bucket: a rate limit that allows bursts. It has no clock of its own: the caller passes the time.
struct TokenBucket: Sendable {
    private let perSecond: Double
    private let capacity: Double
    private var tokens: Double
    private var filledAt: ContinuousClock.Instant

    /// The bucket starts full.
    init(perSecond: Int, capacity: Int, at now: ContinuousClock.Instant) {
        self.perSecond = Double(perSecond)
        self.capacity = Double(capacity)
        tokens = Double(capacity)
        filledAt = now
    }

    /// Whether a new bucket would have as many tokens.
    func isFull(at now: ContinuousClock.Instant) -> Bool {
        tokens + max(.zero, now - filledAt) / .seconds(1) * perSecond >= capacity
    }

    /// Takes tokens. Returns false, and takes none, if fewer are left.
    mutating func take(_ count: Int = 1, at now: ContinuousClock.Instant) -> Bool {
        let elapsed = max(.zero, now - filledAt)
        tokens = min(capacity, tokens + elapsed / .seconds(1) * perSecond)
        filledAt = max(filledAt, now)
        guard tokens >= Double(count) else { return false }
        tokens -= Double(count)
        return true
    }
}
