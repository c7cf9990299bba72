import Encoding
import Postgres

// Purchases of which nothing proves that they exist: backends hand in what apps send, and Google has not answered about them.
extension PurchaseQueue {
    /// The number of purchases that wait for Google's first answer; those that an operator imports are not among them.
    ///
    /// - Returns: At most `limit`.
    package func unanswered(of app: String, limit: Int64) async throws(ReadError) -> Int64 {
        try await pool.read(
            StrangerStatements.waiting, [Parameter(app), Parameter(limit), Parameter(PurchaseRank.scheduled.rawValue)],
            within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> Int64 in try rows[0].value(at: 0) }
    }

    /// Forgets purchases that Google does not know. Safe to repeat, and for several processes at once.
    ///
    /// - Parameter before: Only those about which Google was asked last before this instant.
    /// - Returns: How many; at most `limit`.
    package func forgetUnknown(askedBefore before: Instant, limit: Int64) async throws(ReadError) -> Int {
        try await pool.run(
            StrangerStatements.forget, [Parameter(before), Parameter(limit)], within: Limits.commitWaitMax
        ).count
    }

    private enum StrangerStatements {
        static let waiting = Statement(
            "purchase_unanswered",
            """
            select count(*)
            from (
              select
              from subledger.google_purchase
              where app = $1
                and environment is null
                and due_at is not null
                and rank < $3
              limit $2
            ) as waiting
            """)

        /// A notification that says more than an answer does keeps its purchase.
        static let forget = Statement(
            "purchase_forget_unknown",
            """
            with unknown as (
              select app, token_sha256
              from subledger.google_purchase
              where environment is null
                and due_at is null
                and asked_at < $1
                and result in ('not_found', 'refused', 'gone')
                and answer_position is null
                and not exists (
                  select
                  from subledger.google_notification
                  where google_notification.app = google_purchase.app
                    and google_notification.token_sha256 = google_purchase.token_sha256
                )
              order by asked_at
              limit $2
              for update skip locked
            )
            delete from subledger.google_purchase
            using unknown
            where google_purchase.app = unknown.app
              and google_purchase.token_sha256 = unknown.token_sha256
            returning google_purchase.app
            """)
    }
}
