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
        package var app: String?
        package var environment: Environment
        /// The backend's own id, an `appAccountToken`, an `appTransactionId` or an `originalTransactionId`: the first
        /// of these kinds that matches.
        package var customerId: String
        package var at: Instant

        package init(app: String?, environment: Environment, customerId: String, at: Instant) {
            self.app = app
            self.environment = environment
            self.customerId = customerId
            self.at = at
        }
    }

    /// A customer of one app.
    package struct Found: Sendable {
        package let app: String
        package let knownAs: CustomerKey.Kind
        package internal(set) var entitlements: [Entitlement]
    }

    /// The customer with this id: one for each app that has it, in order of bundle id.
    ///
    /// Concurrent calls share queries.
    package func entitlements(_ question: Question) async throws(ReadError) -> [Found] {
        try await lookups.find(question)
    }

    /// Like ``entitlements(_:)``, for many questions in one query, in their order.
    package func entitlements(_ questions: [Question]) async throws(ReadError) -> [[Found]] {
        try await lookups.find(questions)
    }

    /// All ids of a customer, and its subscriptions as of today.
    package struct Customer: Sendable {
        package let app: String
        package let knownAs: CustomerKey.Kind
        /// In order of kind and bytes.
        package let keys: [CustomerKey]
        /// In byte order of their ids.
        package let subscriptions: [Subscription]
    }

    /// Like ``entitlements(_:)``, but returns ids and subscriptions.
    package func customers(
        _ customerId: String, environment: Environment, app: String?
    ) async throws(ReadError) -> [Customer] {
        do {
            let found = try await pool.query(
                CustomerReadStatements.groups,
                [
                    Parameter(environment.rawValue), Parameter(app), Parameter(customerId),
                    Parameter(customerId.lowercased()),
                ],
                deadline: .now + Limits.readWaitMax)
            var customers: [Customer] = []
            for row in found {
                let kind: String = try row.value(at: 2)
                let products = ProductCatalog(configured: try row.optional(at: 4) ?? "")
                let members = try await pool.query(
                    CustomerReadStatements.members,
                    [Parameter(try row.value(Int32.self, at: 0)), Parameter(try row.value(String.self, at: 3))],
                    deadline: .now + Limits.readWaitMax)
                var keys: [CustomerKey] = []
                var subscriptions: [Subscription] = []
                for member in members {
                    guard let key = try member.customerKey(at: 0) else { continue }
                    keys.append(key)
                    guard let facts = try member.optional(JSONText.self, at: 2) else { continue }
                    subscriptions.append(
                        Subscription(
                            try SubscriptionFacts(
                                originalTransactionId: key.id.text, json: try JSONDocument(facts.utf8).root),
                            products: products))
                }
                customers.append(
                    Customer(
                        app: try row.value(at: 1), knownAs: CustomerKey.Kind(rawValue: kind) ?? .subscription,
                        keys: keys.sorted(),
                        subscriptions: subscriptions.sorted {
                            ByteString($0.originalTransactionId) < ByteString($1.originalTransactionId)
                        }))
            }
            return customers
        } catch let error as PostgresError {
            throw ReadError(error)
        } catch let error as ReadError {
            throw error
        } catch {
            throw .damaged(detail: String(describing: error))
        }
    }
}
