import Encoding

extension Instant {
    /// Parses a date and a time of Cupertino, such as `2019-11-08` and `00:13:55`. Nil if they are none.
    ///
    /// By the rule of summer time since 2007, a year before the App Store opened. The hour that comes twice when summer time
    /// ends counts as the first one.
    ///
    /// - Source: Energy Policy Act of 2005, section 110.
    init?(pacificDate date: Substring, time: Substring) {
        guard let clock = Instant(iso8601: "\(date)T\(time)Z"),
            let begin = Self.sunday(2, ofMonth: 3, clock.calendarDate.year),
            let end = Self.sunday(1, ofMonth: 11, clock.calendarDate.year)
        else { return nil }
        let hoursBehind: Int64 = clock >= begin && clock < end ? 7 : 8
        self.init(milliseconds: clock.milliseconds + hoursBehind * 3_600_000)
    }

    /// Two o'clock on a Sunday of a month, as the clock shows it.
    private static func sunday(_ number: Int, ofMonth month: Int, _ year: Int) -> Instant? {
        guard let first = Instant(year: year, month: month, day: 1, hour: 2, minute: 0, second: 0) else { return nil }
        // 1970 began with a Thursday.
        let weekday = (first.milliseconds / 86_400_000 + 4) % 7
        return first.advanced(byMilliseconds: ((7 - weekday) % 7 + 7 * Int64(number - 1)) * 86_400_000)
    }
}
