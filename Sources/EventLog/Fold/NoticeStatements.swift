import Encoding
import Postgres
import Subscriptions

/// SQL for what events say about customers besides their facts. See ``CustomerNotice``.
package enum NoticeStatements {
    /// The kind of the notice in table `event`; null for nearly all events.
    static let kind: SQL = """
        case
            when event.kind = 'consent_rescinded' then 'consent_rescinded'
            when event.kind = 'erasure' and event.source = 'operator' then 'customer_erased'
            when event.kind = 'consumption_request' and event.source = 'apple-v1'
              and event.facts -> 'transactions' = '[]'
              then 'unanswerable_request'
          end
        """

    /// The store account or the subscription that the event names, in the words of index `event_notice_idx`.
    static let id: SQL = """
        case
            when event.kind in ('consent_rescinded', 'erasure')
              or event.kind = 'consumption_request' and event.source = 'apple-v1'
              then coalesce(
                event.facts #>> '{notification,appTransaction,appTransactionId}',
                event.facts #>> '{notification,originalTransactionId}', event.facts #>> '{erasure,subscriptions,0}'
              )
          end
        """

    /// The notices that name the key of table `reached (kind, id)` in the stream `$1`; further conditions follow.
    package static let ofReached: SQL = """
        select \(kind) as notice, event.position, coalesce(event.occurred_at, event.received_at) as at
        from subledger.event
        where event.stream_id = $1
          and (
            event.kind in ('consent_rescinded', 'erasure')
              or event.kind = 'consumption_request' and event.source = 'apple-v1'
          )
          and coalesce(
            event.facts #>> '{notification,appTransaction,appTransactionId}',
            event.facts #>> '{notification,originalTransactionId}', event.facts #>> '{erasure,subscriptions,0}'
          ) = reached.id
          and (event.kind = 'consent_rescinded') = (reached.kind = 'app_transaction')
        """

    /// - Parameter kind: A word of ``kind``; nil for a request that names its purchase, which is no notice.
    package static func notice(
        _ kind: String?, _ id: String?, _ position: Int64, _ at: Instant
    ) throws(PostgresError) -> CustomerNotice? {
        guard let kind = kind.flatMap(CustomerNotice.Kind.init(rawValue:)) else { return nil }
        return CustomerNotice(
            kind, position: position, at: at,
            key: id.map { CustomerKey(kind == .consentRescinded ? .appTransaction : .subscription, $0) })
    }
}
