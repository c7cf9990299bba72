import Postgres

/// SQL for comparing projections with a fresh fold.
enum AuditStatements {
    /// Creates tables like the live ones for this session only. They are emptied at the end of each transaction.
    static let makeTables = """
        create temporary table subscription (like subledger.subscription including indexes) on commit delete rows;
        create temporary table transaction (like subledger.transaction including indexes) on commit delete rows;
        create temporary table access_period (like subledger.access_period including indexes) on commit delete rows;
        create temporary table customer_edge (like subledger.customer_edge including indexes) on commit delete rows
        """

    /// Only temporary tables can be written, and all statements see the same snapshot.
    static let beginSnapshot = Statement(
        "audit_begin_snapshot", "set transaction isolation level repeatable read, read only")

    static let selectTables = Statement("audit_select_tables", "select set_config('search_path', $1, true)")

    static let streamPosition = Statement(
        "audit_stream_position",
        """
        select stream_head.position, checkpoint.position, checkpoint.products, checkpoint.projection_version
        from (select $1::integer as stream_id) as asked
        left join subledger.stream_head using (stream_id)
        left join subledger.checkpoint using (stream_id)
        """)

    static let countSubscriptions = Statement(
        "audit_count_subscriptions",
        """
        select count(*)
        from subledger.subscription
        where stream_id = $1
        """)

    static let pageIds = Statement(
        "audit_page_ids",
        """
        select original_transaction_id
        from subledger.subscription
        where stream_id = $1
          and original_transaction_id > $2
        order by original_transaction_id
        limit $3
        """)

    /// The subscriptions that events mention, as a JSON array of ids that may repeat.
    static let eventSubscriptions = Statement(
        "audit_event_subscriptions",
        """
        select event.position,
          case
            when projector_skip.position is null then
              jsonb_path_query_array(event.facts, '$.transactions[*].originalTransactionId')
                || jsonb_path_query_array(event.facts, '$.renewals[*].originalTransactionId')
            else '[]'
          end::text
        from subledger.event
        left join subledger.projector_skip using (stream_id, position)
        where event.stream_id = $1
          and event.position > $2
        order by event.position
        limit $3
        """)

    /// The columns of ``ProjectionStatements/nextEvents``, for the given positions.
    static let events = Statement(
        "audit_events",
        """
        select event.position, event.received_at, event.occurred_at, event.facts,
          projector_skip.position is not null as is_skipped
        from subledger.event
        left join subledger.projector_skip using (stream_id, position)
        where event.stream_id = $1
          and event.position = any ($2::bigint[])
        order by event.position
        """)

