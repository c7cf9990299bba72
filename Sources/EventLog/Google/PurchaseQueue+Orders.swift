import Postgres
import Subscriptions

/// What is known of the orders of purchases, so that each is asked about once.
extension PurchaseQueue {
    /// What the last answer about a purchase showed; nil if there was none, or its orders are not known yet.
    package func answered(_ claim: ClaimedPurchase) async throws(ReadError) -> AnsweredPurchase? {
        let rows = try await query(
            PurchaseStatements.answered, [Parameter(claim.app), Parameter(claim.purchaseToken)])
        return try decode { () throws(PostgresError) -> AnsweredPurchase? in
            guard let row = rows.first, let state: String = try row.optional(at: 0) else { return nil }
            return AnsweredPurchase(stateName: state, orderId: try row.optional(at: 1))
        }
    }

    /// Records what an answer showed, after the answers about its orders are stored. Safe to repeat.
    package func record(_ answered: AnsweredPurchase, of claim: ClaimedPurchase) async throws(ReadError) {
        _ = try await query(
            PurchaseStatements.recordAnswered,
            [
                Parameter(claim.app), Parameter(claim.purchaseToken), Parameter(answered.stateName),
                Parameter(answered.orderId),
            ], within: Limits.commitWaitMax)
    }
}

extension PurchaseStatements {
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
