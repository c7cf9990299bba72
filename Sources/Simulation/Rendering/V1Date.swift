import Encoding

/// The formats of an instant in bodies of version 1.
package enum V1Date {
    /// `2019-11-08 08:13:55 Etc/GMT`
    package static func gmt(_ instant: Instant) -> String { text(instant) + " Etc/GMT" }

    /// `2019-11-08 00:13:55 America/Los_Angeles`, with daylight saving.
    package static func pacific(_ instant: Instant) -> String {
        let hours: Int64 = isDaylightSaving(instant) ? -7 : -8
        return text(instant.advanced(byMilliseconds: hours * hourMilliseconds)) + " America/Los_Angeles"
    }

    private static let hourMilliseconds: Int64 = 3_600_000

    private static func text(_ instant: Instant) -> String {
        let iso8601 = instant.description
        return iso8601.prefix(10) + " " + iso8601.dropFirst(11).prefix(8)
    }

    /// True from 2:00 standard time on the second Sunday of March to 2:00 daylight time on the first Sunday of
    /// November, as US law has required since 2007.
    private static func isDaylightSaving(_ instant: Instant) -> Bool {
        guard let year = Int(instant.description.prefix(4)),
            let begin = sunday(onOrAfter: 8, of: 3, in: year, hourUTC: 10),
            let end = sunday(onOrAfter: 1, of: 11, in: year, hourUTC: 9)
        else { return false }
        return begin <= instant && instant < end
    }

    private static func sunday(onOrAfter day: Int, of month: Int, in year: Int, hourUTC: Int) -> Instant? {
        let first = Instant(year: year, month: month, day: day, hour: hourUTC, minute: 0, second: 0)
        return first.map { instant in
            // 1970-01-01 was a Thursday, the fourth day after a Sunday.
            let weekday = (instant.milliseconds / (24 * hourMilliseconds) + 4) % 7
            return instant.advanced(byMilliseconds: (7 - weekday) % 7 * 24 * hourMilliseconds)
        }
    }
}
