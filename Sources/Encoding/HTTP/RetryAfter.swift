/// The header `Retry-After` of a response.
package enum RetryAfter {
    /// Wait for a store without a usable header, and the longest one.
    private static let usual = Duration.seconds(60)
    private static let longest = Duration.seconds(3600)
    /// From here on, a number is a time: as seconds or as milliseconds since 1970.
    private static let firstTime: Int64 = 1_000_000_000
    private static let firstTimeInMilliseconds: Int64 = 100_000_000_000

    /// Returns how long to wait before a store is asked again.
    ///
    /// The header of the App Store Server API is the time of the next allowed request in milliseconds since 1970, and not what
    /// HTTP defines. That of Google is documented nowhere, and obeyed if there is one.
    ///
    /// - Parameters:
    ///   - text: The header; nil if there is none.
    ///   - now: Our clock.
    package static func wait(_ text: String?, at now: Instant) -> Duration {
        guard let text else { return usual }
        let wait: Duration? =
            switch Int64(text) {
            case .some(let number) where number >= firstTimeInMilliseconds:
                .milliseconds(number.subtractingReportingOverflow(now.milliseconds).partialValue)
            case .some(let number) where number >= firstTime: .milliseconds(number * 1000 - now.milliseconds)
            default: pause(text, now: now)
            }
        guard let wait, wait > .zero else { return usual }
        return min(wait, longest)
    }

    /// The pause that the header asks for: a number of seconds, or the time until an HTTP date. Nil for anything else, and for
    /// a date that has passed.
    package static func pause(_ text: String, now: Instant) -> Duration? {
        var trimmed = text[...]
        while trimmed.first?.isWhitespace == true { trimmed.removeFirst() }
        while trimmed.last?.isWhitespace == true { trimmed.removeLast() }
        if !trimmed.isEmpty, trimmed.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) {
            // A longer number is as good as the bound.
            return .seconds(Int64(trimmed.prefix(9)) ?? 0)
        }
        guard let date = date(trimmed), date > now else { return nil }
        return now.duration(to: date)
    }

    /// `Sun, 06 Nov 1994 08:49:37 GMT`
    private static func date(_ text: Substring) -> Instant? {
        let parts = text.split(whereSeparator: { " ,:".contains($0) })
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        guard parts.count == 8, parts[7] == "GMT", let day = Int(parts[1]), let year = Int(parts[3]),
            let month = months.firstIndex(of: String(parts[2])), let hour = Int(parts[4]), let minute = Int(parts[5]),
            let second = Int(parts[6])
        else { return nil }
        return Instant(year: year, month: month + 1, day: day, hour: hour, minute: minute, second: second)
    }
}
