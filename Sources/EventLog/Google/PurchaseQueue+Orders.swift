import Encoding
import Postgres
import Subscriptions

/// What is known of the orders of purchases, so that each is asked about once.
extension PurchaseQueue {
    /// What the last answer about a purchase showed; nil if there was none, or its orders are not known yet.
    package func answered(_ claim: ClaimedPurchase) async throws(ReadError) -> AnsweredPurchase? {
        try await pool.read(
            PurchaseStatements.answered, [Parameter(claim.app), Parameter(claim.purchaseToken)],
            within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> AnsweredPurchase? in
            guard let row = rows.first, let state: String = try row.optional(at: 0) else { return nil }
            return AnsweredPurchase(stateName: state, orderId: try row.optional(at: 1))
        }
    }

    /// Records what an answer showed, after the answers about its orders are stored. Safe to repeat.
    package func record(_ answered: AnsweredPurchase, of claim: ClaimedPurchase) async throws(ReadError) {
        try await pool.run(
            PurchaseStatements.recordAnswered,
            [
                Parameter(claim.app), Parameter(claim.purchaseToken), Parameter(answered.stateName),
                Parameter(answered.orderId),
            ], within: Limits.commitWaitMax)
    }

    /// The newest order of a purchase that Google has answered about.
    package struct NewestOrder: Sendable, Hashable {
        package let orderId: String
        package let purchaseToken: String
        /// SHA-256 of the token, by which a list of these is in order.
        package let tokenDigest: [UInt8]

        /// The order before, of the same purchase; nil if this is the first one. Google counts renewals from `..0` on.
        package var former: NewestOrder? {
            guard let mark = orderId.ranges(of: "..").last, let number = Int(orderId[mark.upperBound...]),
                number >= 0
            else { return nil }
            let first = String(orderId[..<mark.lowerBound])
            return NewestOrder(
                orderId: number == 0 ? first : "\(first)..\(number - 1)", purchaseToken: purchaseToken,
                tokenDigest: tokenDigest)
        }
    }

    /// The newest orders of an app's purchases in production.
    ///
    /// - Parameters:
    ///   - asked: Only of purchases that were asked about since then.
    ///   - last: The digest of the last one of the previous page; empty for the first page.
    package func newestOrders(
        of app: String, askedSince asked: Instant, after last: [UInt8], limit: Int64
    ) async throws(ReadError) -> [NewestOrder] {
        try await pool.read(
            PurchaseStatements.newestOrders, [Parameter(app), Parameter(last), Parameter(asked), Parameter(limit)],
            within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> [NewestOrder] in
            var found: [NewestOrder] = []
            for row in rows {
                found.append(
                    NewestOrder(
                        orderId: try row.value(at: 0), purchaseToken: try row.value(at: 1),
                        tokenDigest: try row.value(at: 2)))
            }
            return found
        }
    }
}

extension PurchaseStatements {
    fileprivate static let newestOrders = Statement(
        "purchase_newest_orders",
        """
        select order_id, purchase_token, token_sha256
        from subledger.google_purchase
        where app = $1
          and token_sha256 > $2
          and order_id is not null
          and environment = 'production'
          and asked_at >= $3
        order by token_sha256
        limit $4
        """)

    fileprivate static let answered = Statement(
        "purchase_answered",
        """
        select state, order_id
        from subledger.google_purchase
        where app = $1
          and token_sha256 = sha256(convert_to($2, 'UTF8'))
        """)

    fileprivate static let recordAnswered = Statement(
        "purchase_record_answered",
        """
        update subledger.google_purchase
        set state = $3,
          order_id = $4
        where app = $1
          and token_sha256 = sha256(convert_to($2, 'UTF8'))
        """)
}
