import Encoding

/// The verdict on one chain and how long it is fresh.
struct VerdictRecord: Sendable {
    private(set) var verdict: RevocationVerdict
    private var settledAt: Instant
    private var freshUntil: Instant
    /// Number of checks since the last usable response.
    private var silences = 0

    init(_ answer: RevocationVerdict, at now: Instant, limits: RevocationLimits) {
        verdict = answer
        settledAt = now
        freshUntil = now
        settle(answer, at: now, limits: limits)
    }

    /// Records the result of a check.
    ///
    /// An `unknown` result does not lift a revocation; otherwise an attacker that blocks the responder could lift it.
    mutating func settle(_ answer: RevocationVerdict, at now: Instant, limits: RevocationLimits) {
        settledAt = now
        if answer != .unknown || verdict != .revoked { verdict = answer }
        silences = answer == .unknown ? silences + 1 : 0
        let wait =
            switch verdict {
            case .good, .revoked: limits.answerHolds
            // Twenty doublings exceed any maximum wait.
            case .unknown: min(limits.retryFirst * (1 << min(silences - 1, 20)), limits.retryLongest)
            }
        freshUntil = now.advanced(byMilliseconds: Int64(wait / .milliseconds(1)))
    }

    /// False also if the clock was set back to before the record, which would then stay fresh for too long.
    func isFresh(at now: Instant) -> Bool {
        settledAt <= now && now < freshUntil
    }

    /// The verdict that currently applies: a revocation until it is lifted, `good` only while it is fresh.
    func verdict(at now: Instant) -> RevocationVerdict? {
        verdict != .good || isFresh(at: now) ? verdict : nil
    }
}
