import Postgres

/// SQL of the process that delivers.
enum DeliveryStatements {
    static let tasks = Statement(
        "delivery_tasks",
        """
        select \(EndpointStatements.columns), stream.stream_id, endpoint_cursor.generation
        from subledger.endpoint
        join subledger.endpoint_cursor using (endpoint_id)
        join subledger.stream
          on stream.app = endpoint.app
          and stream.environment = endpoint.environment
        where endpoint.state = 'active'
        order by endpoint.endpoint_id
        """)

    /// From here on, a process that led before can record nothing.
    static let take = Statement(
        "delivery_take",
        """
        update subledger.endpoint_cursor
        set generation = generation + 1
        where endpoint_id = $1
          and generation = $2
        returning number, failing_since, generation
        """)

    static let waiting = Statement(
        "delivery_waiting",
        """
        select number, line, attempts, next_at
        from subledger.endpoint_delivery
        where endpoint_id = $1
          and state = 'waiting'
        order by number
        limit $2
        """)

    /// The cursor never goes back here, so a process that was frozen does not undo what its successor recorded.
    static let record = Statement(
        "delivery_record",
        """
        with moved as (
          update subledger.endpoint_cursor
          set number = $3, failing_since = $4, succeeded_at = coalesce($5, succeeded_at),
            generation = generation + case when $18::text is null then 0 else 1 end
          where endpoint_id = $1
            and generation = $2
            and number <= $3
          returning endpoint_id
        ),
        removed as (
          delete from subledger.endpoint_delivery
          using moved
          where endpoint_delivery.endpoint_id = moved.endpoint_id
            and endpoint_delivery.number = any ($6::bigint[])
        ),
        recorded as (
          insert into subledger.endpoint_delivery (
            endpoint_id, number, line, state, attempts, next_at, ended_at
          )
          select moved.endpoint_id, input.number, input.line, input.state, input.attempts,
            case when input.state = 'waiting' then input.next_at end,
            case when input.state <> 'waiting' then $12 end
          from moved
          cross join unnest($7::bigint[], $8::text[], $9::text[], $10::integer[], $11::timestamptz[])
            as input (number, line, state, attempts, next_at)
          on conflict (endpoint_id, number) do update
          set state = excluded.state, attempts = excluded.attempts, next_at = excluded.next_at,
            ended_at = excluded.ended_at
        ),
        attempted as (
          insert into subledger.endpoint_attempt (
            endpoint_id, attempted_at, number, result, status, milliseconds
          )
          select moved.endpoint_id, input.attempted_at, input.number, input.result, input.status, input.milliseconds
          from moved
          cross join unnest($13::timestamptz[], $14::bigint[], $15::text[], $16::integer[], $17::integer[])
            as input (attempted_at, number, result, status, milliseconds)
          on conflict do nothing
        ),
        disabled as (
          update subledger.endpoint
          set state = 'disabled', disabled_for = $18, disabled_at = $12
          from moved
          where endpoint.endpoint_id = moved.endpoint_id
            and $18::text is not null
        )
        select count(*)
        from moved
        """)

    static let prune = Statement(
        "delivery_prune",
        """
        delete from subledger.endpoint_attempt
        where (endpoint_id, attempted_at, number) in (
          select old.endpoint_id, old.attempted_at, old.number
          from subledger.endpoint
          cross join lateral (
            select endpoint_id, attempted_at, number
            from subledger.endpoint_attempt
            where endpoint_attempt.endpoint_id = endpoint.endpoint_id
              and endpoint_attempt.attempted_at < $1
            order by attempted_at
            limit $2
          ) as old
          limit $2
        )
        """)

    static let figures = Statement(
        "delivery_figures",
        """
        select
          (
            select min(case endpoint.purpose when 'changes' then change.published_at else event.received_at end)
            from subledger.endpoint
            join subledger.endpoint_cursor using (endpoint_id)
            join subledger.stream
              on stream.app = endpoint.app
              and stream.environment = endpoint.environment
            cross join lateral (
              select coalesce(min(endpoint_delivery.number), endpoint_cursor.number + 1) as number
              from subledger.endpoint_delivery
              where endpoint_delivery.endpoint_id = endpoint.endpoint_id
                and endpoint_delivery.state = 'waiting'
            ) as first
            left join subledger.change
              on endpoint.purpose = 'changes'
              and change.stream_id = stream.stream_id
              and change.number = first.number
            left join subledger.event
              on endpoint.purpose = 'events'
              and event.stream_id = stream.stream_id
              and event.position = first.number
            where endpoint.state = 'active'
          ),
          count(*) filter (where endpoint.disabled_for in ('gone', 'failing')),
          count(*) filter (where endpoint.state = 'active' and endpoint_cursor.failing_since is not null),
          min(endpoint.endpoint_id) filter (
            where endpoint.disabled_for in ('gone', 'failing')
              or endpoint.state = 'active' and endpoint_cursor.failing_since is not null
          ),
          (select count(*) from subledger.endpoint_delivery where state = 'lost'),
          (
            select endpoint_id || ' at ' || number
            from subledger.endpoint_delivery
            where state = 'lost'
            order by ended_at desc, number desc
            limit 1
          )
        from subledger.endpoint
        join subledger.endpoint_cursor using (endpoint_id)
        """)
}
