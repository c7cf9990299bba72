import Encoding
import EventLog
import Postgres
import Subscriptions

/// Reads customers: their ids, subscriptions and entitlements.
package struct CustomerReader: Sendable {
    let pool: PostgresPool
    private let lookups: CustomerLookups

    package init(pool: PostgresPool) {
        self.pool = pool
        lookups = CustomerLookups(pool: pool)
    }

    /// A lookup of a customer as of an instant.
    package struct Question: Sendable {
        package var customer: Reference
        package var at: Instant

        package init(_ customer: Reference, at: Instant) {
            self.customer = customer
            self.at = at
        }
    }

    /// The entitlements of a customer of one app.
    package struct Found: Sendable {
        package let app: String
        /// The first of the id's kinds.
        package let knownAs: CustomerKey.Kind
        package let entitlements: [Entitlement]
    }

    /// The entitlements of the customer to which an id leads at the instant.
    ///
    /// Concurrent calls share queries.
    package func entitlements(_ question: Question) async throws(ReadError) -> Answer<Found> {
        try await lookups.find(question)
    }

    /// Like ``entitlements(_:)``, for many questions in one query, in their order.
    package func entitlements(_ questions: [Question]) async throws(ReadError) -> [Answer<Found>] {
        try await lookups.find(questions)
    }

    /// Some ids of a customer of one app.
    package struct IDPage: Sendable {
        package let app: String
        /// The first of the id's kinds.
        package let knownAs: CustomerKey.Kind
        /// In the order of ``CustomerKey``.
        package let keys: [CustomerKey]
        /// Whether the customer has ids after these.
        package let hasMore: Bool
    }

    /// The ids of a customer after one of them, or from the first one on. Ids that are also another customer's at
    /// another time are among them.
    ///
    /// - Parameter key: The last id of the page before. The customer need not have it any longer.
    package func ids(
        _ reference: Reference, at instant: Instant, after key: CustomerKey?, limit: Int
    ) async throws(ReadError) -> Answer<IDPage> {
        try await answer(reference, instant) { stored in
            let rows = try await pool.query(
                CustomerReadStatements.ids,
                [
                    Parameter(stored.streamId), Parameter(stored.customer.kind.rawValue),
                    Parameter(stored.customer.id.text), Parameter(key?.kind.rawValue ?? ""),
                    Parameter(key?.id.text ?? ""), Parameter(Int64(limit + 1)),
                ],
                deadline: .now + Limits.readWaitMax)
            var keys: [CustomerKey] = []
            for row in rows {
                guard let key = try row.customerKey(at: 0) else { continue }
                keys.append(key)
            }
            return IDPage(
                app: stored.app, knownAs: stored.kind, keys: Array(keys.prefix(limit)), hasMore: rows.count > limit)
        }
    }

    /// The subscriptions of a customer of one app, as of today.
    package struct Customer: Sendable {
        package let app: String
        /// The first of the id's kinds.
        package let knownAs: CustomerKey.Kind
        /// In byte order of their ids, each with the access that the customer has or had by owning it.
        package let subscriptions: [Subscription]
    }

    /// The customer to which an id leads at an instant, with its subscriptions.
    package func customer(_ reference: Reference, at instant: Instant) async throws(ReadError) -> Answer<Customer> {
        try await answer(reference, instant) { stored in
            Customer(
                app: stored.app, knownAs: stored.kind,
                subscriptions: try await owned(by: stored).map { owned in
                    owned.subscription.owned(during: owned.intervals.map(\.interval))
                })
        }
    }

    /// What a customer of one app gained and lost.
    package struct History: Sendable {
        package let app: String
        /// The first of the id's kinds.
        package let knownAs: CustomerKey.Kind
        /// Newest first.
        package let entries: [HistoryEntry]
        /// Whether there are older entries.
        package let hasMore: Bool
    }

    /// What the customer to which an id leads gained and lost by an instant: the latest entries.
    package func history(
        _ reference: Reference, at instant: Instant, through last: Instant, limit: Int
    ) async throws(ReadError) -> Answer<History> {
        try await answer(reference, instant) { stored in
            let entries = try await owned(by: stored).flatMap { owned in
                owned.subscription.history(ownedDuring: owned.intervals, through: last)
            }.sorted(by: HistoryEntry.isNewer)
            return History(
                app: stored.app, knownAs: stored.kind, entries: Array(entries.prefix(limit)),
                hasMore: entries.count > limit)
        }
    }

    /// The subscriptions that a customer owns or owned, in byte order of their ids.
    func owned(by stored: StoredCustomer) async throws -> [OwnedSubscription] {
        let rows = try await pool.query(
            CustomerReadStatements.subscriptions,
            [
                Parameter(stored.streamId), Parameter(stored.customer.kind.rawValue),
                Parameter(stored.customer.id.text),
            ],
            deadline: .now + Limits.readWaitMax)
        var owned: [OwnedSubscription] = []
        for row in rows {
            let id: String = try row.value(at: 0)
            let start: Timestamptz = try row.value(at: 2)
            let end: Timestamptz = try row.value(at: 3)
            let interval = OwnedInterval(
                start.start..<end.end, position: try row.optional(at: 4), nextPosition: try row.optional(at: 5))
            if let last = owned.last, ByteString(last.subscription.originalTransactionId) == ByteString(id) {
                owned[owned.count - 1].intervals.append(interval)
                continue
            }
            let facts = try SubscriptionFacts(
                originalTransactionId: id, json: try JSONDocument(try row.value(JSONText.self, at: 1).utf8).root)
            owned.append(
                OwnedSubscription(
                    subscription: Subscription(facts, products: stored.products), intervals: [interval],
                    positions: facts.positions))
        }
        return owned
    }

    struct StoredCustomer: CustomerMatch {
        let streamId: Int32
        let app: String
        let kind: CustomerKey.Kind
        let customer: CustomerKey
        let products: ProductCatalog
    }

    /// Finds a customer, and reads more about it.
    func answer<Value: Sendable>(
        _ reference: Reference, _ instant: Instant, _ read: (StoredCustomer) async throws -> Value
    ) async throws(ReadError) -> Answer<Value> {
        do {
            switch try await stored(reference, instant) {
            case .found(let customer): return .found(try await read(customer))
            case .unknown: return .unknown
            case .severalApps(let apps): return .severalApps(apps)
            case .severalKinds(let kinds): return .severalKinds(kinds)
            }
        } catch let error as PostgresError {
            throw ReadError(error)
        } catch let error as ReadError {
            throw error
        } catch {
            throw .damaged(detail: String(describing: error))
        }
    }

    private func stored(
        _ reference: Reference, _ instant: Instant
    ) async throws(PostgresError) -> Answer<StoredCustomer> {
        let rows = try await pool.query(
            CustomerReadStatements.matches,
            [
                Parameter(reference.environment.rawValue), Parameter(reference.app), Parameter(reference.id),
                Parameter(reference.id.lowercased()), Parameter(reference.kind?.rawValue), Parameter(instant),
            ],
            deadline: .now + Limits.readWaitMax)
        var matches: [StoredCustomer] = []
        for row in rows {
            guard let kind = CustomerKey.Kind(rawValue: try row.value(at: 2)),
                let customer = try row.customerKey(at: 3)
            else { continue }
            matches.append(
                StoredCustomer(
                    streamId: try row.value(at: 0), app: try row.value(at: 1), kind: kind,
                    customer: customer, products: ProductCatalog(configured: try row.optional(at: 5) ?? "")))
        }
        return Answer(matches)
    }
}
