/// Hears that the log has got events, so that nobody needs to look for them.
package struct EventWatch: Sendable {
    /// What was heard so far.
    let mark: @Sendable () async -> UInt64
    /// Returns when something is heard after the mark, or at the instant.
    let wait: @Sendable (UInt64, ContinuousClock.Instant) async -> Void

    package init(
        mark: @escaping @Sendable () async -> UInt64,
        wait: @escaping @Sendable (UInt64, ContinuousClock.Instant) async -> Void
    ) {
        self.mark = mark
        self.wait = wait
    }
}
