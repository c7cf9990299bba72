/// The pauses between calls and questions that fail: exponential, with jitter.
struct RepeatPause: Sendable {
    /// The upper bound of the first pause; it doubles up to the maximum.
    let first: Duration
    let max: Duration
    /// The shortest pause, as a part of the upper bound. Half, because the retries within a question have failed when the
    /// question is repeated.
    var shortest = 0.5

    /// Between the calls of one question, over the whole range.
    static let call = RepeatPause(first: Limits.backOffFirst, max: Limits.backOffMax, shortest: 0)

    /// For a receipt that was handed in and has no answer.
    static let handIn = RepeatPause(first: Limits.handInPauseFirst, max: Limits.handInPauseMax)
    /// For a scheduled check that failed.
    static let check = RepeatPause(first: Limits.checkPauseFirst, max: Limits.checkPauseMax)
    /// For an answer to a refund request that Apple did not take.
    static let consumption = RepeatPause(first: Limits.consumptionPauseFirst, max: Limits.consumptionPauseMax)
    /// For a comparison of the orders of an app that failed.
    static let orders = RepeatPause(first: Limits.voidAuditPause, max: Limits.orderAuditPauseMax)
    /// For a question about a purchase of Google Play that failed.
    static let purchase = RepeatPause(first: Limits.purchasePauseFirst, max: Limits.purchasePauseMax)

    /// Returns the upper bound of a pause.
    ///
    /// - Parameter attempts: The number of calls or questions so far, from 1.
    func longest(after attempts: Int) -> Duration {
        var pause = first
        for _ in 1..<Swift.max(attempts, 1) {
            guard pause < max else { break }
            pause *= 2
        }
        return min(pause, max)
    }

    /// Returns the pause.
    ///
    /// - Parameter part: Random, from 0 up to but excluding 1.
    func pause(after attempts: Int, part: Double) -> Duration {
        longest(after: attempts) * (shortest + part * (1 - shortest))
    }
}
