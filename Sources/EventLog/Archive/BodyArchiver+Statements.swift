import Postgres

extension BodyArchiver {
    /// Months are texts like `2026-03`.
    enum Statements {
        /// The bounds of the month `$n`, for `received_at`.
        private static func bounds(_ month: SQL) -> SQL {
            """
            >= (\(month) || '-01')::timestamp at time zone 'UTC'
              and event_body.received_at < ((\(month) || '-01')::timestamp + interval '1 month') at time zone 'UTC'
            """
        }

        static let months = Statement(
            "archive_months",
            """
            select to_char(first_at at time zone 'UTC', 'YYYY-MM')
            from subledger.body_partitions()
            where until_at <= ($1 || '-01')::timestamp at time zone 'UTC'
            order by first_at
            """)

        static let count = Statement(
            "archive_count",
            """
            select count(*)
            from subledger.event_body
            where event_body.received_at \(bounds("$1"))
            """)

        static let streams = Statement(
            "archive_streams",
            """
            select stream_id, app, environment
            from subledger.stream
            where exists (
              select
              from subledger.event_body
              where event_body.stream_id = stream.stream_id
                and event_body.received_at \(bounds("$1"))
            )
            order by stream_id
            """)

        /// What still waits for a body of the month, the first of it.
        static let needs = Statement(
            "archive_needs",
            """
            with last as (
              select event_body.stream_id, min(event_body.position) as first, max(event_body.position) as position
              from subledger.event_body
              where event_body.received_at \(bounds("$1"))
              group by event_body.stream_id
            )
            select format('%s (%s): %s', stream.app, stream.environment, need.reason)
            from last
            join subledger.stream using (stream_id)
            cross join lateral (
              select 'the projector has not processed all of its events' as reason
              where last.position > coalesce(
                (select checkpoint.position from subledger.checkpoint where checkpoint.stream_id = last.stream_id), 0)
              union all
              select format('endpoint %s has not received all of its notifications', endpoint_id)
              from subledger.endpoint
              left join subledger.endpoint_cursor using (endpoint_id)
              where endpoint.purpose = 'events'
                and endpoint.app = stream.app
                and endpoint.environment = stream.environment
                and endpoint.disabled_for is distinct from 'removed'
                and (
                  coalesce(endpoint_cursor.number, 0) < last.position
                  or exists (
                    select
                    from subledger.endpoint_delivery
                    where endpoint_delivery.endpoint_id = endpoint.endpoint_id
                      and endpoint_delivery.state = 'waiting'
                      and endpoint_delivery.number between last.first and last.position
                  )
                )
              union all
              select 'pushes of Google Play were not read yet'
              where exists (
                  select
                  from subledger.event
                  where event.stream_id = last.stream_id
                    and event.position > coalesce(
                      (
                        select google_intake.position
                        from subledger.google_intake
                        where google_intake.stream_id = last.stream_id
                      ), 0)
                    and event.position between last.first and last.position
                    and event.source = 'google-rtdn'
                    and date_trunc('month', event.received_at at time zone 'UTC')::date = ($1 || '-01')::date
                )
                or exists (
                  select
                  from subledger.google_notification
                  join subledger.event using (stream_id, position)
                  where google_notification.stream_id = last.stream_id
                    and date_trunc('month', event.received_at at time zone 'UTC')::date = ($1 || '-01')::date
                )
            ) as need
            order by stream.app, stream.environment, need.reason
            limit 1
            """)

        /// Bodies of a stream and month after a position, with their digests: as many as the limits of a page allow.
        static let page = Statement(
            "archive_page",
            """
            select position, body_sha256, body
            from (
              select found.position, event.body_sha256, found.body,
                sum(octet_length(found.body)) over (order by found.position) - octet_length(found.body)
                  as bytes_before
              from (
                select event_body.position, event_body.received_at, event_body.body
                from subledger.event_body
                where event_body.stream_id = $1
                  and event_body.position > $3
                  and event_body.received_at \(bounds("$2"))
                order by event_body.position
                limit $4
              ) as found
              join subledger.event
                on event.stream_id = $1
                and event.position = found.position
                and event.received_at = found.received_at
            ) as measured
            where bytes_before < $5
            order by position
            """)

        static let digests = Statement(
            "archive_digests",
            """
            select position, body_sha256
            from subledger.event
            where stream_id = $1
              and position = any ($2::bigint[])
              and date_trunc('month', received_at at time zone 'UTC')::date = ($3 || '-01')::date
            """)

        static let drop = Statement(
            "archive_drop",
            """
            select subledger.drop_body_partition(($1 || '-01')::date, $2)
            """)

        static let restoreHeaders = Statement(
            "archive_restore_headers",
            """
            insert into subledger.jws_header (stream_id, digest, header)
            select $1, input.digest, input.header
            from unnest($2::bytea[], $3::bytea[]) as input (digest, header)
            on conflict do nothing
            """)

        static let restore = Statement(
            "archive_restore",
            """
            insert into subledger.event_body (stream_id, position, received_at, body)
            select event.stream_id, event.position, event.received_at, input.body
            from unnest($2::bigint[], $3::bytea[]) as input (position, body)
            join subledger.event
              on event.stream_id = $1
              and event.position = input.position
              and date_trunc('month', event.received_at at time zone 'UTC')::date = ($4 || '-01')::date
            returning position
            """)

        /// Files that can have a body of one of the events `$2`.
        static let filesOf = Statement(
            "archive_files_of",
            """
            select distinct event_archive.file
            from subledger.event
            join subledger.event_archive
              on event_archive.stream_id = event.stream_id
              and event_archive.month = date_trunc('month', event.received_at at time zone 'UTC')::date
              and event_archive.state = 'kept'
              and event.position between event_archive.first_position and event_archive.last_position
            where event.stream_id = $1
              and event.position = any ($2::bigint[])
            order by event_archive.file
            """)
    }
}
