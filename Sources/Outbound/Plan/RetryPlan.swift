/// When an attempt is repeated: ten attempts within 75 hours, the schedule that Standard Webhooks recommends.
package struct RetryPlan: Sendable, Hashable {
    /// The pauses before each attempt. The first attempt is made at once.
    package let pauses: [Duration]

    package init(pauses: [Duration]) { self.pauses = pauses }

    package static let standard = RetryPlan(
        pauses: [
            .zero, .seconds(5), .seconds(5 * 60), .seconds(30 * 60), .seconds(2 * 3600), .seconds(5 * 3600),
            .seconds(10 * 3600), .seconds(14 * 3600), .seconds(20 * 3600), .seconds(24 * 3600),
        ])

    /// The pause before the next attempt, up to 20 percent shorter or longer, so that messages that failed together are not
    /// repeated together.
    ///
    /// - Parameters:
    ///   - attempts: How many were made, at least one.
    ///   - part: From 0 up to but excluding 1.
    ///   - retryAfter: What the receiver asked for. It makes the pause longer, by at most ``Limits/retryAfterMax``, and
    ///     never shorter.
    /// - Returns: Nil after the last attempt.
    package func pause(after attempts: Int, part: Double, retryAfter: Duration? = nil) -> Duration? {
        guard attempts < pauses.count else { return nil }
        let planned = pauses[max(attempts, 0)] * (0.8 + 0.4 * part)
        return max(planned, min(retryAfter ?? .zero, Limits.retryAfterMax))
    }
}
