/// How often and how concurrently the App Store is asked about one app.
///
/// The budget is a token bucket. An app may make a burst of five seconds' worth of calls; averaged over time, it never
/// makes more than ``callsPerMinute``.
package struct CallBudget: Sendable, Hashable {
    package let callsPerMinute: Int
    /// Maximum number of calls in flight.
    package let concurrency: Int

    package static let callsPerMinuteMax = 60_000
    package static let concurrencyMax = 256

    /// Apple publishes no limit for receipts. Five calls a second check 18,000 subscriptions an hour.
    package static let standard = CallBudget(callsPerMinute: 300, concurrency: 8)

    /// - Precondition: Both numbers are at least 1, and at most ``callsPerMinuteMax`` and ``concurrencyMax``.
    package init(callsPerMinute: Int, concurrency: Int) {
        precondition((1...Self.callsPerMinuteMax).contains(callsPerMinute), "calls per minute out of range")
        precondition((1...Self.concurrencyMax).contains(concurrency), "concurrency out of range")
        self.callsPerMinute = callsPerMinute
        self.concurrency = concurrency
    }

    /// The calls that may follow each other without a pause.
    package var burst: Int { max(1, callsPerMinute / 12) }
}
