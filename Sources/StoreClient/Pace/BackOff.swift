/// The pauses between the calls of one question: exponential, with full jitter.
enum BackOff {
    /// Returns the upper bound of the pause before a retry.
    ///
    /// - Parameter retry: 1 for the first retry.
    static func longest(before retry: Int) -> Duration {
        precondition(retry >= 1, "retries are counted from 1")
        var pause = Limits.backOffFirst
        for _ in 1..<retry where pause < Limits.backOffMax { pause *= 2 }
        return min(pause, Limits.backOffMax)
    }

    /// Returns the pause before a retry.
    ///
    /// - Parameter part: Random, from 0 up to but excluding 1.
    static func pause(before retry: Int, part: Double) -> Duration {
        longest(before: retry) * part
    }
}
