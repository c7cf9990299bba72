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
        /// Whether the app is joined with another one.
        let isJoined: Bool
    }

    package struct PublishedChange: Sendable {
        /// Numbers are counted from 1 without a gap.
        package let place: ReadPlace
        package let publishedAt: Instant
        package let change: Change
        /// The customer that lost or gained the subscription, for a change of customer; otherwise the subscription's
        /// customer. As it is at the time of reading.
        package let customer: Customer
    }

    package struct Page: Sendable {
        package let changes: [PublishedChange]
        /// The instant as of which customers are shown.
        package let asOf: Instant
        /// The last change that was read.
        package let through: ReadPlace
    }

    /// The customer that a change concerns: its ids, and its entitlements at the time of reading. Entitlements cover
    /// all subscriptions of the customer, so one stays active if another subscription grants it. Those of a joined app
    /// are among them, as they are in ``CustomerReader``.
    package struct Customer: Sendable {
        /// The first ids of each kind, in the order of ``CustomerKey``.
        package internal(set) var keys: [CustomerKey] = []
        /// Whether the customer has more ids.
        package internal(set) var hasMoreKeys = false
        package internal(set) var entitlements: [Entitlement] = []
    }

    /// The end of the changes of a stream; nil if there is no such stream.
    package func head(of stream: StreamKey) async throws(ReadError) -> Head? {
        try await pool.read(
            ChangeReadStatements.end, [Parameter(stream.app), Parameter(stream.environment.rawValue)],
            within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            guard rows.count == 1 else { return nil }
            return Head(
                streamId: try rows[0].value(at: 0), number: try rows[0].value(at: 1),
                publishedUntil: try rows[0].optional(at: 2), databaseClock: try rows[0].value(at: 3),
                isJoined: try rows[0].value(at: 4))
        }
    }

    /// The changes after a place.
    ///
    /// - Parameter now: Customers are shown as of this instant, or as of the last publication if that is later: the
    ///   projector's clock may be slightly ahead, and a published change must have happened. The instant is never
    ///   further ahead of both this clock and the database's than a projector may be.
    /// - Returns: Nil if the change at the place is not stored: the place is not from this feed, or from the lost end of
    ///   a feed that was restored from a backup.
    package func changes(
        of stream: StreamKey, _ head: Head, after place: ReadPlace, limit: Int, now: Instant
    ) async throws(ReadError) -> Page? {
        guard place.number <= head.number else { return nil }
        let published = head.publishedUntil ?? now
        let asOf = max(now, published.held(by: max(now, head.databaseClock)))
        do throws(PostgresError) {
            let rows = try await pool.query(
                ChangeReadStatements.page,
                [
                    Parameter(head.streamId), Parameter(place.number), Parameter(head.number),
                    Parameter(Int64(place.number == 0 ? limit : limit + 1)),
                ],
                deadline: .now + Limits.readWaitMax)
            var through = ReadPlace.start
            var known: [(place: ReadPlace, at: Instant, change: Change)] = []
            for row in rows {
                let found = ReadPlace(number: try row.value(at: 0), check: try row.value(at: 15))
                if found.number > place.number {
                    guard found.number == through.number + 1 else { return nil }
                    // Skip a change that only a newer version knows.
                    if let change = try Change.read(row, at: 2) { known.append((found, try row.value(at: 1), change)) }
                } else if !place.precedes(found) {
                    return nil
                }
                through = found
            }
            guard through.number >= place.number else { return nil }
            let owners = try await owners(
                of: Set(known.filter { $0.change.customer == nil }.map(\.change.originalTransactionId)).sorted(),
                head.streamId, asOf)
            func customer(of change: Change) -> CustomerKey? {
                change.customer ?? owners[change.originalTransactionId]
            }
            let customers = try await customers(
                Set(known.compactMap { customer(of: $0.change) }).sorted(), head, stream.app, asOf)
            let changes = known.map { place, at, change in
                PublishedChange(
                    place: place, publishedAt: at, change: change,
                    customer: customer(of: change).flatMap { customers[$0] } ?? Customer())
            }
            return Page(changes: changes, asOf: asOf, through: through)
        } catch {
            throw ReadError(error)
        }
    }

    private func owners(
        of subscriptions: [String], _ streamId: Int32, _ instant: Instant
    ) async throws(PostgresError) -> [String: CustomerKey] {
        guard !subscriptions.isEmpty else { return [:] }
        var owners: [String: CustomerKey] = [:]
        for row in try await pool.query(
            ChangeReadStatements.customersOfSubscriptions,
            [Parameter(streamId), .array(subscriptions), Parameter(instant)], deadline: .now + Limits.readWaitMax)
        {
            owners[try row.value(at: 0)] = try row.customerKey(at: 1)
        }
        return owners
    }

    /// Customers in one stream, each for the customers that it is a part of.
    private struct Parts {
        let streamId: Int32
        let app: String
        var wholes: [CustomerKey: Set<CustomerKey>]
    }

    private func parts(
        _ keys: [CustomerKey], _ head: Head, _ app: String, _ instant: Instant
    ) async throws(PostgresError) -> [Parts] {
        let own = Parts(
            streamId: head.streamId, app: app, wholes: Dictionary(uniqueKeysWithValues: keys.map { ($0, [$0]) }))
        guard head.isJoined else { return [own] }
        var parts = [head.streamId: own]
        for row in try await pool.query(
            ChangeReadStatements.parts,
            [
                Parameter(head.streamId), .array(keys.map(\.kind.rawValue)), .array(keys.map(\.id.text)),
                Parameter(instant),
            ], deadline: .now + Limits.readWaitMax)
        {
            guard let whole = try row.customerKey(at: 0), let part = try row.customerKey(at: 4) else { continue }
            let streamId: Int32 = try row.value(at: 2)
            let app: String = try row.value(at: 3)
            parts[streamId, default: Parts(streamId: streamId, app: app, wholes: [:])]
                .wholes[part, default: []].insert(whole)
        }
        return parts.values.sorted { $0.streamId < $1.streamId }
    }

    private func customers(
        _ keys: [CustomerKey], _ head: Head, _ app: String, _ instant: Instant
    ) async throws(PostgresError) -> [CustomerKey: Customer] {
        guard !keys.isEmpty else { return [:] }
        var found: [CustomerKey: Set<CustomerKey>] = [:]
        var customers = Dictionary(uniqueKeysWithValues: keys.map { ($0, Customer()) })
        var grants: [CustomerKey: [Entitlement.Grant]] = [:]
        for parts in try await parts(keys, head, app, instant) {
            let asked: [Parameter] = [
                Parameter(parts.streamId), .array(parts.wholes.keys.map(\.kind.rawValue)),
                .array(parts.wholes.keys.map(\.id.text)),
            ]
            for row in try await pool.query(
                ChangeReadStatements.keysOfCustomers, asked + [Parameter(Int64(Limits.changeIdsMax))],
                deadline: .now + Limits.readWaitMax)
            {
                guard let part = try row.customerKey(at: 0), let key = try row.customerKey(at: 2) else { continue }
                let hasMore: Bool = try row.value(at: 4)
                for whole in parts.wholes[part] ?? [] {
                    found[whole, default: []].insert(key)
                    if hasMore { customers[whole]?.hasMoreKeys = true }
                }
            }
            for row in try await pool.query(
                ChangeReadStatements.grantsOfCustomers, asked + [Parameter(parts.app)],
                deadline: .now + Limits.readWaitMax)
            {
                guard let part = try row.customerKey(at: 0),
                    let grant = try Entitlement.Grant.read(row, at: 2, joinedApp: parts.app == app ? nil : parts.app)
                else { continue }
                for whole in parts.wholes[part] ?? [] { grants[whole, default: []].append(grant) }
            }
        }
        for customer in keys {
            customers[customer]?.show(found[customer] ?? [])
            customers[customer]?.entitlements = Entitlement.all(of: grants[customer] ?? [], at: instant)
        }
        return customers
    }
}

