import Subscriptions

/// What is known of one chain, and until when it need not be asked for again.
struct VerdictRecord: Sendable {
    private(set) var verdict: RevocationVerdict
    private var settledAt: Instant
    private var freshUntil: Instant
    /// Checks since the last usable answer.
    private var silences = 0

    init(_ answer: RevocationVerdict, at now: Instant, limits: RevocationLimits) {
        verdict = answer
        settledAt = now
        freshUntil = now
        settle(answer, at: now, limits: limits)
    }

    /// Takes the outcome of a check.
    ///
    /// Silence does not lift a revocation: otherwise whoever can cut us off from the responder could.
    mutating func settle(_ answer: RevocationVerdict, at now: Instant, limits: RevocationLimits) {
        settledAt = now
        if answer != .unknown || verdict != .revoked { verdict = answer }
        silences = answer == .unknown ? silences + 1 : 0
        let wait =
            switch verdict {
            case .good, .revoked: limits.answerHolds
            // Twenty doublings are beyond any longest wait.
            case .unknown: min(limits.retryFirst * (1 << min(silences - 1, 20)), limits.retryLongest)
            }
        freshUntil = now.advanced(byMilliseconds: Int64(wait / .milliseconds(1)))
    }

    /// False as well when the clock was set back behind the record, which would then hold for too long.
    func isFresh(at now: Instant) -> Bool {
        settledAt <= now && now < freshUntil
    }

    /// What the record is worth. A revocation holds until it is lifted; "good" does not outlive its time.
    func verdict(at now: Instant) -> RevocationVerdict? {
        verdict != .good || isFresh(at: now) ? verdict : nil
    }
}
