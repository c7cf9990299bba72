/// The settings of an app that determine when its subscriptions are checked.
package struct CheckPolicy: Sendable, Hashable {
    /// How long before the end of a period to ask whether it was renewed early; 0 to ask only after the end.
    ///
    /// Applies to subscriptions about which nothing signed is known: signed notifications report early charges.
    package let leadSeconds: Int32

    /// The policy of an app that configures none.
    package static let standard = CheckPolicy(leadSeconds: 0)

    /// The App Store charges within the last 24 hours before the end of a period, so an earlier check finds nothing.
    package static let leadSecondsMax: Int32 = 86_400

    /// - Parameter leadSeconds: 0 to ``leadSecondsMax``; other values are clamped.
    package init(leadSeconds: Int32) {
        self.leadSeconds = min(max(leadSeconds, 0), Self.leadSecondsMax)
    }

    /// Parses an ISO 8601 duration in hours or minutes: `PT6H`, `PT90M`, `PT1H30M`. Nil unless it is longer than zero
    /// and at most 24 hours.
    package init?(lead text: String) {
        var rest = Substring(text)
        guard rest.hasPrefix("PT") else { return nil }
        rest = rest.dropFirst(2)
        var seconds: Int32 = 0
        for (unit, unitSeconds) in [("H", 3600), ("M", 60)] as [(Character, Int32)] {
            let digits = rest.prefix { ("0"..."9").contains($0) }
            let end = digits.endIndex
            guard !digits.isEmpty, digits.count <= 4, end < rest.endIndex, rest[end] == unit, let count = Int32(digits)
            else { continue }
            seconds += count * unitSeconds
            rest = rest[rest.index(after: end)...]
        }
        guard rest.isEmpty, seconds > 0, seconds <= Self.leadSecondsMax else { return nil }
        leadSeconds = seconds
    }
}
