import Encoding
import Subscriptions

/// A day in UTC.
package struct AuditDay: Sendable, Hashable, Comparable {
    /// Its first instant.
    package let start: Instant

    package init(containing instant: Instant) {
        start = Instant(milliseconds: instant.milliseconds / Self.milliseconds * Self.milliseconds) ?? .earliest
    }

    /// Nil unless the text is a date such as `2026-11-22`.
    package init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false).map { Int($0) }
        guard text.utf8.count == 10, parts.count == 3, let year = parts[0], let month = parts[1], let day = parts[2],
            let start = Instant(year: year, month: month, day: day, hour: 0, minute: 0, second: 0)
        else { return nil }
        self.start = start
    }

    /// The first instant after the day.
    package var end: Instant { start.advanced(byMilliseconds: Self.milliseconds) }
    package var next: AuditDay { AuditDay(containing: end) }
    package var previous: AuditDay { AuditDay(containing: start.advanced(byMilliseconds: -1)) }
    /// `2026-11-22`.
    package var text: String { String(start.description.prefix(10)) }

    package static func < (left: AuditDay, right: AuditDay) -> Bool { left.start < right.start }

    private static let milliseconds: Int64 = 86_400_000
}

/// The notifications of version 2 that Apple signed on a day, compared with the log.
package struct DeliveryAudit: Sendable, Hashable {
    package let stream: StreamKey
    package let day: AuditDay
    package let auditedAt: Instant
    package let count: DeliveryCount
    /// Events of source `apple-v2` that Apple signed on the day and that its history does not have.
    package let onlyInLog: Int64

    package init(stream: StreamKey, day: AuditDay, auditedAt: Instant, count: DeliveryCount, onlyInLog: Int64) {
        self.stream = stream
        self.day = day
        self.auditedAt = auditedAt
        self.count = count
        self.onlyInLog = onlyInLog
    }

    /// `{"app":…,"environment":…,"day":…,"made":…,"delivered":…,…,"results":{…},"lags":{…}}`
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("app", stream.app)
            writer.member("environment", stream.environment.rawValue)
            writer.member("day", day.text)
            writer.member("made", count.made)
            writer.member("delivered", count.delivered)
            writer.member("arrived", count.arrived)
            writer.member("fetched", count.fetched)
            writer.member("refused", count.refused)
            writer.member("lost", count.lost)
            writer.member("before", count.before)
            writer.member("answeredLate", count.answeredLate)
            writer.member("onlyInLog", onlyInLog)
            writer.member("attempts", count.attempts)
            writer.key("results")
            count.writeResults(to: &writer)
            writer.key("lags")
            count.writeLags(to: &writer)
        }
    }
}
