import Encoding
import EventLog
import Postgres
import Subscriptions

/// The last question to the store about a subscription, and the next one.
package struct SubscriptionChecks: Sendable, Hashable {
    package let last: Last?
    package let next: Next?

    package struct Last: Sendable, Hashable {
        package let askedAt: Instant
        package let result: CheckResult
        /// The status number of the answer; nil if there was none.
        package let status: Int32?
    }

    package struct Next: Sendable, Hashable {
        package let at: Instant
        package let reason: Reason

        package enum Reason: Sendable, Hashable {
            case planned(StoreCheck.Reason)
            /// The last question had no usable answer, or a notification came since.
            case again

            /// The word in answers.
            package var label: String {
                switch self {
                case .planned(let reason): reason.rawValue
                case .again: "again"
                }
            }
        }
    }

    /// Nil if none was made and none is planned.
    init?(last: Last?, next: Next?) {
        if last == nil, next == nil { return nil }
        self.last = last
        self.next = next
    }

    /// Nil if none was made and none is planned.
    ///
    /// - Parameters:
    ///   - row: Has the columns from `column` on: time and reason of the next check; time, result, status and position
    ///     of the last one.
    init?(_ row: Row, at column: Int) throws(PostgresError) {
        let word: String? = try row.optional(at: column + 1)
        var next: Next?
        if let at: Instant = try row.optional(at: column), let reason = word.flatMap(StoreCheck.Reason.init(rawValue:))
        {
            next = Next(at: at, reason: .planned(reason))
        }
        self.init(last: try Self.last(row, at: column + 2), next: next)
    }

    /// - Parameter row: Has time, result, status and position of the last check from `column` on.
    static func last(_ row: Row, at column: Int) throws(PostgresError) -> Last? {
        let label: String? = try row.optional(at: column + 1)
        let position: Int64? = try row.optional(at: column + 3)
        guard let askedAt: Instant = try row.optional(at: column),
            let result = label.flatMap({ CheckResult(label: $0, position: position) })
        else { return nil }
        return Last(askedAt: askedAt, result: result, status: try row.optional(at: column + 2))
    }

    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            if let last {
                writer.key("last")
                writer.object { writer in
                    writer.member("at", last.askedAt)
                    writer.member("result", last.result.label)
                    writer.member("status", last.status)
                    writer.member("position", last.result.position)
                }
            }
            if let next {
                writer.key("next")
                writer.object { writer in
                    writer.member("at", next.at)
                    writer.member("reason", next.reason.label)
                }
            }
        }
    }
}
