/// Decides which streams the projector checks next, and when.
///
/// The cost of checking all streams grows with their number, so that is done rarely: notifications name the streams
/// with new events, and the schedule remembers unfinished streams and when the next boundary of each stream is
/// due.
struct StreamSchedule: Sendable {
    enum Selection: Sendable, Hashable {
        case all
        case only(Set<Int32>)
    }

    /// The result of checking a stream.
    enum Outcome: Sendable, Hashable {
        /// The stream is up to date until its next boundary is due; nil if there is none.
        case done(for: Duration?)
        /// There is more to fold, after other streams had their turn.
        case unfinished
        /// Another projector leads the stream. That leader may die without a notification.
        case ledElsewhere
        case failed
    }

    /// True if the last read of the log succeeded, so that repeated failures are logged once.
    var couldRead = true
    private var dirty: Set<Int32> = []
    /// When each stream is due.
    private var dueAt: [Int32: ContinuousClock.Instant] = [:]
    private var sweepAt: ContinuousClock.Instant
    /// Since when another projector has led each stream at every check.
    private var ledElsewhere: [Int32: ContinuousClock.Instant] = [:]

    /// Makes a schedule in which all streams are due.
    init(now: ContinuousClock.Instant) {
        sweepAt = now
    }

    /// Removes and returns the streams that are due; empty if there are none.
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

    /// When the next stream is due without a notification.
    var next: ContinuousClock.Instant { dueAt.values.reduce(sweepAt, min) }

    /// Schedules a check of all streams at this time at the latest.
    mutating func scheduleSweep(at time: ContinuousClock.Instant) { sweepAt = min(sweepAt, time) }

    /// Notes that events were appended to these streams.
    mutating func markDirty(_ ids: some Sequence<Int32>) { dirty.formUnion(ids) }

    /// Streams that another projector has led for so long that it may have stopped. Each is returned again after a
    /// second.
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
