import Encoding
import EventLog
import Simulation

/// Compares the audits of a run with what the store itself recorded about its notifications.
struct AuditBooks: Sendable {
    /// Each day as one line; empty if all are right.
    let differences: [String]
    let description: String

    /// - Parameters:
    ///   - sent: Every notification of the store.
    ///   - audits: In the order in which they were made, without those that were lost.
    ///   - lost: What arrived then is not in the log because of it.
    init(sent: [SimulatedNotification], audits: [DeliveryAudit], lost: LostTime?) {
        let made = Dictionary(grouping: sent) { AuditDay(containing: $0.signedDate) }
        let audited = Dictionary(grouping: audits, by: \.day)
        var differences: [String] = []
        var total = DeliveryCount()
        for day in Set(made.keys).union(audited.keys).sorted() {
            let audits = audited[day] ?? []
            let expected = Expectation(made[day] ?? [], firstAuditAt: audits.first?.auditedAt, lost)
            let found = audits.last.map { Expectation($0) }
            if found != expected {
                differences.append("\(day.text): expected \(expected), audited \(found.map { "\($0)" } ?? "never")")
            }
            if let last = audits.last { total.add(last.count) }
        }
        self.differences = differences
        description =
            "audited \(total.made) notifications of \(audited.count) days: \(total.arrived) arrived, "
            + "\(total.fetched) fetched, differences: \(differences.count)"
    }

    private struct Expectation: Hashable, CustomStringConvertible {
        var made: Int64
        var delivered: Int64
        var arrived: Int64
        var fetched: Int64
        var attempts: Int64
        var results: [String: Int64] = [:]
        /// Delivered, and not in the log until they were fetched.
        var lost: Int64 = 0
        /// Refused and only in the log.
        var wrong: Int64 = 0

        /// Of the notifications of a day.
        ///
        /// - Parameter firstAuditAt: What had not arrived by then was fetched.
        init(_ notifications: [SimulatedNotification], firstAuditAt: Instant?, _ lostTime: LostTime?) {
            made = Int64(notifications.count)
            var successes: [Instant] = []
            for notification in notifications {
                if let at = notification.attempts.first(where: { $0.result == .success })?.at { successes.append(at) }
                for attempt in notification.attempts { results[attempt.result.rawValue, default: 0] += 1 }
            }
            delivered = Int64(successes.count)
            let inTime = successes.filter { $0 <= firstAuditAt ?? .latest }
            lost = Int64(inTime.count { lostTime?.contains($0) ?? false })
            arrived = Int64(inTime.count) - lost
            fetched = made - arrived
            attempts = results.values.reduce(0, +)
        }

        init(_ audit: DeliveryAudit) {
            made = audit.count.made
            delivered = audit.count.delivered
            arrived = audit.count.arrived
            fetched = audit.count.fetched
            attempts = audit.count.attempts
            results = audit.count.results
            lost = audit.count.lost
            wrong = audit.count.refused + audit.onlyInLog
        }

        var description: String {
            "made \(made), delivered \(delivered), arrived \(arrived), fetched \(fetched), attempts \(attempts), "
                + "lost \(lost), wrong \(wrong)"
        }
    }
}
