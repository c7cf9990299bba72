/// Whether an issue of a magazine may be read, and by which period.
package struct ContentAccess: Sendable, Hashable {
    package enum Rule: String, Sendable {
        /// Published while the period ran.
        case inside
        /// The newest issue there was when the period began.
        case unlockedAtStart = "unlocked_at_start"
    }

    package struct Reach: Sendable, Hashable {
        package let rule: Rule
        package let period: AccessPeriod
    }

    package let published: Instant
    /// Nil when it may not be read.
    package let reachedBy: Reach?
}

extension Subscription {
    /// Judges issues by the times of their publication, at an instant.
    ///
    /// An issue is readable if it was published within a period, grace included, or was the newest one published
    /// when a period began; once reached it stays readable, unless the period that reached it is taken back.
    ///
    /// - Parameter issues: All issues that matter: which of them was the newest at an instant is judged among them
    ///   alone.
    /// - Returns: One answer for each issue, in the order of publication.
    package func contentAccess(issues: [Instant], at instant: Instant) -> [ContentAccess] {
        let issues = Set(issues).sorted()
        let begun = access.filter { $0.start <= instant }
        return issues.enumerated().map { index, published in
            let successor = index + 1 < issues.count ? issues[index + 1] : .latest
            guard published <= instant else { return ContentAccess(published: published, reachedBy: nil) }
            if let period = begun.first(where: { $0.contains(published) }) {
                return ContentAccess(published: published, reachedBy: .init(rule: .inside, period: period))
            }
            let unlocking = begun.first { period in
                period.cause != .grace && published <= period.start && period.start < successor
            }
            return ContentAccess(
                published: published, reachedBy: unlocking.map { .init(rule: .unlockedAtStart, period: $0) })
        }
    }
}

extension ContentAccess {
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("published", published)
            writer.member("readable", reachedBy != nil)
            if let reachedBy {
                writer.member("rule", reachedBy.rule.rawValue)
                writer.key("period")
                reachedBy.period.write(to: &writer)
            }
        }
    }
}
