import Encoding
import EventLog
import Postgres
import Subscriptions

extension Ownership {
    /// Reads the columns of ``CustomerStatements/loadOwnership``; nil for a row that the projector does not write.
    static func read(_ row: Row) throws(PostgresError) -> Ownership? {
        guard let owner = try row.customerKey(at: 1), let interval = try row.interval(at: 3),
            let reason = Reason(rawValue: try row.value(at: 5))
        else { return nil }
        return Ownership(
            originalTransactionId: ByteString(try row.value(at: 0)), owner: owner, from: interval.from,
            until: interval.until, reason: reason, position: try row.optional(at: 6))
    }
}

extension CustomerIdentity {
    /// Reads the columns of ``CustomerStatements/loadIdentities``; nil for a row that the projector does not write.
    static func read(_ row: Row) throws(PostgresError) -> CustomerIdentity? {
        guard let key = try row.customerKey(at: 0), let customer = try row.customerKey(at: 2),
            let interval = try row.interval(at: 4)
        else { return nil }
        return CustomerIdentity(key: key, customer: customer, from: interval.from, until: interval.until)
    }
}

extension Row {
    /// The interval in two adjacent columns; nil if it is not one that the projector writes.
    fileprivate func interval(at column: Int) throws(PostgresError) -> (from: Instant, until: Instant)? {
        let start: Timestamptz = try value(at: column)
        let end: Timestamptz = try value(at: column + 1)
        guard Timestamptz(start: start.start) == start, Timestamptz(end: end.end) == end else { return nil }
        return (start.start, end.end)
    }
}
