/// Which streams the projector looks at next, and when.
///
/// Looking at all of them costs as much as there are streams, so that is done seldom: notifications name those that
/// have new events; what could not be finished is remembered, and when the next period of a stream begins or ends.
struct Agenda: Sendable {
    enum Look: Sendable, Hashable {
        case all
        case only(Set<Int32>)
    }

    /// What became of a stream that was looked at.
    enum Outcome: Sendable, Hashable {
        /// Until one of its period boundaries is due.
        case done(for: Duration?)
        /// Others have their turn before it goes on.
        case unfinished
        /// Its leader may die without a notification.
        case ledElsewhere
        case failed
    }

    /// The last look at the log did not fail: what goes on is logged once.
    var couldRead = true
    private var named: Set<Int32> = []
    /// When to look at which.
    private var looks: [Int32: ContinuousClock.Instant] = [:]
    private var allAt: ContinuousClock.Instant
    /// Since when somebody else has led them whenever they were looked at.
    private var ledElsewhere: [Int32: ContinuousClock.Instant] = [:]

    /// All streams at first.
    init(now: ContinuousClock.Instant) {
        allAt = now
    }

    /// What is due now; empty if nothing is.
    mutating func take(now: ContinuousClock.Instant) -> Look {
        guard allAt > now else {
            named = []
            looks = [:]
            allAt = now + Limits.sweepInterval
            return .all
        }
        let due = looks.filter { $0.value <= now }.keys
        for id in due { looks[id] = nil }
        defer { named = [] }
        return .only(named.union(due))
    }

    /// When something is due without anybody saying so.
    var next: ContinuousClock.Instant { looks.values.reduce(allAt, min) }

    mutating func lookAtAll(at time: ContinuousClock.Instant) { allAt = min(allAt, time) }

    /// Somebody appended to these.
    mutating func name(_ ids: some Sequence<Int32>) { named.formUnion(ids) }

    /// Those that somebody else has led for so long that he may be stopped. Until they are named again, a second
    /// passes.
    mutating func takeLedElsewhere(now: ContinuousClock.Instant) -> [Int32] {
        let long = ledElsewhere.filter { now - $0.value >= Limits.leaderSilenceMax }.keys.sorted()
        for id in long { ledElsewhere[id] = now - Limits.leaderSilenceMax + .seconds(1) }
        return long
    }

    mutating func note(_ id: Int32, _ outcome: Outcome, now: ContinuousClock.Instant) {
        if outcome == .ledElsewhere {
            ledElsewhere[id] = ledElsewhere[id] ?? now
        } else {
            ledElsewhere[id] = nil
        }
        switch outcome {
        case .done(let pause): looks[id] = pause.map { now + $0 }
        case .unfinished: looks[id] = now
        case .ledElsewhere: looks[id] = now + Limits.leadRetryPause
        case .failed: looks[id] = now + Limits.failurePause
        }
    }
}
