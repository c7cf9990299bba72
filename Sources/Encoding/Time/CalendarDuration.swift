/// An ISO 8601 duration in calendar units, such as `P1Y2M3W4D`.
package struct CalendarDuration: Sendable, Hashable {
    package let months: Int
    package let days: Int

    /// Nil unless the text is `P` followed by at least one of years, months, weeks and days, in this order, and the
    /// duration is not zero. Hours are not accepted: no product is sold by the hour.
    package init?(iso8601 text: String) {
        // The database accepts only ASCII digits.
        let format = /P(?:(\d{1,4})Y)?(?:(\d{1,4})M)?(?:(\d{1,4})W)?(?:(\d{1,5})D)?/.asciiOnlyDigits()
        guard let match = text.wholeMatch(of: format) else { return nil }
        func number(_ digits: Substring?) -> Int { digits.flatMap { Int($0) } ?? 0 }
        months = number(match.output.1) * 12 + number(match.output.2)
        days = number(match.output.3) * 7 + number(match.output.4)
        guard months > 0 || days > 0 else { return nil }
    }
}

extension Instant {
    /// Returns the instant shifted by the duration, with the same time of day in UTC. A day that the resulting month
    /// does not have becomes its last day. Returns ``latest`` after year 9999.
    package func advanced(by duration: CalendarDuration) -> Instant {
        advanced(byMonths: duration.months, days: duration.days)
    }

    /// Like ``advanced(by:)``, for numbers of months and days, either of which may be zero.
    package func advanced(byMonths months: Int, days: Int = 0) -> Instant {
        let date = calendarDate
        let month = date.year * 12 + date.month - 1 + months
        guard
            let shifted = Instant(
                year: month / 12, month: month % 12 + 1,
                day: min(date.day, Self.days(in: month % 12 + 1, of: month / 12)), hour: 0, minute: 0, second: 0)
        else { return .latest }
        return shifted.advanced(byMilliseconds: Int64(days) * 86_400_000 + milliseconds % 86_400_000)
    }

    /// The time until another instant as an ISO 8601 duration: in months if these are right to half a day, otherwise in
    /// weeks or days. Nil if it is shorter than half a day, or longer than 99 days and not a number of months up to 12.
    package func isoDuration(until end: Instant) -> String? {
        let day: Int64 = 86_400_000
        for months in 1...12 where abs(advanced(byMonths: months).milliseconds - end.milliseconds) < day / 2 {
            return "P\(months)M"
        }
        let days = (end.milliseconds - milliseconds + day / 2) / day
        guard 1...99 ~= days else { return nil }
        return days % 7 == 0 ? "P\(days / 7)W" : "P\(days)D"
    }
}
