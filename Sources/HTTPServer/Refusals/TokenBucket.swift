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

    /// Takes a token. Returns false if none is left.
    mutating func take(at now: ContinuousClock.Instant) -> Bool {
        let elapsed = max(.zero, now - filledAt)
        tokens = min(capacity, tokens + elapsed / .seconds(1) * perSecond)
        filledAt = max(filledAt, now)
        guard tokens >= 1 else { return false }
        tokens -= 1
        return true
    }
}
