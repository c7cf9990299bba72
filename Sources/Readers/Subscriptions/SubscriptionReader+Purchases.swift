import Encoding
import EventLog
import Postgres
import Subscriptions

extension SubscriptionReader {
    /// The last question to Google about any of some purchases, and the next one.
    ///
    /// - Parameters:
    ///   - purchases: The keys of the purchases of a subscription.
    ///   - planned: The next question that the schedule names. One that is due before it, because of a notification or of
    ///     the last question, comes first.
    func checks(
        of purchases: [String], in stream: StreamKey, planned: SubscriptionChecks.Next?
    ) async throws -> SubscriptionChecks? {
        let rows = try await pool.query(
            Self.findChecks,
            [Parameter(stream.app), Parameter(stream.environment.rawValue), .array(purchases)],
            deadline: .now + Limits.readWaitMax)
        guard let row = rows.first else { return SubscriptionChecks(last: nil, next: planned) }
        let due: Instant? = try row.optional(at: 0)
        var next = planned
        if let due, due < planned?.at ?? .latest { next = SubscriptionChecks.Next(at: due, reason: .again) }
        return SubscriptionChecks(last: try SubscriptionChecks.last(row, at: 1), next: next)
    }

    private static let findChecks = Statement(
        "subscription_purchase_checks",
        """
        select (
            select min(google_purchase.due_at)
            from unnest($3::text[]) as purchase (key)
            join subledger.google_purchase
              on google_purchase.app = $1
              and google_purchase.token_sha256 = \(PurchaseKey.digest("purchase.key"))
          ), last.asked_at, last.result, last.status, last.position
        from subledger.stream
        left join lateral (
          select of_purchase.asked_at, of_purchase.result, of_purchase.status, of_purchase.position
          from unnest($3::text[]) as purchase (key)
          cross join lateral (
            select store_check.asked_at, store_check.result, store_check.status, store_check.position
            from subledger.store_check
            where store_check.stream_id = stream.stream_id
              and store_check.original_transaction_id = purchase.key
            order by store_check.asked_at desc
            limit 1
          ) as of_purchase
          order by of_purchase.asked_at desc
          limit 1
        ) as last on true
        where stream.app = $1
          and stream.environment = $2
        """)
}
