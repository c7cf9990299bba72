import Encoding

/// Counts the calls of an account in one of Google's days. It has no clock of its own: the caller passes the time.
///
/// Google's days begin at midnight in California. They are counted from midnight in its winter time: in summer, they begin
/// an hour late.
struct DayQuota: Sendable {
    private let callsMax: Int
    private var day: Int64 = .min
    private(set) var calls = 0
    private var strangers = 0

    init(callsMax: Int) {
        self.callsMax = callsMax
    }

    /// Counts a call. Returns how long to wait if the quota is used up.
    ///
    /// - Parameters:
    ///   - isScheduled: True for calls that may use only half of the quota, so that those that notifications lead to have the
    ///     other half.
    ///   - isStranger: True for calls about purchases that nothing proves. They have a share of their own, and use up no
    ///     other.
    mutating func take(at now: Instant, isScheduled: Bool, isStranger: Bool = false) -> Duration? {
        let offset = now.milliseconds - Self.midnight
        let today = offset / Self.dayLength - (offset % Self.dayLength < 0 ? 1 : 0)
        if today != day { (day, calls, strangers) = (today, 0, 0) }
        let hasRoom =
            isStranger
            ? strangers < callsMax / Limits.strangersOfDayDivisor
            : !isScheduled || calls - strangers < callsMax / 2
        guard hasRoom, calls < callsMax else {
            return .milliseconds((today + 1) * Self.dayLength - offset)
        }
        calls += 1
        if isStranger { strangers += 1 }
        return nil
    }

    private static let dayLength: Int64 = 86_400_000
    /// Midnight at UTC-8, after that at UTC.
    private static let midnight: Int64 = 8 * 3_600_000
}
