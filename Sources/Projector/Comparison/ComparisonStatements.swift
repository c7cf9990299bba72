import EventLog
import Postgres

/// SQL for comparing the sources of events.
enum ComparisonStatements {
    static let streams = Statement(
        "comparison_streams",
        """
        select stream.stream_id, stream.environment, stream_head.position, checkpoint.products
        from subledger.stream_head
        join subledger.stream using (stream_id)
        left join subledger.checkpoint using (stream_id)
        where stream.app = $1
        order by stream.stream_id
        """)

    /// Version 1 and answers about receipts. All other sources of the App Store are signed.
    private static let unsigned: SQL = "event.source in ('apple-v1', 'apple-receipt')"

    private static let signed: SQL = "event.source not in ('apple-v1', 'apple-receipt', 'backend', 'operator')"

    private static let notification: SQL = "event.source in ('apple-v1', 'apple-v2', 'apple-history')"

    /// The events of the App Store up to a position, each with whether it is signed, its time, whether it is a
    /// notification, and the subscriptions that it mentions.
    static let mentions = Statement(
        "comparison_mentions",
        """
        select event.position, \(signed), coalesce(event.occurred_at, event.received_at), \(notification),
          (\(AuditStatements.mentioned))::text
        from subledger.event
        left join subledger.projector_skip using (stream_id, position)
        where event.stream_id = $1
          and event.position > $2
          and event.position <= $3
          and event.source like 'apple-%'
          and projector_skip.position is null
        order by event.position
        limit $4
        """)

    /// The answers of the App Store at some positions, each with whether it is signed, its time, and the
    /// subscriptions that it mentions.
    static let answers = Statement(
        "comparison_answers",
        """
        select \(signed), coalesce(event.occurred_at, event.received_at), (\(AuditStatements.mentioned))::text
        from subledger.event
        left join subledger.projector_skip using (stream_id, position)
        where event.stream_id = $1
          and event.position = any ($2::bigint[])
          and event.source like 'apple-%'
          and not \(notification)
          and projector_skip.position is null
        order by event.position
        """)

    static let unsignedEvents = Statement(
        "comparison_unsigned_events",
        """
        \(FoldableEvent.query)
          and event.position = any ($2::bigint[])
          and \(unsigned)
        order by event.position
        """)

    static let signedEvents = Statement(
        "comparison_signed_events",
        """
        \(FoldableEvent.query)
          and event.position = any ($2::bigint[])
          and \(signed)
        order by event.position
        """)
}
