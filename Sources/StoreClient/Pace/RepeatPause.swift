/// The pauses between the calls about one receipt, subscription or purchase while they fail: exponential, with jitter. Never
/// shorter than half of the upper bound, since the retries within a question have failed by then.
struct RepeatPause: Sendable {
    /// The upper bound of the first pause; it doubles up to the maximum.
    let first: Duration
    let max: Duration

    /// For a receipt that was handed in and has no answer.
    static let handIn = RepeatPause(first: Limits.handInPauseFirst, max: Limits.handInPauseMax)
    /// For a scheduled check that failed.
    static let check = RepeatPause(first: Limits.checkPauseFirst, max: Limits.checkPauseMax)
    /// For an answer to a refund request that Apple did not take.
    static let consumption = RepeatPause(first: Limits.consumptionPauseFirst, max: Limits.consumptionPauseMax)
    /// For a question about a purchase of Google Play that failed.
    static let purchase = RepeatPause(first: Limits.purchasePauseFirst, max: Limits.purchasePauseMax)

    /// Returns the upper bound of the pause after a question.
    ///
    /// - Parameter attempts: The number of questions so far, from 1.
    func longest(after attempts: Int) -> Duration {
        var pause = first
        for _ in 1..<Swift.max(attempts, 1) {
            guard pause < max else { break }
            pause *= 2
        }
        return min(pause, max)
    }

    /// Returns the pause after a question.
    ///
    /// - Parameter part: Random, from 0 up to but excluding 1.
    func pause(after attempts: Int, part: Double) -> Duration {
        longest(after: attempts) * (0.5 + part / 2)
    }
}
