/// Computes the wait between attempts to connect to an unreachable server.
struct BackOff {
    /// Short enough that a server restart is hardly noticed.
    static let first = Duration.milliseconds(50)
    /// Long enough that a thousand clients do not keep a server from starting, short enough for an operator who waits.
    static let longest = Duration.seconds(5)

    private(set) var failures = 0
    private(set) var retryAt: ContinuousClock.Instant?

    /// Doubles the wait with each failure.
    ///
    /// - Parameter jitter: From 0 to 1; shortens the wait by up to half, so that clients do not reconnect together.
    mutating func fail(now: ContinuousClock.Instant, jitter: Double) {
        let doublings = min(failures, 7)
        failures += 1
        let wait = min(Self.first * (1 << doublings), Self.longest)
        retryAt = now + wait * (1 - jitter.clamped(to: 0...1) / 2)
    }

    mutating func reset() {
        failures = 0
        retryAt = nil
    }

    func isWaiting(now: ContinuousClock.Instant) -> Bool {
        retryAt.map { now < $0 } ?? false
    }
}

extension Double {
    fileprivate func clamped(to range: ClosedRange<Double>) -> Double {
        Swift.min(Swift.max(self, range.lowerBound), range.upperBound)
    }
}
