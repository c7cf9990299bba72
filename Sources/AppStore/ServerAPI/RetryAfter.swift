import Encoding

/// The header `Retry-After` of the App Store Server API: the time of the next allowed request in milliseconds since 1970,
/// and not the seconds or the date that HTTP defines, which are understood as well.
package enum RetryAfter {
    /// Wait without a usable header.
    private static let usual = Duration.seconds(60)
    private static let longest = Duration.seconds(3600)

    /// Returns how long to wait.
    ///
    /// - Parameters:
    ///   - text: The header; nil if there is none.
    ///   - now: Our clock.
    package static func wait(_ text: String?, at now: Instant) -> Duration {
        guard let number = text.flatMap({ Int64($0) }), number > 0 else { return usual }
        let wait: Duration =
            switch number {
            case 100_000_000_000...: .milliseconds(number.subtractingReportingOverflow(now.milliseconds).partialValue)
            case 1_000_000_000...: .milliseconds(number * 1000 - now.milliseconds)
            default: .seconds(number)
            }
        return wait > .zero ? min(wait, longest) : usual
    }
}
