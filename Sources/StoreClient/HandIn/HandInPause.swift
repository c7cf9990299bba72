/// The pauses between the questions about a receipt that was handed in: exponential, with jitter. Never shorter than
/// half of the upper bound, since the retries within a question have failed by then.
enum HandInPause {
    /// Returns the upper bound of the pause after a question.
    ///
    /// - Parameter attempts: The number of questions so far, from 1.
    static func longest(after attempts: Int32) -> Duration {
        var pause = Limits.handInPauseFirst
        for _ in 1..<max(attempts, 1) {
            guard pause < Limits.handInPauseMax else { break }
            pause *= 2
        }
        return min(pause, Limits.handInPauseMax)
    }

    /// Returns the pause after a question.
    ///
    /// - Parameter part: Random, from 0 up to but excluding 1.
    static func pause(after attempts: Int32, part: Double) -> Duration {
        longest(after: attempts) * (0.5 + part / 2)
    }
}
