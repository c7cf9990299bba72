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

    /// The entitlements of a customer.
    ///
    /// Concurrent calls share queries.
    package func entitlements(_ question: Question) async throws(ReadError) -> Answer<Found> {
        try await lookups.find(question)
    }

    /// Like ``entitlements(_:)``, for many questions in one query, in their order.
    package func entitlements(_ questions: [Question]) async throws(ReadError) -> [Answer<Found>] {
        try await lookups.find(questions)
    }

    /// All ids of a customer, and its subscriptions as of today.
    package struct Customer: Sendable {
        package let app: String
        /// The first of the id's kinds.
        package let knownAs: CustomerKey.Kind
        /// In order of kind and bytes.
        package let keys: [CustomerKey]
        /// In byte order of their ids.
        package let subscriptions: [Subscription]
    }

    /// The ids and subscriptions of a customer.
    package func customer(_ reference: Reference) async throws(ReadError) -> Answer<Customer> {
        do {
            switch try await group(of: reference) {
            case .found(let group): return .found(try await customer(group))
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

    private struct StoredCustomer: CustomerMatch {
        let streamId: Int32
        let app: String
        let kind: CustomerKey.Kind
        let group: CustomerGroupID
        let products: ProductCatalog
    }

    private func group(of reference: Reference) async throws(PostgresError) -> Answer<StoredCustomer> {
        let rows = try await pool.query(
            CustomerReadStatements.groups,
            [
                Parameter(reference.environment.rawValue), Parameter(reference.app), Parameter(reference.id),
                Parameter(reference.id.lowercased()), Parameter(reference.kind?.rawValue),
            ],
            deadline: .now + Limits.readWaitMax)
        var matches: [StoredCustomer] = []
        for row in rows {
            guard let kind = CustomerKey.Kind(rawValue: try row.value(at: 2)) else { continue }
            matches.append(
                StoredCustomer(
                    streamId: try row.value(at: 0), app: try row.value(at: 1), kind: kind,
                    group: CustomerGroupID(stored: try row.value(at: 3)),
                    products: ProductCatalog(configured: try row.optional(at: 4) ?? "")))
        }
        return Answer(matches)
    }

    private func customer(_ stored: StoredCustomer) async throws -> Customer {
        let members = try await pool.query(
            CustomerReadStatements.members, [Parameter(stored.streamId), Parameter(stored.group.text.text)],
            deadline: .now + Limits.readWaitMax)
        var keys: [CustomerKey] = []
        var subscriptions: [Subscription] = []
        for member in members {
            guard let key = try member.customerKey(at: 0) else { continue }
            keys.append(key)
            guard let facts = try member.optional(JSONText.self, at: 2) else { continue }
            subscriptions.append(
                Subscription(
                    try SubscriptionFacts(originalTransactionId: key.id.text, json: try JSONDocument(facts.utf8).root),
                    products: stored.products))
        }
        return Customer(
            app: stored.app, knownAs: stored.kind, keys: keys.sorted(),
            subscriptions: subscriptions.sorted {
                ByteString($0.originalTransactionId) < ByteString($1.originalTransactionId)
            })
    }
}
