import Encoding

extension Instant {
    /// This instant by our clock, but at most ``Limits/clockAheadMax`` after the database's clock: a change that is
    /// published too early cannot be withdrawn.
    package func held(by databaseClock: Instant) -> Instant {
        min(self, databaseClock.advanced(by: Limits.clockAheadMax))
    }
}
