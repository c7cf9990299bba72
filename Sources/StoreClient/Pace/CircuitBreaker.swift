/// Whether calls to a host are made.
package enum BreakerState: Int, Sendable, CaseIterable {
    /// Calls are made.
    case closed = 0
    /// One call tries the host; others are rejected.
    case halfOpen = 1
    /// Calls are rejected.
    case open = 2
}

/// Stops calls to a host that fails, and tries it with single calls until it answers.
///
/// It has no clock of its own: the caller passes the time.
struct CircuitBreaker: Sendable {
    /// The right to make one call. Its result must be passed to ``end(_:_:at:)``.
    struct Permit: Sendable, Hashable {
        fileprivate let isProbe: Bool
    }

    enum Verdict: Sendable, Hashable {
        case call(Permit)
        case reject(pause: Duration)
    }

    enum Result: Sendable, Hashable {
        /// The host answered, whatever it said about the receipt.
        case answered
        /// No answer, an unreadable one, or one that says that the store is down.
        case failed
        /// Cancelled: says nothing about the host.
        case abandoned
    }

    private enum Phase: Sendable {
        case closed
        case open(until: ContinuousClock.Instant)
        case probing
    }

    private var phase = Phase.closed
    private var failuresInRow = 0
    /// The latest results, oldest first: true for a failure.
    private var recent: [Bool] = []
    private var pause = Limits.breakerPauseFirst

    var state: BreakerState {
        switch phase {
        case .closed: .closed
        case .open: .open
        case .probing: .halfOpen
        }
    }

    /// Returns how long calls are rejected; nil if a call may be made.
    func rejection(at now: ContinuousClock.Instant) -> Duration? {
        switch phase {
        case .closed: nil
        case .open(let until): until > now ? until - now : nil
        case .probing: Limits.probePause
        }
    }

    /// Permits a call or rejects it. The first call after the pause tries the host.
    mutating func begin(at now: ContinuousClock.Instant) -> Verdict {
        if let pause = rejection(at: now) { return .reject(pause: pause) }
        guard case .open = phase else { return .call(Permit(isProbe: false)) }
        phase = .probing
        return .call(Permit(isProbe: true))
    }

    mutating func end(_ permit: Permit, _ result: Result, at now: ContinuousClock.Instant) {
        switch phase {
        case .closed: note(result, at: now)
        // A call from before the failures. The probe decides.
        case .open: break
        case .probing:
            guard permit.isProbe else { return }
            switch result {
            case .answered: self = CircuitBreaker()
            case .failed:
                pause = min(pause * 2, Limits.breakerPauseMax)
                phase = .open(until: now + pause)
            case .abandoned: phase = .open(until: now)
            }
        }
    }

    private mutating func note(_ result: Result, at now: ContinuousClock.Instant) {
        guard result != .abandoned else { return }
        failuresInRow = result == .failed ? failuresInRow + 1 : 0
        recent.append(result == .failed)
        if recent.count > Limits.recentCalls { recent.removeFirst() }
        let isFailing =
            recent.count == Limits.recentCalls && recent.count(where: \.self) >= Limits.recentFailuresMax
        guard failuresInRow >= Limits.failuresInRowMax || isFailing else { return }
        phase = .open(until: now + pause)
    }
}