extension ChangeReader.Customer {
    /// Sets the ids, at most ``Limits/changeIdsMax`` of each kind.
    fileprivate mutating func show(_ found: Set<CustomerKey>) {
        for kind in CustomerKey.Kind.allCases {
            let all = found.filter { $0.kind == kind }.sorted()
            keys += all.prefix(Limits.changeIdsMax)
            if all.count > Limits.changeIdsMax { hasMoreKeys = true }
        }
        keys.sort()
    }
}

extension Change {
    /// Reads the columns from `kind` to `seats`, and `reason` after the check value; nil if only a newer version knows the kind or cause.
    fileprivate static func read(_ row: Row, at column: Int) throws(PostgresError) -> Change? {
        let position: Int64? = try row.optional(at: column + 4)
        guard let kind = Kind(rawValue: try row.value(at: column)),
            let cause = Cause(name: try row.value(at: column + 3), position: position)
        else { return nil }
        let seats: (Int32?, Int32?) = (try row.optional(at: column + 11), try row.optional(at: column + 12))
        var change = Change(
            kind, of: try row.value(at: column + 1), at: try row.value(at: column + 2), cause: cause,
            productId: try row.optional(at: column + 5),
            until: try row.optional(Timestamptz.self, at: column + 6)?.end,
            autoRenewStatus: try row.optional(at: column + 7), nextProductId: try row.optional(at: column + 8),
            seats: seats.0.flatMap { before in
                seats.1.map { Change.Seats(before: Int(before), now: Int($0)) }
            },
            customer: try row.optional(String.self, at: column + 9) == nil ? nil : row.customerKey(at: column + 9))
        change.reason = try row.optional(at: column + 14)
        return change
    }
}
