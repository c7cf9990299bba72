import Encoding

/// The header `Retry-After` of Google's answers, which is documented nowhere and obeyed if there is one: seconds, or a
/// date as HTTP has them.
package enum QuotaPause {
    private static let usual = Duration.seconds(60)
    private static let longest = Duration.seconds(3600)

    /// Returns how long to wait.
    ///
    /// - Parameters:
    ///   - text: The header; nil if there is none.
    ///   - now: Our clock.
    package static func wait(_ text: String?, at now: Instant) -> Duration {
        guard let text else { return usual }
        if let seconds = Int64(text), seconds > 0 { return min(.seconds(seconds), longest) }
        guard let date = instant(httpDate: text) else { return usual }
        let wait = now.duration(to: date)
        return wait > .zero ? min(wait, longest) : usual
    }

    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Parses `Tue, 24 Nov 2026 22:15:00 GMT`.
    private static func instant(httpDate text: String) -> Instant? {
        let parts = text.split(separator: " ")
        guard parts.count == 6, parts[5] == "GMT", let day = Int(parts[1]), let year = Int(parts[3]),
            let month = months.firstIndex(of: String(parts[2]))
        else { return nil }
        let time = parts[4].split(separator: ":").compactMap { Int($0) }
        guard time.count == 3 else { return nil }
        return Instant(
            year: year, month: month + 1, day: day, hour: time[0], minute: time[1], second: time[2])
    }
}
