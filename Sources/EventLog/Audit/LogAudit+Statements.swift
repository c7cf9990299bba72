import Postgres

extension LogAudit {
    enum Statements {
        static let streams = Statement(
            "audit_streams",
            """
            select id.stream_id
            from (
              select stream_id
              from subledger.stream
              union
              select stream_id
              from subledger.stream_head
              union
              select stream_id
              from subledger.subscription_head
              union
              select stream_id
              from subledger.event
              union
              select stream_id
              from subledger.event_conflict
              union
              select stream_id
              from subledger.projector_skip
            ) as id
            order by id.stream_id
            """)

        static let stream = Statement(
            "audit_stream",
            """
            select stream.app, stream.environment, stream_head.position,
              coalesce((
                select max(event.position)
                from subledger.event
                where event.stream_id = $1
              ), 0),
              stream.created_at, stream_head.chain
            from (select $1::integer as stream_id) as id
            left join subledger.stream using (stream_id)
            left join subledger.stream_head using (stream_id)
            """)

        static let headers = Statement(
            "audit_headers",
            """
            select digest, header
            from subledger.jws_header
            where stream_id = $1
              and digest = any ($2::bytea[])
            """)

        static let endOfRange = Statement(
            "audit_end_of_range",
            """
            select max(position)
            from (
              select position
              from subledger.event
              where stream_id = $1
                and position > $2
                and position <= $3
              order by position
              limit $4
            ) as next
            """)

        /// `octet_length` does not read the bodies themselves.
        static let page = Statement(
            "audit_page",
            """
            select position, received_at, occurred_at, source, type, subtype, kind, dedupe_key, body,
              body_sha256, chain_id, revocation, chain, fingerprint, files, facts, defects
            from (
              select position, received_at, occurred_at, source, type, subtype, kind, dedupe_key, body, body_sha256,
                chain_id, revocation, chain, fingerprint, files, facts, defects,
                sum(coalesce(octet_length(body), 0)) over (order by position) - coalesce(octet_length(body), 0)
                  as bytes_before
              from (
                select stream_id, position, received_at, occurred_at, source, type, subtype, kind, dedupe_key,
                  body_sha256, chain_id, revocation, chain, fingerprint, facts, defects
                from subledger.event
                where stream_id = $1
                  and position > $2
                  and position <= $3
                order by position
                limit $4
              ) as event
              left join \(BodyPartitions.bodyOfEvent) on true
              left join \(BodyArchive.filesOfEvent) on stored.body is null
            ) as measured
            where bytes_before < $5
            order by position
            """)

        static let erasures = Statement(
            "audit_erasures",
            """
            select facts -> 'erasure', body_sha256, position
            from subledger.event
            where stream_id = $1
              and source = 'operator'
              and kind = 'erasure'
            order by position
            """)

        static let place = Statement(
            "audit_place",
            """
            select place
            from subledger.body_place($1, $2)
            """)

        static let links = Statement(
            "audit_links",
            """
            select position, received_at, source, dedupe_key, body_sha256, chain_id, revocation, chain
            from subledger.event
            where stream_id = $1
              and position > $2
              and position <= $3
            order by position
            limit $4
            """)

        static let verdicts = Statement(
            "audit_verdicts",
            """
            select decided_at, verdict
            from subledger.certificate_verdict
            where chain_id = $1
            order by decided_at
            """)

        static let response = Statement(
            "audit_response",
            """
            select response
            from subledger.ocsp_response
            where certificate_sha256 = $1
              and this_update <= $3
              and next_update >= $4
            order by answered_at <= $2::timestamptz desc, abs(extract(epoch from answered_at - $2::timestamptz)), response_sha256
            limit 1
            """)

        /// A conflict whose position is not that of an event with another body.
        static let brokenConflicts = Statement(
            "audit_broken_conflicts",
            """
            select event_conflict.position
            from subledger.event_conflict
            where event_conflict.stream_id = $1
              and not exists (
                select
                from subledger.event
                where event.stream_id = event_conflict.stream_id
                  and event.position = event_conflict.position
                  and event.body_sha256 <> event_conflict.body_sha256
              )
            order by event_conflict.position
            limit 1
            """)

        /// A subscription whose position is not that of an event about it. The facts of a V1 body may lack the
        /// subscription.
        static let brokenSubscriptionHeads = Statement(
            "audit_broken_subscription_heads",
            """
            select encode(subscription_head.subscription_sha256, 'hex')
            from subledger.subscription_head
            where subscription_head.stream_id = $1
              and subscription_head.position > $2
              and not exists (
                select
                from subledger.event
                where event.stream_id = subscription_head.stream_id
                  and event.position = subscription_head.position
                  and coalesce(
                    (
                      select bool_or(subledger.subscription_sha256(id #>> '{}') = subscription_head.subscription_sha256)
                      from jsonb_path_query(event.facts, '$.**.originalTransactionId') as id
                    ),
                    event.source = 'apple-v1'
                  )
              )
            order by subscription_head.subscription_sha256
            limit 1
            """)

        static let conflicts = Statement(
            "audit_conflicts",
            """
            select position, body_sha256, body
            from subledger.event_conflict
            where stream_id = $1
              and (position, body_sha256) > ($2, $3)
            order by position, body_sha256
            limit $4
            """)

        /// Until when events may have been stored by an older release: a day after the last migration, since receivers
        /// may have gone on. Null if the database was never migrated.
        static let upgradedAt = Statement(
            "audit_upgraded_at",
            """
            select case when count(*) > 1 then max(applied_at) + interval '1 day' end
            from subledger.schema_version
            """)

        /// An older release may have read less of a body, but nothing else, and as many statements.
        static let otherFacts = Statement(
            "audit_other_facts",
            """
            select event.position,
              case when event.facts::text <> input.facts::text then 'facts' else 'defects' end
            from unnest($2::bigint[], $3::jsonb[], $4::jsonb[]) as input (position, facts, defects)
            join subledger.event on event.stream_id = $1 and event.position = input.position
            where (
                event.facts::text <> input.facts::text
                or event.defects::text is distinct from input.defects::text
              )
              and not coalesce(
                event.received_at < $5
                  and event.facts <@ input.facts
                  and (
                    select bool_and(
                      jsonb_array_length(jsonb_path_query_array(event.facts, list.path))
                        = jsonb_array_length(jsonb_path_query_array(input.facts, list.path)))
                    from unnest('{$.transactions[*],$.renewals[*],$.purchases[*]}'::jsonpath[]) as list (path)
                  )
                  and coalesce(event.defects <@ input.defects, event.defects is null), false
              )
            order by event.position
            """)
    }
}
