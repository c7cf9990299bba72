import Postgres
import Subscriptions

extension PurchaseQueue {
    /// The account token that a backend has linked to the owner of a purchase; of several, the one that was linked last.
    /// Nil if the owner is no customer of the backend, or has linked none.
    ///
    /// - Parameter purchase: Its key.
    package func linkedAccount(
        ofOwnerOf purchase: String, in stream: StreamKey
    ) async throws(ReadError) -> String? {
        try await pool.read(
            PurchaseStatements.linkedAccount,
            [Parameter(stream.app), Parameter(stream.environment.rawValue), Parameter(purchase)],
            within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> String? in
            rows.count > 0 ? try rows[0].value(at: 0) : nil
        }
    }
}

extension PurchaseStatements {
    static let linkedAccount = Statement(
        "google_linked_account",
        """
        select customer_link.id
        from subledger.stream
        join subledger.customer_identity as owner using (stream_id)
        join subledger.customer_link
          on customer_link.stream_id = stream.stream_id
          and customer_link.backend_customer_id = owner.customer_id
          and customer_link.kind = 'account'
          and customer_link.replaced_position is null
        where stream.app = $1
          and stream.environment = $2
          and owner.kind = 'subscription'
          and owner.id = $3
          and owner.ends_at = 'infinity'
          and owner.customer_kind = 'link'
        order by customer_link.position desc, customer_link.id collate "C"
        limit 1
        """)
}
