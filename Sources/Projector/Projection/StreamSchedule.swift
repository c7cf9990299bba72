/// Which streams the projector looks at next, and when.
///
/// Looking at all of them costs as much as there are streams, so that is done seldom: notifications name those that
/// have new events; what could not be finished is remembered, and when the next period of a stream begins or ends.
struct StreamSchedule: Sendable {
    enum Selection: Sendable, Hashable {
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
    private var dirty: Set<Int32> = []
    /// When each stream is due.
    private var dueAt: [Int32: ContinuousClock.Instant] = [:]
    private var sweepAt: ContinuousClock.Instant
    /// Since when another projector has led them whenever they were looked at.
    private var ledElsewhere: [Int32: ContinuousClock.Instant] = [:]

    /// All streams at first.
    init(now: ContinuousClock.Instant) {
        sweepAt = now
    }

    /// What is due now; empty if nothing is.
    mutating func takeDue(now: ContinuousClock.Instant) -> Selection {
        guard sweepAt > now else {
            dirty = []
            dueAt = [:]
            sweepAt = now + Limits.sweepInterval
            return .all
        }
        let due = dueAt.filter { $0.value <= now }.keys
        for id in due { dueAt[id] = nil }
        defer { dirty = [] }
        return .only(dirty.union(due))
    }

    /// When something is due without a notification.
    var next: ContinuousClock.Instant { dueAt.values.reduce(sweepAt, min) }

    /// Has all streams looked at by then.
    mutating func scheduleSweep(at time: ContinuousClock.Instant) { sweepAt = min(sweepAt, time) }

    /// Events were appended to these streams.
    mutating func markDirty(_ ids: some Sequence<Int32>) { dirty.formUnion(ids) }

    /// Streams that another projector has led for so long that it may be stopped. Then it takes a second until they are
    /// returned again.
    mutating func takeLedElsewhere(now: ContinuousClock.Instant) -> [Int32] {
        let long = ledElsewhere.filter { now - $0.value >= Limits.leaderSilenceMax }.keys.sorted()
        for id in long { ledElsewhere[id] = now - Limits.leaderSilenceMax + .seconds(1) }
        return long
    }

    mutating func record(_ id: Int32, _ outcome: Outcome, now: ContinuousClock.Instant) {
        if outcome == .ledElsewhere {
            ledElsewhere[id] = ledElsewhere[id] ?? now
        } else {
            ledElsewhere[id] = nil
        }
        switch outcome {
        case .done(let pause): dueAt[id] = pause.map { now + $0 }
        case .unfinished: dueAt[id] = now
        case .ledElsewhere: dueAt[id] = now + Limits.leadRetryPause
        case .failed: dueAt[id] = now + Limits.failurePause
        }
    }
}
