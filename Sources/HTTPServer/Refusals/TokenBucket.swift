/// A rate with room for bursts. A value without a clock: the time comes in with each token.
struct TokenBucket: Sendable {
    private let perSecond: Double
    private let capacity: Double
    private var tokens: Double
    private var filledAt: ContinuousClock.Instant

    /// Full at first.
    init(perSecond: Int, capacity: Int, at now: ContinuousClock.Instant) {
        self.perSecond = Double(perSecond)
        self.capacity = Double(capacity)
        tokens = Double(capacity)
        filledAt = now
    }

    /// False if there is no token left.
    mutating func take(at now: ContinuousClock.Instant) -> Bool {
        let elapsed = max(.zero, now - filledAt)
        tokens = min(capacity, tokens + elapsed / .seconds(1) * perSecond)
        filledAt = max(filledAt, now)
        guard tokens >= 1 else { return false }
        tokens -= 1
        return true
    }
}
