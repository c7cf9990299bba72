import Encoding
import Postgres
import Subscriptions

/// SQL for what events say about customers besides their facts. See ``CustomerNotice``.
package enum NoticeStatements {
    /// The kind of the notice in table `event`; null for nearly all events.
    static let kind: SQL = """
        case
            when event.kind = 'consent_rescinded' then 'consent_rescinded'
            when event.kind = 'consumption_request' and event.source = 'apple-v1'
              and event.facts -> 'transactions' = '[]'
              then 'unanswerable_request'
          end
        """

    /// The store account or the subscription that the event names, in the words of index `event_notice_idx`.
    static let id: SQL = """
        case
            when event.kind = 'consent_rescinded'
              or event.kind = 'consumption_request' and event.source = 'apple-v1'
              then coalesce(
                event.facts #>> '{notification,appTransaction,appTransactionId}',
                event.facts #>> '{notification,originalTransactionId}'
              )
          end
        """

    /// The notices about the store accounts and the subscriptions of a customer, oldest first: its customer's kind and id
    /// are `$2` and `$3`.
    package static let ofCustomer = Statement(
        "customer_notices",
        """
        select \(kind) as notice, identity.id, event.position, coalesce(event.occurred_at, event.received_at) as at
        from subledger.customer_identity as identity
        join subledger.event
          on event.stream_id = $1
          and (event.kind = 'consent_rescinded' or event.kind = 'consumption_request' and event.source = 'apple-v1')
          and coalesce(
            event.facts #>> '{notification,appTransaction,appTransactionId}',
            event.facts #>> '{notification,originalTransactionId}'
          ) = identity.id
          and (event.kind = 'consent_rescinded') = (identity.kind = 'app_transaction')
        where identity.stream_id = $1
          and identity.customer_kind = $2
          and identity.customer_id = $3
          and identity.kind in ('app_transaction', 'subscription')
          and coalesce(event.occurred_at, event.received_at) >= identity.starts_at
          and coalesce(event.occurred_at, event.received_at) < identity.ends_at
        order by event.position
        limit $4
        """)

    /// Reads a row of ``ofCustomer``; nil for a request that names its purchase.
    package static func read(_ row: Row) throws(PostgresError) -> CustomerNotice? {
        try notice(try row.optional(at: 0), try row.optional(at: 1), try row.value(at: 2), try row.value(at: 3))
    }

    static func notice(
        _ kind: String?, _ id: String?, _ position: Int64, _ at: Instant
    ) throws(PostgresError) -> CustomerNotice? {
        guard let kind = kind.flatMap(CustomerNotice.Kind.init(rawValue:)) else { return nil }
        return CustomerNotice(
            kind, position: position, at: at,
            key: id.map { CustomerKey(kind == .consentRescinded ? .appTransaction : .subscription, $0) })
    }
}
