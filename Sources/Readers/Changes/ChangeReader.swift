import Encoding
import EventLog
import Postgres
import Subscriptions

/// Reads published changes in order.
package struct ChangeReader: Sendable {
    private let pool: PostgresPool

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// The end of the changes of a stream.
    package struct Head: Sendable {
        package let streamId: Int32
        package let number: Int64
        /// All period boundaries up to this instant were published; nil if none ever was.
        package let publishedUntil: Instant?
        /// The database's clock at the time of reading.
        let databaseClock: Instant
    }

    package struct PublishedChange: Sendable {
        /// Counted from 1 without a gap.
        package let number: Int64
        package let publishedAt: Instant
        package let change: Change
        /// The subscription's customer at the time of reading.
        package let customer: Customer
    }

    package struct Page: Sendable {
        package let changes: [PublishedChange]
        /// The instant as of which customers are shown.
        package let asOf: Instant
        /// The number of the last change that was read.
        package let through: Int64
    }

    /// The customer of a changed subscription: its ids, and its entitlements at the time of reading. Entitlements cover
    /// all subscriptions of the customer, so one stays active if another subscription grants it.
    package struct Customer: Sendable {
        /// The first ids of each kind, in the order of ``CustomerKey``.
        package internal(set) var keys: [CustomerKey] = []
        /// Whether the customer has more ids.
        package internal(set) var hasMoreKeys = false
        package internal(set) var entitlements: [Entitlement] = []
    }

    /// The end of the changes of a stream; nil if there is no such stream.
    package func head(of stream: StreamKey) async throws(ReadError) -> Head? {
        do throws(PostgresError) {
            let rows = try await pool.query(
                ChangeReadStatements.end, [Parameter(stream.app), Parameter(stream.environment.rawValue)],
                deadline: .now + Limits.readWaitMax)
            guard rows.count == 1 else { return nil }
            return Head(
                streamId: try rows[0].value(at: 0), number: try rows[0].value(at: 1),
                publishedUntil: try rows[0].optional(at: 2), databaseClock: try rows[0].value(at: 3))
        } catch {
            throw ReadError(error)
        }
    }

    /// The changes after a number.
    ///
    /// - Parameter now: Customers are shown as of this instant, or as of the last publication if that is later: the
    ///   projector's clock may be slightly ahead, and a published change must have happened. The instant is never
    ///   further ahead of both this clock and the database's than a projector may be.
    /// - Returns: Nil if the changes are no longer stored or do not exist yet, so the number is not from this feed.
    package func changes(
        of stream: StreamKey, _ head: Head, after number: Int64, limit: Int, now: Instant
    ) async throws(ReadError) -> Page? {
        guard number <= head.number else { return nil }
        let published = head.publishedUntil ?? now
        let asOf = max(now, published.held(by: max(now, head.databaseClock)))
        do throws(PostgresError) {
            let rows = try await pool.query(
                ChangeReadStatements.page,
                [
                    Parameter(head.streamId), Parameter(number), Parameter(head.number), Parameter(Int64(limit)),
                ],
                deadline: .now + Limits.readWaitMax)
            guard let last = rows.last else {
                return number == head.number ? Page(changes: [], asOf: asOf, through: number) : nil
            }
            guard try rows[0].value(Int64.self, at: 0) == number + 1 else { return nil }
            let subscriptions = try rows.map { row throws(PostgresError) -> String in try row.value(at: 3) }
            let customers = try await customers(of: Set(subscriptions).sorted(), head.streamId, stream.app, asOf)
            var changes: [PublishedChange] = []
            for (row, subscription) in zip(rows, subscriptions) {
                // Skip a change that only a newer version knows.
                guard let change = try Change.read(row, at: 2) else { continue }
                changes.append(
                    PublishedChange(
                        number: try row.value(at: 0), publishedAt: try row.value(at: 1), change: change,
                        customer: customers[subscription] ?? Customer()))
            }
            return Page(changes: changes, asOf: asOf, through: try last.value(at: 0))
        } catch {
            throw ReadError(error)
        }
    }

    private func customers(
        of subscriptions: [String], _ streamId: Int32, _ app: String, _ instant: Instant
    ) async throws(PostgresError) -> [String: Customer] {
        guard !subscriptions.isEmpty else { return [:] }
        func query(_ statement: Statement, _ more: [Parameter]) async throws(PostgresError) -> RowSet {
            try await pool.query(
                statement, [Parameter(streamId), .array(subscriptions)] + more, deadline: .now + Limits.readWaitMax)
        }
        // Both queries look up by subscription, since customers may be merged or split between them.
        var (keyGroups, grantGroups): ([String: String], [String: String]) = ([:], [:])
        var known: [String: Customer] = [:]
        for row in try await query(
            ChangeReadStatements.keysOfSubscriptions, [Parameter(Int64(Limits.changeIdsMax))])
        {
            let group: String = try row.value(at: 0)
            if let hasMore: Bool = try row.optional(at: 3) {
                guard let key = try row.customerKey(at: 1) else { continue }
                known[group, default: Customer()].keys.append(key)
                if hasMore { known[group]?.hasMoreKeys = true }
            } else {
                keyGroups[try row.value(at: 2)] = group
            }
        }
        for group in known.keys { known[group]?.keys.sort() }
        var grants: [String: [Entitlement.Grant]] = [:]
        for row in try await query(ChangeReadStatements.grantsOfSubscriptions, [Parameter(app)]) {
            let group: String = try row.value(at: 0)
            if let grant = try Entitlement.Grant.read(row, at: 1) {
                grants[group, default: []].append(grant)
            } else {
                grantGroups[try row.value(at: 1)] = group
            }
        }
        let entitlements = grants.mapValues { Entitlement.all(of: $0, at: instant) }
        var customers: [String: Customer] = [:]
        for subscription in subscriptions {
            var customer = keyGroups[subscription].flatMap { known[$0] } ?? Customer()
            customer.entitlements = grantGroups[subscription].flatMap { entitlements[$0] } ?? []
            customers[subscription] = customer
        }
        return customers
    }
}

extension Change {
    /// Reads the columns from `kind` to `next_product_id`; nil if only a newer version knows the kind or cause.
    fileprivate static func read(_ row: Row, at column: Int) throws(PostgresError) -> Change? {
        let position: Int64? = try row.optional(at: column + 4)
        guard let kind = Kind(rawValue: try row.value(at: column)),
            let cause = Cause(name: try row.value(at: column + 3), position: position)
        else { return nil }
        return Change(
            kind, of: try row.value(at: column + 1), at: try row.value(at: column + 2), cause: cause,
            productId: try row.optional(at: column + 5),
            until: try row.optional(Timestamptz.self, at: column + 6)?.end,
            autoRenewStatus: try row.optional(at: column + 7), nextProductId: try row.optional(at: column + 8))
    }
}
