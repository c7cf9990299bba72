import Encoding
import EventLog
import Postgres
import Subscriptions

extension SubscriptionReader {
    /// A subscription of a stream with the facts from which it is computed.
    package struct Stored: Sendable {
        package let facts: SubscriptionFacts
        package let products: ProductCatalog
        package let subscription: Subscription
        /// The position of the last event about the subscription.
        package let position: Int64
    }

    /// A subscription as it was known at an instant, with the facts from which it is computed.
    package struct Known: Sendable {
        package let facts: SubscriptionFacts
        package let subscription: Subscription

        package init(facts: SubscriptionFacts, subscription: Subscription) {
            self.facts = facts
            self.subscription = subscription
        }
    }

    /// The subscriptions of a stream with these ids, in byte order of the ids. Unknown ones are left out.
    ///
    /// - Throws: ``ReadError``.
    package func subscriptions(_ ids: [String], in stream: StreamKey) async throws(ReadError) -> [Stored] {
        guard !ids.isEmpty else { return [] }
        do {
            let rows = try await pool.query(
                Self.findInStream, [Parameter(stream.app), Parameter(stream.environment.rawValue), .array(ids)],
                deadline: .now + Limits.readWaitMax)
            var stored: [Stored] = []
            for row in rows {
                let document = try JSONDocument(try row.value(JSONText.self, at: 2).utf8)
                let facts = try SubscriptionFacts(
                    originalTransactionId: try row.value(at: 0), json: document.root)
                let products = ProductCatalog(configured: try row.optional(at: 3) ?? "")
                stored.append(
                    Stored(
                        facts: facts, products: products, subscription: Subscription(facts, products: products),
                        position: try row.value(at: 1)))
            }
            return stored
        } catch {
            throw ReadError(reading: error)
        }
    }

    /// The subscriptions to which purchases of Google Play lead, or to which all purchases of others moved, in place of
    /// those. Each is there once.
    ///
    /// - Parameter found: Subscriptions of the stream.
    /// - Throws: ``ReadError``.
    package func leading(_ found: [Stored], in stream: StreamKey) async throws(ReadError) -> [Stored] {
        let leads = Set(found.compactMap(\.facts.leadsTo).map(ByteString.init))
        guard !leads.isEmpty else { return found }
        let ids = leads.subtracting(found.map { ByteString($0.facts.originalTransactionId) }).sorted()
        return try await found.filter { $0.facts.leadsTo == nil } + subscriptions(ids.map(\.text), in: stream)
    }

    private static let findInStream = Statement(
        "subscription_find_in_stream",
        """
        select subscription.original_transaction_id, subscription.position, subscription.facts,
          (
            select product_catalog.products
            from subledger.product_catalog
            where product_catalog.app = stream.app
          )
        from subledger.stream
        join subledger.subscription using (stream_id)
        where stream.app = $1
          and stream.environment = $2
          and subscription.original_transaction_id = any ($3::text[])
        order by subscription.original_transaction_id collate "C"
        """)
}
