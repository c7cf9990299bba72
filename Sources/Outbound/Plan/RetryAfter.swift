import Encoding
import Foundation

/// The header Retry-After of a response.
package enum RetryAfter {
    /// The pause that the header asks for: a number of seconds, or the time until an HTTP date. Nil for anything else, and for
    /// a date that has passed.
    package static func pause(_ text: String, now: Instant) -> Duration? {
        let trimmed = text.trimmingCharacters(in: .whitespaces)
        if !trimmed.isEmpty, trimmed.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) {
            // A longer number is as good as the bound.
            return .seconds(Int64(trimmed.prefix(9)) ?? 0)
        }
        guard let date = date(trimmed), date > now else { return nil }
        return now.duration(to: date)
    }

    /// `Sun, 06 Nov 1994 08:49:37 GMT`
    private static func date(_ text: String) -> Instant? {
        let parts = text.split(whereSeparator: { " ,:".contains($0) })
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        guard parts.count == 8, parts[7] == "GMT", let day = Int(parts[1]), let year = Int(parts[3]),
            let month = months.firstIndex(of: String(parts[2])), let hour = Int(parts[4]), let minute = Int(parts[5]),
            let second = Int(parts[6])
        else { return nil }
        return Instant(year: year, month: month + 1, day: day, hour: hour, minute: minute, second: second)
    }
}
