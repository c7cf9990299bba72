import Encoding

extension Instant {
    /// This instant by our clock, or the database's clock and a little where ours runs ahead of that: what is published
    /// early cannot be taken back.
    package func held(by databaseClock: Instant) -> Instant {
        min(self, databaseClock.advanced(by: Limits.clockAheadMax))
    }
}
