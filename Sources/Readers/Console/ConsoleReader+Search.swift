import Encoding
import EventLog
import Postgres

/// What an id is found as.
package struct SearchHit: Sendable, Hashable {
    package enum Target: Sendable, Hashable {
        /// - Parameter kind: See ``CustomerKey/Kind``.
        case customer(id: String, kind: String)
        case event(Int64)
        case product(String)
    }

    /// In words, such as `transaction`.
    package let kind: String
    package let app: String
    package let environment: String
    package let target: Target

    package init(kind: String, app: String, environment: String, target: Target) {
        self.kind = kind
        self.app = app
        self.environment = environment
        self.target = target
    }

    package var isCustomer: Bool { if case .customer = target { true } else { false } }
}

extension ConsoleReader {
    /// Everything that has exactly this id, in all streams: customers by each of their ids, transactions, orders of Google Play, web orders,
    /// events by notification UUID, digest or position, receipts and purchases on Google Play by digest, products.
    ///
    /// Every part is an index lookup. At most ``Limits/searchHitsMax`` are returned.
    package func search(_ text: String) async throws(ReadError) -> [SearchHit] {
        // Of what the text is not, values that nothing has. Citus does not plan comparisons with null.
        let digits = Self.hexadecimal(text) ?? []
        let position = Int64(text).flatMap { $0 > 0 ? $0 : nil } ?? 0
        let rows = try await rows(
            Self.search,
            [
                Parameter(text), Parameter(text.lowercased()), Parameter(digits), Parameter(position),
                Parameter(Int64(Limits.searchHitsMax)),
            ])
        let hits = try decoding { () throws(PostgresError) in
            var hits: [SearchHit] = []
            for row in rows {
                let id: String = try row.value(at: 4)
                let place: Int64? = try row.optional(at: 5)
                let target: SearchHit.Target
                switch try row.value(String.self, at: 0) {
                case "event": target = .event(place ?? 0)
                case "product": target = .product(id)
                case let kind: target = .customer(id: id, kind: kind)
                }
                hits.append(
                    SearchHit(
                        kind: try row.value(at: 1), app: try row.value(at: 2), environment: try row.value(at: 3),
                        target: target))
            }
            return hits
        }
        return Self.distinct(hits)
    }

    /// Each target once: the first transaction of a subscription has the subscription's id.
    private static func distinct(_ hits: [SearchHit]) -> [SearchHit] {
        struct Place: Hashable {
            let app: String
            let environment: String
            let target: SearchHit.Target
        }
        var seen: Set<Place> = []
        return hits.filter {
            seen.insert(Place(app: $0.app, environment: $0.environment, target: $0.target)).inserted
        }
    }

    /// The bytes of a UUID or digest in hexadecimal digits; nil if the text is neither.
    private static func hexadecimal(_ text: String) -> [UInt8]? {
        let digits = Array(text.replacing("-", with: "").utf8)
        guard digits.count == 32 || digits.count == 64 else { return nil }
        return digits.withUnsafeBufferPointer { Hex.bytes($0, acceptsUpperCase: true) }
    }

    /// `offset 0` makes the planner look each id up in each stream, of which there are few.
    private static let search = Statement(
        "console_search",
        """
        select target, kind, app, environment, id, position
        from (
          select 1 as place, known.kind as target,
            case known.kind
              when 'link' then 'backend customer'
              when 'account' then 'account token'
              when 'app_transaction' then 'app transaction'
              else 'subscription'
            end as kind,
            stream.app, stream.environment, known.id, null::bigint as position
          from subledger.customer_identity as known
          join subledger.stream using (stream_id)
          where known.id = any (array[$1, $2])
            and known.id = case when known.kind = 'account' then $2 else $1 end
          union
          select 2, 'subscription', case when $1 like 'GPA.%' then 'order' else 'transaction' end, stream.app,
            stream.environment, found.original_transaction_id, null
          from subledger.stream
          join subledger.stream_head using (stream_id)
          cross join lateral (
            select original_transaction_id
            from subledger.transaction
            where transaction.stream_id = stream_head.stream_id
              and transaction.transaction_id = $1
            offset 0
          ) as found
          union
          select 3, 'subscription', 'web order line item', stream.app, stream.environment,
            found.original_transaction_id, null
          from subledger.stream
          join subledger.stream_head using (stream_id)
          cross join lateral (
            select original_transaction_id
            from subledger.transaction
            where transaction.stream_id = stream_head.stream_id
              and transaction.web_order_line_item_id = $1
            offset 0
          ) as found
          union
          select 4, 'event', case octet_length($3) when 16 then 'notification UUID' else 'dedupe key' end, stream.app,
            stream.environment, '', found.position
          from subledger.stream
          join subledger.stream_head using (stream_id)
          cross join lateral (
            select position
            from subledger.event
            where event.stream_id = stream_head.stream_id
              and event.dedupe_key = $3
            offset 0
          ) as found
          union
          select 5, 'event', 'receipt digest', stream.app, stream.environment, '', receipt.position
          from subledger.stream
          join subledger.receipt
            on receipt.app = stream.app
            and receipt.receipt_sha256 = $3
          where receipt.stream_id = stream.stream_id
            and receipt.position is not null
          union
          select 6, 'subscription', 'purchase token digest', purchase.app, purchase.environment,
            coalesce(
              subscription.facts::jsonb #>> '{line,originalTransactionId}', subscription.original_transaction_id),
            null
          from (
            select stream.stream_id, stream.app, stream.environment,
              \(PurchaseKey.sql("google_purchase.purchase_token")) as id
            from subledger.stream
            join subledger.google_purchase using (app)
            where google_purchase.token_sha256 = $3
            offset 0
          ) as purchase
          join subledger.subscription
            on subscription.stream_id = purchase.stream_id
            and subscription.original_transaction_id = purchase.id
          union
          select 7, 'event', 'position', stream.app, stream.environment, '', found.position
          from subledger.stream
          join subledger.stream_head using (stream_id)
          cross join lateral (
            select position
            from subledger.event
            where event.stream_id = stream_head.stream_id
              and event.position = $4
            offset 0
          ) as found
          union
          select 8, 'product', 'product', stream.app, stream.environment, $1, null
          from subledger.stream
          where exists (
            select
            from subledger.product
            where product.app = stream.app
              and product.product_id = $1
          )
          or exists (
            select
            from subledger.product_entitlement
            where product_entitlement.app = stream.app
              and product_entitlement.product_id = $1
          )
        ) as hit
        order by place, app collate "C", environment, id collate "C", position
        limit $5
        """)
}
