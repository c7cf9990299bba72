/// Limits the log lines of each reason to a number per second, and counts the lines left out.
///
/// It has no clock of its own: the caller passes the time of each line.
struct LineBudget: Sendable {
    enum Verdict: Hashable {
        case write
        /// - summaryDue: When to log the number of lines left out; nil if an earlier line of this second returned it.
        case leaveOut(summaryDue: ContinuousClock.Instant?)
    }

    private struct Second {
        let start: ContinuousClock.Instant
        var written = 0
        var leftOut = 0
    }

    private static let window = Duration.seconds(1)

    private let linesPerSecond: Int
    /// The key is the reason, a word from a closed list.
    private var seconds: [String: Second] = [:]

    init(linesPerSecond: Int) {
        self.linesPerSecond = linesPerSecond
    }

    mutating func admit(_ reason: String, at now: ContinuousClock.Instant) -> Verdict {
        var second = seconds[reason] ?? Second(start: now)
        // A second with lines left out lasts until its summary is written.
        if second.leftOut == 0, now >= second.start + Self.window { second = Second(start: now) }
        defer { seconds[reason] = second }
        if second.written < linesPerSecond {
            second.written += 1
            return .write
        }
        second.leftOut += 1
        return .leaveOut(summaryDue: second.leftOut == 1 ? second.start + Self.window : nil)
    }

    /// Ends the reason's second and returns how many of its lines were left out.
    mutating func close(_ reason: String) -> Int {
        seconds.removeValue(forKey: reason)?.leftOut ?? 0
    }
}
