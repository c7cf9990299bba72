import Encoding

/// Whether a magazine issue is readable, and which period unlocks it.
package struct ContentAccess: Sendable, Hashable {
    package enum Rule: String, Sendable {
        /// The issue was published during the period.
        case inside
        /// The issue was the newest one when the period began.
        case unlockedAtStart = "unlocked_at_start"
    }

    package struct Reach: Sendable, Hashable {
        package let rule: Rule
        package let period: AccessPeriod
    }

    package let publishedAt: Instant
    /// The period that unlocks the issue and the rule by which it does; nil if the issue is not readable.
    package let reachedBy: Reach?
}

extension Subscription {
    /// Evaluates issues by publication time, as of an instant.
    ///
    /// An issue is readable if it was published within a period, grace included, or was the newest one when a period
    /// began. It stays readable unless the period that unlocked it is revoked.
    ///
    /// - Parameter issues: Publication times of all relevant issues: the newest one at an instant is determined among
    ///   these.
    /// - Returns: One result per distinct publication time, in order of publication.
    package func contentAccess(issues: [Instant], at instant: Instant) -> [ContentAccess] {
        let issues = Set(issues).sorted()
        let begun = access.filter { $0.start <= instant }
        return issues.enumerated().map { index, published in
            let successor = index + 1 < issues.count ? issues[index + 1] : .latest
            guard published <= instant else { return ContentAccess(publishedAt: published, reachedBy: nil) }
            if let period = begun.first(where: { $0.contains(published) }) {
                return ContentAccess(publishedAt: published, reachedBy: .init(rule: .inside, period: period))
            }
            let unlocking = begun.first { period in
                period.cause != .grace && published <= period.start && period.start < successor
            }
            return ContentAccess(
                publishedAt: published, reachedBy: unlocking.map { .init(rule: .unlockedAtStart, period: $0) })
        }
    }
}

extension ContentAccess {
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("publishedAt", publishedAt)
            writer.member("readable", reachedBy != nil)
            if let reachedBy {
                writer.member("rule", reachedBy.rule.rawValue)
                writer.key("period")
                reachedBy.period.write(to: &writer)
            }
        }
    }
}
