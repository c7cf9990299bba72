import EventLog
import Postgres

/// SQL for comparing projections with a fresh fold.
enum AuditStatements {
    /// The tables that are compared by subscription, each with the expression that names a row beside its subscription.
    private static let compared: [(table: ProjectionTable, row: SQL)] = [
        (.subscription, "null"), (.transaction, "transaction_id"), (.accessPeriod, "transaction_id"),
        (.refundedPeriod, "transaction_id"), (.checkSchedule, "null"), (.customerEdge, "kind || ' ' || id"),
    ]

    /// Creates tables like the live ones for this session only. They are emptied at the end of each transaction.
    static let makeTables = compared.map { table, _ -> SQL in
        "create temporary table \(table.name) (like subledger.\(table.name) including indexes) on commit delete rows"
    }.joined(separator: ";\n")

    /// Only temporary tables can be written, and all statements see the same snapshot.
    static let beginSnapshot = Statement(
        "audit_begin_snapshot", "set transaction isolation level repeatable read, read only")

    static let selectTables = Statement("audit_select_tables", "select set_config('search_path', $1, true)")

    static let streamPosition = Statement(
        "audit_stream_position",
        """
        select stream_head.position, checkpoint.position, checkpoint.products, checkpoint.projection_version,
          checkpoint.ownership, checkpoint.check_lead, stream.environment
        from (select $1::integer as stream_id) as asked
        left join subledger.stream_head using (stream_id)
        left join subledger.checkpoint using (stream_id)
        left join subledger.stream using (stream_id)
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

    /// The subscriptions that an event mentions, as a JSON array of ids that may repeat.
    static let mentioned: SQL = """
        jsonb_path_query_array(event.facts, '$.transactions[*].originalTransactionId')
          || jsonb_path_query_array(event.facts, '$.renewals[*].originalTransactionId')
          || jsonb_path_query_array(event.facts, '$.accountDeletions[*].originalTransactionId')
          || jsonb_path_query_array(event.facts, '$.erasure.subscriptions[*]')
          || jsonb_path_query_array(event.facts, '$.seat.originalTransactionId')
          || jsonb_path_query_array(event.facts, '$.purchases[*].purchaseToken')
          || jsonb_path_query_array(event.facts, '$.purchases[*].linkedPurchaseToken')
        """

    /// The subscriptions that events mention; none for skipped events.
    static let eventSubscriptions = Statement(
        "audit_event_subscriptions",
        """
        select event.position,
          case
            when projector_skip.position is null then \(mentioned)
            else '[]'
          end::text
        from subledger.event
        left join subledger.projector_skip using (stream_id, position)
        where event.stream_id = $1
          and event.position > $2
          and event.position <= $3
        order by event.position
        """)

    static let lastPosition = Statement(
        "audit_last_position",
        """
        select coalesce(max(position), 0)
        from subledger.event
        where stream_id = $1
        """)

    static let events = Statement(
        "audit_events",
        """
        \(FoldableEvent.query)
          and event.position = any ($2::bigint[])
        order by event.position
        """)

    /// Those of some subscriptions that are tied to other subscriptions.
    static let tied = Statement(
        "audit_tied",
        """
        select distinct original_transaction_id
        from subledger.customer_edge
        where stream_id = $1
          and original_transaction_id = any ($2::text[])
          and kind = 'subscription'
        """)

    /// The first transaction of Apple that several subscriptions have, in the columns of ``firstDifference``: each belongs
    /// to one.
    static let firstSharedTransaction = Statement(
        "audit_first_shared_transaction",
        """
        select subscription.original_transaction_id, 'transaction' as relation, shared.transaction_id,
          'is of another subscription, too' as problem
        from (
          select transaction_id, min(original_transaction_id) as original_transaction_id
          from subledger.transaction
          where stream_id = $1
          group by transaction_id
          having count(*) > 1
        ) as shared
        join subledger.subscription
          on subscription.stream_id = $1
          and subscription.original_transaction_id = shared.original_transaction_id
        where not subscription.facts::jsonb ? 'purchases'
        order by shared.transaction_id
        limit 1
        """)

    /// The stored facts of some subscriptions.
    static let facts = Statement(
        "audit_facts",
        """
        select original_transaction_id, position, facts
        from subledger.subscription
        where stream_id = $1
          and original_transaction_id = any ($2::text[])
        """)

    /// Copies what does not follow from the log into the fresh rows, so that it is not compared.
    static let copyNextChecks = Statement(
        "audit_copy_next_checks",
        """
        update check_schedule as fresh
        set next_at = live.next_at,
          asking_until = live.asking_until
        from subledger.check_schedule as live
        where live.stream_id = fresh.stream_id
          and live.original_transaction_id = fresh.original_transaction_id
        """)

    /// The first row of some subscriptions that differs from the fresh fold or exists on one side only. All columns are
    /// compared by their bytes, including those of later versions, since both tables are made alike.
    static let firstDifference = Statement(
        "audit_first_difference",
        """
        select original_transaction_id, relation, transaction_id, problem
        from (
          \(differences)
        ) as difference
        order by original_transaction_id,
          array_position(array[\(relations)], relation), transaction_id
        limit 1
        """)

    private static let relations = compared.map { table, _ -> SQL in "'\(table.name)'" }.joined(separator: ", ")

    private static let differences = compared.map { table, row -> SQL in
        """
        select original_transaction_id, '\(table.name)' as relation, \(row) as transaction_id,
          'differs from a fresh fold' as problem
        from subledger.\(table.name) as live
        where stream_id = $1
          and original_transaction_id = any ($2::text[])
          and not exists (
            select
            from (select * from \(table.name)) as fresh
            where fresh.stream_id = live.stream_id
              and \(table.sameKey)
              and fresh *= live
          )
        union all
        select original_transaction_id, '\(table.name)', \(row), 'is missing'
        from (select * from \(table.name)) as fresh
        where not exists (
          select
          from subledger.\(table.name) as live
          where live.stream_id = $1
            and live.original_transaction_id = any ($2::text[])
            and \(table.sameKey)
        )
        """
    }.joined(separator: "\nunion all\n")

    /// The first row whose subscription does not exist, in the columns of ``firstDifference``.
    static let firstOrphan = Statement(
        "audit_first_orphan",
        """
        select original_transaction_id, relation, transaction_id, 'has no subscription' as problem
        from (
          \(parts)
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

    private static let owned: (table: ProjectionTable, row: SQL) = (
        .ownership, "customer_kind || ' ' || customer_id"
    )

    private static let parts = (compared.dropFirst() + [owned]).map { table, row -> SQL in
        """
        select original_transaction_id, '\(table.name)' as relation, \(row) as transaction_id
        from subledger.\(table.name)
        where stream_id = $1
        """
    }.joined(separator: "\nunion all\n")

    /// The first stream id that has projections in any table but does not exist.
    static let firstStrayStream = Statement(
        "audit_first_stray_stream",
        """
        select stream_id, relation
        from (
          \(streams)
        ) as projection
        where not exists (
          select
          from subledger.stream
          where stream.stream_id = projection.stream_id
        )
        order by stream_id, relation
        limit 1
        """)

    private static let streams = ProjectionTable.foldedNames.map { name -> SQL in
        "select stream_id, '\(name)' as relation from subledger.\(name)"
    }.joined(separator: "\nunion\n")
}
