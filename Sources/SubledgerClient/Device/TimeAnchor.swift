import Foundation

/// A time that the server stated, with the device's clocks at that moment: from it follows what time it must be at least.
///
/// While the device runs, the time since then is exact, whatever happens to the time of day. After a restart, only the time
/// of day knows how long the device was off: it is read once, and the anchor says when it cannot be right.
struct TimeAnchor: Sendable, Hashable, Codable {
    /// Never later than the true time.
    private var earliest: Date
    /// The best knowledge of the true time.
    private var time: Date
    /// Whether ``time`` is known since the device was started; otherwise the time of day was suspect each time.
    private var isSettled: Bool
    /// The device's clocks at that time.
    private var uptime: TimeInterval
    private var bootId: String?
    /// By how many seconds the time of day was ahead of the true time.
    private var ahead: TimeInterval
    /// The latest time that was taken for the true one.
    private var latestSeen: Date

    /// What the clocks say, all read at once.
    struct Reading: Sendable {
        let now: Date
        let uptime: TimeInterval
        let bootId: String?

        init(_ clock: any TrustedClock) {
            now = clock.now
            uptime = clock.uptime
            bootId = clock.bootId
        }
    }

    struct Judgement: Sendable, Hashable {
        /// The best knowledge of the true time.
        let time: Date
        /// The true time is not earlier.
        let earliest: Date
        /// Whether the time of day ran back.
        let isSuspect: Bool
    }

    init(time: Date, _ reading: Reading) {
        earliest = time
        self.time = time
        isSettled = true
        uptime = reading.uptime
        bootId = reading.bootId
        ahead = reading.now.timeIntervalSince(time)
        latestSeen = time
    }

    private func isSettled(_ reading: Reading) -> Bool {
        isSettled && bootId != nil && bootId == reading.bootId && reading.uptime >= uptime
    }

    func judge(_ reading: Reading) -> Judgement {
        let tolerance = Limits.clockToleranceSeconds
        // After a restart, at least the time since it has passed.
        let passed = reading.uptime >= uptime ? reading.uptime - uptime : reading.uptime
        let earliest = earliest.addingTimeInterval(passed)
        let corrected = reading.now.addingTimeInterval(-ahead)
        let ranBack = { (known: Date) in max(corrected, reading.now) < known.addingTimeInterval(-tolerance) }
        if isSettled(reading) {
            let time = time.addingTimeInterval(passed)
            return Judgement(time: time, earliest: earliest, isSuspect: ranBack(time))
        }
        // A clock that was wrong may have been set right meanwhile: in doubt, the customer keeps access.
        return Judgement(
            time: max(earliest, min(corrected, reading.now)), earliest: earliest,
            isSuspect: ranBack(max(earliest, latestSeen)) || abs(ahead) > tolerance)
    }

    /// Whether the anchor differs from an earlier one by enough to be written to the cache.
    func isNews(to kept: TimeAnchor?) -> Bool {
        guard let kept, kept.bootId == bootId, kept.isSettled == isSettled else { return true }
        return abs(ahead - kept.ahead) > Limits.clockToleranceSeconds
            || !(0..<Limits.keptSeconds).contains(uptime - kept.uptime)
    }

    /// Moves the anchor to now, so that what has passed is known after a restart of the device, too.
    mutating func advance(to reading: Reading) {
        let judgement = judge(reading)
        let wasSettled = isSettled(reading)
        isSettled = wasSettled || !judgement.isSuspect
        // Otherwise the difference remains that of the time before the clock ran back.
        if wasSettled, !judgement.isSuspect { ahead = reading.now.timeIntervalSince(judgement.time) }
        earliest = judgement.earliest
        time = judgement.time
        latestSeen = max(latestSeen, judgement.time)
        uptime = reading.uptime
        bootId = reading.bootId
    }
}
