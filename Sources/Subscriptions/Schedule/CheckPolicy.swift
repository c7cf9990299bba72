/// The settings of an app that determine when its subscriptions are checked.
package struct CheckPolicy: Sendable, Hashable {
    /// How long before the end of a period to ask whether it was renewed early; 0 to ask only after the end.
    ///
    /// Applies to subscriptions about which nothing signed is known: signed notifications report early charges.
    package let leadMinutes: Int64
    /// The lead as it was configured; empty if none is.
    package let lead: String
    /// True for test purchases, whose periods last minutes. The App Store's schedule follows the length of the period.
    package private(set) var isOfSandbox = false

    /// The policy of an app that configures none.
    package static let standard = CheckPolicy(leadMinutes: 0, lead: "")

    /// The App Store charges within the last 24 hours before the end of a period, so an earlier check finds nothing.
    private static let leadMinutesMax: Int64 = 24 * 60

    private init(leadMinutes: Int64, lead: String) {
        self.leadMinutes = leadMinutes
        self.lead = lead
    }

    /// The same policy for the purchases of an environment.
    package func of(_ environment: Environment?) -> CheckPolicy {
        var policy = self
        policy.isOfSandbox = environment == .sandbox
        return policy
    }

    /// Parses an ISO 8601 duration in hours and minutes: `PT6H`, `PT90M`, `PT1H30M`. Nil unless it is longer than zero
    /// and at most 24 hours.
    package init?(lead text: String) {
        guard text.hasPrefix("PT") else { return nil }
        var rest = text.dropFirst(2)
        var minutes: Int64 = 0
        for (unit, unitMinutes) in [("H", 60), ("M", 1)] as [(Character, Int64)] {
            let digits = rest.prefix { ("0"..."9").contains($0) }
            let end = digits.endIndex
            guard digits.utf8.count <= 4, end < rest.endIndex, rest[end] == unit, let count = Int64(digits) else {
                continue
            }
            minutes += count * unitMinutes
            rest = rest[rest.index(after: end)...]
        }
        guard rest.isEmpty, minutes > 0, minutes <= Self.leadMinutesMax else { return nil }
        self.init(leadMinutes: minutes, lead: text)
    }

    /// Parses a recorded ``lead``; nil if it is not valid.
    package init?(recorded lead: String) {
        guard !lead.isEmpty else {
            self = .standard
            return
        }
        self.init(lead: lead)
    }
}
