import AppStore

/// The token bucket of a ``CallBudget``. It has no clock of its own: the caller passes the time.
///
/// Instead of a number of tokens, it keeps the time at which the bucket is full again, so that the arithmetic is exact.
struct BudgetMeter: Sendable {
    private let interval: Duration
    /// How long before ``fullAt`` the bucket still holds a token.
    private let tolerance: Duration
    private var fullAt: ContinuousClock.Instant

    /// The bucket starts full.
    init(_ budget: CallBudget, at now: ContinuousClock.Instant) {
        interval = Duration.seconds(60) / budget.callsPerMinute
        tolerance = interval * (budget.burst - 1)
        fullAt = now
    }

    /// When the bucket holds a token.
    var readyAt: ContinuousClock.Instant { fullAt - tolerance }

    /// Takes a token. Returns false if there is none yet.
    mutating func take(at now: ContinuousClock.Instant) -> Bool {
        guard readyAt <= now else { return false }
        fullAt = max(fullAt, now) + interval
        return true
    }

    /// Returns a token of a call that was not made.
    mutating func putBack() {
        fullAt = fullAt - interval
    }

    /// Returns how long it takes until this many tokens can have been taken.
    ///
    /// - Parameter calls: At least 1.
    func wait(for calls: Int, at now: ContinuousClock.Instant) -> Duration {
        let last = max(fullAt, now) + interval * (calls - 1) - tolerance
        return max(.zero, last - now)
    }
}
