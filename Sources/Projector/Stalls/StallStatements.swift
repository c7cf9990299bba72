import Postgres

/// SQL for stalled streams.
enum StallStatements {
    /// The streams with unfolded events or outdated rows, each with the position of its checkpoint. It reads as many
    /// rows as ``ProjectionStatements/streamsToFold``.
    static let waiting = Statement(
        "stall_waiting",
        """
        select stream.stream_id, stream.app, stream.environment, coalesce(checkpoint.position, 0), clock_timestamp()
        from subledger.stream_head
        join subledger.stream using (stream_id)
        left join subledger.checkpoint using (stream_id)
        left join subledger.product_catalog using (app)
        left join subledger.app_ownership using (app)
        left join subledger.app_checks using (app)
        where stream_head.position > coalesce(checkpoint.position, 0)
          or checkpoint.position > 0
            and (
              checkpoint.products <> coalesce(product_catalog.products, '')
              or checkpoint.ownership <> \(ProjectionStatements.configuredOwnership)
              or checkpoint.check_lead <> coalesce(app_checks.check_lead, '')
              or checkpoint.projection_version <> $1
            )
        order by stream.stream_id
        """)

    /// Records a stall. A second-hand cause (`$5`) does not replace a cause that another process found itself.
    static let record = Statement(
        "stall_record",
        """
        insert into subledger.projector_stall (stream_id, position, cause, since)
        values ($1, $2, $3, $4)
        on conflict (stream_id) do update
        set position = excluded.position,
          cause = excluded.cause,
          since = case
            when projector_stall.position = excluded.position then least(projector_stall.since, excluded.since)
            else excluded.since
          end
        where not $5
          or projector_stall.position <> excluded.position
        """)

    /// Deletes the records of streams that no longer wait or have advanced since.
    static let clear = Statement(
        "stall_clear",
        """
        delete from subledger.projector_stall
        where not exists (
          select
          from unnest($1::integer[], $2::bigint[]) as waiting (stream_id, position)
          where waiting.stream_id = projector_stall.stream_id
            and waiting.position = projector_stall.position
        )
        """)
}
