import Encoding
import EventLog
import Postgres
import Subscriptions

/// Reads customers: their ids, subscriptions and entitlements.
package struct CustomerReader: Sendable {
    let pool: PostgresPool
    private let lookups: CustomerLookups
    private let layout = DatabaseLayout()

    package init(pool: PostgresPool) {
        self.pool = pool
        lookups = CustomerLookups(pool: pool, layout: layout)
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

    /// The customer that an answer is about.
    package struct Identity: Sendable {
        /// The app that was asked for; without one, the first that knows the id.
        package let app: String
        /// The app that is joined with it, if the customer has a part there.
        package let joinedApp: String?
        /// The first of the id's kinds.
        package let knownAs: CustomerKey.Kind
    }

    /// The entitlements of a customer.
    package struct Found: Sendable {
        package let identity: Identity
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

    /// Some ids of a customer.
    package struct IDPage: Sendable {
        package let identity: Identity
        /// In the order of ``CustomerKey``.
        package let keys: [CustomerKey]
        /// Those that only the joined app has.
        package let joinedKeys: Set<CustomerKey>
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
            var own: Set<CustomerKey> = []
            var joined: Set<CustomerKey> = []
            for part in stored.parts {
                let rows = try await pool.query(
                    CustomerReadStatements.ids,
                    [
                        Parameter(part.streamId), Parameter(part.customer.kind.rawValue),
                        Parameter(part.customer.id.text), Parameter(key?.kind.rawValue ?? ""),
                        Parameter(key?.id.text ?? ""), Parameter(Int64(limit + 1)),
                    ],
                    deadline: .now + Limits.readWaitMax)
                for row in rows {
                    guard let key = try row.customerKey(at: 0) else { continue }
                    if part.app == stored.app { own.insert(key) } else { joined.insert(key) }
                }
            }
            let keys = own.union(joined).sorted()
            return IDPage(
                identity: stored.identity, keys: Array(keys.prefix(limit)), joinedKeys: joined.subtracting(own),
                hasMore: keys.count > limit)
        }
    }

    /// The subscriptions of a customer, as of today.
    package struct Customer: Sendable {
        package let identity: Identity
        /// In byte order of their ids, each with the access that the customer has or had by owning it.
        package let subscriptions: [Subscription]
        /// Those of the joined app, in the same way.
        package let joinedSubscriptions: [Subscription]
    }

    /// The customer to which an id leads at an instant, with its subscriptions.
    package func customer(_ reference: Reference, at instant: Instant) async throws(ReadError) -> Answer<Customer> {
        try await answer(reference, instant) { stored in
            let owned = try await owned(by: stored)
            func subscriptions(_ isOf: (OwnedSubscription) -> Bool) -> [Subscription] {
                owned.filter(isOf).map { $0.subscription.owned(during: $0.intervals.map(\.interval)) }
            }
            return Customer(
                identity: stored.identity, subscriptions: subscriptions { $0.joinedApp == nil },
                joinedSubscriptions: subscriptions { $0.joinedApp != nil })
        }
    }

    /// What a customer gained and lost.
    package struct History: Sendable {
        package let identity: Identity
        /// Newest first.
        package let entries: [HistoryEntry]
        /// Whether there are older entries.
        package let hasMore: Bool
    }

    /// What the customer to which an id leads gained and lost by an instant: the latest entries.
    package func history(
        _ reference: Reference, at instant: Instant, through last: Instant, limit: Int
    ) async throws(ReadError) -> Answer<History> {
        try await explained(Question(reference, at: instant), knownAt: nil).map { customer in
            let entries = customer.history(through: last)
            return History(
                identity: customer.identity, entries: Array(entries.prefix(limit)), hasMore: entries.count > limit)
        }
    }

    /// A subscription that a customer owns or owned.
    struct OwnedSubscription {
        /// With all of its access, also that of other owners.
        let subscription: Subscription
        var intervals: [OwnedInterval]
        /// The app that has it, if it is not the answer's but joined with it.
        let joinedApp: String?
    }

    /// The subscriptions that a customer owns or owned, in byte order of their ids.
    func owned(by stored: StoredCustomer) async throws -> [OwnedSubscription] {
        guard stored.parts.count > 1 else { return try await owned(by: stored.parts[0], stored.app) }
        var owned: [[ByteString]: OwnedSubscription] = [:]
        for part in stored.parts {
            for own in try await self.owned(by: part, stored.app) {
                let key = [ByteString(own.subscription.originalTransactionId), ByteString(own.joinedApp ?? "")]
                guard let known = owned[key] else {
                    owned[key] = own
                    continue
                }
                owned[key]?.intervals = (known.intervals + own.intervals).united
            }
        }
        return owned.sorted { $0.key.lexicographicallyPrecedes($1.key) }.map(\.value)
    }

    private func owned(by part: StoredCustomer.Part, _ app: String) async throws -> [OwnedSubscription] {
        let rows = try await pool.query(
            CustomerReadStatements.subscriptions,
            [
                Parameter(part.streamId), Parameter(part.customer.kind.rawValue), Parameter(part.customer.id.text),
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
            let subscription = Subscription(facts, products: part.products)
            owned.append(
                OwnedSubscription(
                    subscription: subscription, intervals: [interval], joinedApp: part.app == app ? nil : part.app))
        }
        return owned
    }

    struct StoredCustomer: CustomerMatch {
        let knownBy: String
        let joinedApp: String?
        let kind: CustomerKey.Kind
        let customer: CustomerKey
        /// See ``Identity/app``.
        let app: String
        /// One for each stream, or several for a stream that has several customers who are one by the links of a joined
        /// app. Never empty.
        var parts: [Part]

        struct Part: Sendable {
            let streamId: Int32
            let app: String
            let customer: CustomerKey
            let products: ProductCatalog
        }

        var identity: Identity {
            Identity(app: app, joinedApp: parts.first { $0.app != app }?.app, knownAs: kind)
        }
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
        } catch {
            throw ReadError(reading: error)
        }
    }

    private func stored(
        _ reference: Reference, _ instant: Instant
    ) async throws(PostgresError) -> Answer<StoredCustomer> {
        let deadline = ContinuousClock.now + Limits.readWaitMax
        let isDistributed = try await layout.isDistributed(pool, deadline: deadline)
        let rows = try await pool.query(
            isDistributed ? CustomerReadStatements.matchesOnNodes : CustomerReadStatements.matches,
            [
                Parameter(reference.environment.rawValue), Parameter(reference.app), Parameter(reference.id),
                Parameter(reference.id.lowercased()), Parameter(reference.kind?.rawValue), Parameter(instant),
            ],
            deadline: deadline)
        var matches: [StoredCustomer] = []
        for row in rows {
            guard let kind = CustomerKey.Kind(rawValue: try row.value(at: 1)),
                let customer = try row.customerKey(at: 2), let own = try row.customerKey(at: 7)
            else { continue }
            let app: String = try row.value(at: 0)
            let part = StoredCustomer.Part(
                streamId: try row.value(at: 5), app: try row.value(at: 6), customer: own,
                products: ProductCatalog(configured: try row.optional(at: 9) ?? ""))
            if let known = matches.firstIndex(where: { $0.knownBy == app && $0.kind == kind }) {
                matches[known].parts.append(part)
                continue
            }
            matches.append(
                StoredCustomer(
                    knownBy: app, joinedApp: try row.optional(at: 4), kind: kind, customer: customer,
                    app: reference.app ?? app, parts: [part]))
        }
        return Answer(matches, of: reference.app)
    }
}