    /// The first row of some subscriptions that differs from the fresh fold or exists on one side only. All columns are
    /// compared by their bytes, including those of later versions, since both tables are made alike.
    static let firstDifference = Statement(
        "audit_first_difference",
        """
        select original_transaction_id, relation, transaction_id, problem
        from (
          select live.original_transaction_id, 'subscription' as relation, null as transaction_id,
            'differs from a fresh fold' as problem
          from subledger.subscription as live
          where live.stream_id = $1
            and live.original_transaction_id = any ($2::text[])
            and not exists (
              select
              from subscription as fresh
              where fresh.stream_id = live.stream_id
                and fresh.original_transaction_id = live.original_transaction_id
                and fresh *= live
            )
          union all
          select fresh.original_transaction_id, 'subscription', null, 'is missing'
          from subscription as fresh
          where not exists (
            select
            from subledger.subscription as live
            where live.stream_id = $1
              and live.original_transaction_id = any ($2::text[])
              and live.original_transaction_id = fresh.original_transaction_id
          )
          union all
          select live.original_transaction_id, 'transaction', live.transaction_id, 'differs from a fresh fold'
          from subledger.transaction as live
          where live.stream_id = $1
            and live.original_transaction_id = any ($2::text[])
            and not exists (
              select
              from transaction as fresh
              where fresh.stream_id = live.stream_id
                and fresh.original_transaction_id = live.original_transaction_id
                and fresh.transaction_id = live.transaction_id
                and fresh *= live
            )
          union all
          select fresh.original_transaction_id, 'transaction', fresh.transaction_id, 'is missing'
          from transaction as fresh
          where not exists (
            select
            from subledger.transaction as live
            where live.stream_id = $1
              and live.original_transaction_id = any ($2::text[])
              and live.original_transaction_id = fresh.original_transaction_id
              and live.transaction_id = fresh.transaction_id
          )
          union all
          select live.original_transaction_id, 'access_period', live.transaction_id, 'differs from a fresh fold'
          from subledger.access_period as live
          where live.stream_id = $1
            and live.original_transaction_id = any ($2::text[])
            and not exists (
              select
              from access_period as fresh
              where fresh.stream_id = live.stream_id
                and fresh.original_transaction_id = live.original_transaction_id
                and fresh.transaction_id = live.transaction_id
                and fresh.cause = live.cause
                and fresh *= live
            )
          union all
          select fresh.original_transaction_id, 'access_period', fresh.transaction_id, 'is missing'
          from access_period as fresh
          where not exists (
            select
            from subledger.access_period as live
            where live.stream_id = $1
              and live.original_transaction_id = any ($2::text[])
              and live.original_transaction_id = fresh.original_transaction_id
              and live.transaction_id = fresh.transaction_id
              and live.cause = fresh.cause
          )
          union all
          select live.original_transaction_id, 'customer_edge', live.kind || ' ' || live.id,
            'differs from a fresh fold'
          from subledger.customer_edge as live
          where live.stream_id = $1
            and live.original_transaction_id = any ($2::text[])
            and not exists (
              select
              from customer_edge as fresh
              where fresh.stream_id = live.stream_id
                and fresh.original_transaction_id = live.original_transaction_id
                and fresh.kind = live.kind
                and fresh.id = live.id
                and fresh *= live
            )
          union all
          select fresh.original_transaction_id, 'customer_edge', fresh.kind || ' ' || fresh.id, 'is missing'
          from customer_edge as fresh
          where not exists (
            select
            from subledger.customer_edge as live
            where live.stream_id = $1
              and live.original_transaction_id = any ($2::text[])
              and live.original_transaction_id = fresh.original_transaction_id
              and live.kind = fresh.kind
              and live.id = fresh.id
          )
        ) as difference
        order by original_transaction_id,
          array_position(array['subscription', 'transaction', 'access_period', 'customer_edge'], relation),
          transaction_id
        limit 1
        """)

    /// The first row whose subscription does not exist, in the columns of ``firstDifference``.
    static let firstOrphan = Statement(
        "audit_first_orphan",
        """
        select original_transaction_id, relation, transaction_id, 'has no subscription' as problem
        from (
          select original_transaction_id, 'transaction' as relation, transaction_id
          from subledger.transaction
          where stream_id = $1
          union all
          select original_transaction_id, 'access_period', transaction_id
          from subledger.access_period
          where stream_id = $1
          union all
          select original_transaction_id, 'customer_edge', kind || ' ' || id
          from subledger.customer_edge
          where stream_id = $1
        ) as part
        where not exists (
          select
          from subledger.subscription
          where subscription.stream_id = $1
            and subscription.original_transaction_id = part.original_transaction_id
        )
        order by original_transaction_id, relation, transaction_id
        limit 1
        """)

    /// The first stream id that has projections in any table but does not exist.
    static let firstStrayStream = Statement(
        "audit_first_stray_stream",
        """
        select stream_id, relation
        from (
          select stream_id, 'checkpoint' as relation
          from subledger.checkpoint
          union
          select stream_id, 'subscription'
          from subledger.subscription
          union
          select stream_id, 'transaction'
          from subledger.transaction
          union
          select stream_id, 'access_period'
          from subledger.access_period
          union
          select stream_id, 'customer_edge'
          from subledger.customer_edge
          union
          select stream_id, 'customer_link'
          from subledger.customer_link
          union
          select stream_id, 'customer_identity'
          from subledger.customer_identity
        ) as projection
        where not exists (
          select
          from subledger.stream
          where stream.stream_id = projection.stream_id
        )
        order by stream_id, relation
        limit 1
        """)
}
