/// Whether events can be stored, as far as the latest batches show.
package enum AppendCondition: Sendable, Hashable {
    case ok
    /// - Parameters:
    ///   - since: When the first of the failed batches began.
    ///   - label: Why the last one failed, as ``AppendError/label`` has it.
    case failing(since: ContinuousClock.Instant, label: String)
}

/// The batches that failed since one was last stored.
struct AppendFailures {
    private var count = 0
    private var since: ContinuousClock.Instant?
    private var last: (at: ContinuousClock.Instant, label: String)?

    mutating func noteSuccess() {
        self = AppendFailures()
    }

    mutating func note(_ error: AppendError, startedAt: ContinuousClock.Instant, at now: ContinuousClock.Instant) {
        count += 1
        since = since ?? startedAt
        last = (now, error.label)
    }

    /// A failure that is older than ``Limits/failureAgeMax`` counts no more: where the condition keeps notifications
    /// away, none would ever show that they can be stored again.
    func condition(at now: ContinuousClock.Instant) -> AppendCondition {
        guard let since, let last, now - last.at < Limits.failureAgeMax,
            count >= Limits.failedBatchesMax || last.at - since >= Limits.failingTimeMax
        else { return .ok }
        return .failing(since: since, label: last.label)
    }
}
