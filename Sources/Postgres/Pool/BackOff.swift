/// Computes the wait between attempts to connect to an unreachable server.
struct BackOff {
    /// Short enough that a server restart is hardly noticed.
    static let first = Duration.milliseconds(50)
    /// Long enough that a hundred processes do not keep a server from starting. Short, because it delays notifications after
    /// a failover, and calls fail during it.
    static let longest = Duration.seconds(1)

    private(set) var failures = 0
    private(set) var retryAt: ContinuousClock.Instant?

    /// Doubles the wait with each failure.
    ///
    /// - Parameter now: The start of the attempt: a server that did not answer has made the caller wait already.
    /// - Parameter jitter: From 0 to 1; shortens the wait by up to half, so that clients do not reconnect together.
    mutating func fail(now: ContinuousClock.Instant, jitter: Double) {
        let doublings = min(failures, 5)
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
