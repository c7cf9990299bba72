import Postgres

/// SQL about endpoints.
enum EndpointStatements {
    static let columns: SQL = """
        endpoint.endpoint_id, endpoint.purpose, endpoint.app, endpoint.environment, endpoint.url,
          coalesce(endpoint.kinds, '{}'), endpoint.signature, endpoint.disabled_for, endpoint.disabled_at,
          endpoint.created_at
        """

    /// The end of the feed of an endpoint.
    private static let head: SQL = """
        coalesce(
            case endpoint.purpose when 'changes' then change_head.number else stream_head.position end, 0
          )
        """

    private static let joins: SQL = """
        left join subledger.stream
          on stream.app = endpoint.app
          and stream.environment = endpoint.environment
        left join subledger.change_head
          on change_head.stream_id = stream.stream_id
        left join subledger.stream_head
          on stream_head.stream_id = stream.stream_id
        """

    static let list = Statement(
        "endpoint_list",
        """
        select \(columns),
          endpoint_cursor.number, \(head), endpoint_cursor.failing_since, endpoint_cursor.succeeded_at,
          (
            select count(*)
            from subledger.endpoint_delivery
            where endpoint_delivery.endpoint_id = endpoint.endpoint_id
              and endpoint_delivery.state = 'waiting'
          ),
          (
            select count(*)
            from subledger.endpoint_delivery
            where endpoint_delivery.endpoint_id = endpoint.endpoint_id
              and endpoint_delivery.state in ('exhausted', 'lost')
          )
        from subledger.endpoint
        join subledger.endpoint_cursor using (endpoint_id)
        \(joins)
        where $1::text is null
          or endpoint.endpoint_id = $1
        order by endpoint.created_at, endpoint.endpoint_id
        """)

    static let hasStream = Statement(
        "endpoint_has_stream",
        """
        select exists (
          select
          from subledger.stream
          where app = $1
        )
        """)

    static let attempts = Statement(
        "endpoint_attempts",
        """
        select attempted_at, number, result, status, milliseconds
        from subledger.endpoint_attempt
        where endpoint_id = $1
        order by attempted_at desc, number desc
        limit $2
        """)

    /// One row: how many were added, and whether there are too many.
    static let add = Statement(
        "endpoint_add",
        """
        with size as (
          select count(*) >= $10 as is_full
          from subledger.endpoint
        ),
        added as (
          insert into subledger.endpoint (
            endpoint_id, purpose, app, environment, url, kinds, signature, created_at
          )
          select $1, $2, $3, $4, $5, nullif($6::text[], '{}'), $7, $8
          from size
          where not is_full
          on conflict (endpoint_id) do nothing
          returning endpoint_id, purpose, app, environment
        ),
        placed as (
          insert into subledger.endpoint_cursor (endpoint_id, number)
          select endpoint.endpoint_id, coalesce($9, \(head))
          from added as endpoint
          \(joins)
          returning endpoint_id
        )
        select (select count(*) from placed), is_full
        from size
        """)

    static let setKinds = changing(
        "endpoint_set_kinds", "kinds = nullif($2::text[], '{}')",
        where: "and kinds is distinct from nullif($2::text[], '{}')")

    static let disable = changing(
        "endpoint_disable", "state = 'disabled', disabled_for = $2, disabled_at = $3")

    static let enable = changing(
        "endpoint_enable", "state = 'active', disabled_for = null, disabled_at = null",
        cursor: "generation = generation + 1, failing_since = null",
        besides: """
            ,
            due as (
              update subledger.endpoint_delivery
              set next_at = null
              from changed
              where endpoint_delivery.endpoint_id = changed.endpoint_id
                and endpoint_delivery.state = 'waiting'
            )
            """)

    /// Changes the endpoint `$1`, and raises its generation, so that what is in flight by the former state is not recorded.
    /// One row: how many were changed.
    private static func changing(
        _ name: SQL, _ change: SQL, where condition: SQL = "", cursor: SQL = "generation = generation + 1",
        besides more: SQL = ""
    ) -> Statement {
        Statement(
            name,
            """
            with changed as (
              update subledger.endpoint
              set \(change)
              where endpoint_id = $1
                \(condition)
              returning endpoint_id
            ),
            raised as (
              update subledger.endpoint_cursor
              set \(cursor)
              from changed
              where endpoint_cursor.endpoint_id = changed.endpoint_id
            )\(more)
            select count(*)
            from changed
            """)
    }

    /// What waits after the place is delivered with everything else after it.
    static let rewind = Statement(
        "endpoint_rewind",
        """
        with changed as (
          update subledger.endpoint_cursor
          set number = $2, generation = generation + 1
          where endpoint_id = $1
          returning endpoint_id
        ),
        removed as (
          delete from subledger.endpoint_delivery
          using changed
          where endpoint_delivery.endpoint_id = changed.endpoint_id
            and endpoint_delivery.number > $2
        )
        select count(*)
        from changed
        """)

    /// The line of a message that is not recorded any more is that of its change; that of an event is looked up when it is
    /// sent, so its position serves.
    static let replayOne = Statement(
        "endpoint_replay_one",
        """
        with changed as (
          update subledger.endpoint_cursor
          set generation = generation + 1
          where endpoint_id = $1
            and number >= $2
            and $2 > 0
          returning endpoint_id
        ),
        due as (
          insert into subledger.endpoint_delivery (endpoint_id, number, line, state, attempts)
          select endpoint.endpoint_id, $2, coalesce(change.original_transaction_id, $2::text), 'waiting', 0
          from changed
          join subledger.endpoint using (endpoint_id)
          left join subledger.stream
            on stream.app = endpoint.app
            and stream.environment = endpoint.environment
          left join subledger.change
            on endpoint.purpose = 'changes'
            and change.stream_id = stream.stream_id
            and change.number = $2
          on conflict (endpoint_id, number) do update
          set state = 'waiting', attempts = 0, next_at = null, ended_at = null
        )
        select count(*)
        from changed
        """)

    /// One row: whether the endpoint exists, and how many messages there are.
    static let replayExhausted = Statement(
        "endpoint_replay_exhausted",
        """
        with changed as (
          update subledger.endpoint_cursor
          set generation = generation + 1
          where endpoint_id = $1
          returning endpoint_id
        ),
        due as (
          update subledger.endpoint_delivery
          set state = 'waiting', attempts = 0, next_at = null, ended_at = null
          from changed
          where endpoint_delivery.endpoint_id = changed.endpoint_id
            and endpoint_delivery.state in ('exhausted', 'lost')
            and endpoint_delivery.ended_at >= $2
          returning endpoint_delivery.number
        )
        select exists (select from changed), (select count(*) from due)
        """)
}
