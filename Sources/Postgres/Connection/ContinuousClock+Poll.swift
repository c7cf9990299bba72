extension ContinuousClock.Instant {
    /// The time until this instant for `poll(2)`: whole milliseconds, rounded up so that a loop never wakes early.
    var pollMilliseconds: Int32 {
        let left = ContinuousClock.now.duration(to: self)
        guard left > .zero else { return 0 }
        let (seconds, attoseconds) = left.components
        guard seconds < Int64(Int32.max) / 1000 else { return .max }
        return Int32(seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }

    var hasPassed: Bool {
        self <= .now
    }
}
