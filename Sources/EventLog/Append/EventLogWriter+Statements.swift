import Postgres

extension EventLogWriter {
    enum Statements {
        static let lockHeads = Statement(
            "log_lock_heads",
            """
            select stream_id
            from subledger.stream_head
            where stream_id = any ($1::integer[])
            order by stream_id
            for update
            """)

        static let keepHeaders = Statement(
            "log_keep_headers",
            """
            insert into subledger.jws_header (stream_id, digest, header)
            select input.stream_id, input.digest, input.header
            from unnest($1::integer[], $2::bytea[], $3::bytea[]) as input (stream_id, digest, header)
            where not exists (
              select
              from subledger.jws_header
              where jws_header.stream_id = input.stream_id
                and jws_header.digest = input.digest
            )
              and exists (
                select
                from unnest($4::integer[], $5::text[], $6::text[]) as claim (stream_id, app, environment)
                join subledger.stream using (stream_id, app, environment)
                where claim.stream_id = input.stream_id
              )
            on conflict do nothing
            """)

        /// Bodies are taken out of their array by ordinal, so that they are not copied through the intermediate
        /// steps. A second copy inside one batch gets the place of the first; run keeps copies of V1 bodies apart that
        /// are events of their own, as does known.position if only the first ones are recent enough. Known events are
        /// looked up one by one: the limit keeps that from becoming a join over the whole log, and the order is that of
        /// the key's index, so that no other index will do. A V1 body is
        /// known if its last event with the key is recent enough and no later event is about one of its subscriptions.
        /// Events whose stream has another id than they claim are left out. Streams without V1 have no subscription
        /// heads, and pay nothing for them.
        static let append = Statement(
            "log_append",
            """
            with input as (
              select input.ordinal, input.stream_id, input.dedupe_key, input.run, input.body_sha256, input.digest,
                known.position,
                row_number() over first_copy as copy,
                input.source in ('apple-v2', 'apple-history')
                  and input.body_sha256 <> coalesce(known.body_sha256, first_value(input.body_sha256) over first_copy)
                  as is_conflict
              from unnest(
                $1::integer[], $2::bytea[], $12::bytea[], $5::text[], $16::bigint[], $17::timestamptz[], $18::integer[],
                $19::integer[], $22::bigint[], $26::bytea[]
              ) with ordinality as input (
                stream_id, dedupe_key, body_sha256, source, run, same_since, first_subscription, last_subscription, claim,
                digest, ordinal
              )
              left join lateral (
                select last.position, last.body_sha256
                from (
                  select event.position, event.body_sha256, event.received_at
                  from subledger.event
                  where event.stream_id = input.stream_id
                    and event.dedupe_key = input.dedupe_key
                  order by case when event.source = 'apple-v1' then event.position else 0 end desc
                  limit 1
                ) as last
                where input.run = 0
                  or last.received_at >= input.same_since
                    and not exists (
                      select
                      from subledger.subscription_head
                      where subscription_head.stream_id = input.stream_id
                        and subscription_head.subscription_sha256 =
                          any (($20::bytea[])[input.first_subscription:input.last_subscription])
                        and subscription_head.position > last.position
                    )
              ) as known on true
              where input.claim = any (array(
                select claim.number
                from unnest($23::integer[], $24::text[], $25::text[])
                  with ordinality as claim (stream_id, app, environment, number)
                join subledger.stream using (stream_id, app, environment)
              ))
              window first_copy as (
                partition by input.stream_id, input.dedupe_key, input.run, known.position
                order by input.ordinal
              )
            ),
            fresh as (
              select input.ordinal, input.stream_id, input.dedupe_key, input.run, input.body_sha256, input.digest,
                stream_head.position + row_number() over (partition by input.stream_id order by input.ordinal)
                  as position,
                stream_head.chain as start
              from input
              join subledger.stream_head using (stream_id)
              where input.position is null
                and input.copy = 1
            ),
            linked as (
              select fresh.ordinal, fresh.stream_id, fresh.position, fresh.dedupe_key, fresh.body_sha256,
                subledger.chained(fresh.start, fresh.position, fresh.digest) over (
                  partition by fresh.stream_id
                  order by fresh.ordinal
                  rows unbounded preceding
                ) as chain
              from fresh
            ),
            written as (
              insert into subledger.event (
                stream_id, position, received_at, occurred_at, source, type, subtype, kind, dedupe_key, facts,
                defects, body_sha256, chain_id, revocation, fingerprint, chain
              )
              select linked.stream_id, linked.position, ($3::timestamptz[])[linked.ordinal],
                ($4::timestamptz[])[linked.ordinal], ($5::text[])[linked.ordinal], ($6::text[])[linked.ordinal],
                ($7::text[])[linked.ordinal], ($8::text[])[linked.ordinal], linked.dedupe_key,
                ($9::jsonb[])[linked.ordinal], ($10::jsonb[])[linked.ordinal], linked.body_sha256,
                ($13::bytea[])[linked.ordinal], ($14::text[])[linked.ordinal], ($15::bytea[])[linked.ordinal],
                linked.chain
              from linked
            ),
            kept as (
              insert into subledger.event_body (stream_id, position, received_at, body)
              select linked.stream_id, linked.position, ($3::timestamptz[])[linked.ordinal],
                ($11::bytea[])[linked.ordinal]
              from linked
            ),
            noted as (
              insert into subledger.subscription_head (stream_id, subscription_sha256, position)
              select named.stream_id, named.subscription_sha256, named.position
              from (
                select fresh.stream_id, subscription.subscription_sha256, max(fresh.position) as position,
                  bool_or(fresh.run > 0) as is_of_v1
                from unnest($20::bytea[], $21::bigint[]) as subscription (subscription_sha256, ordinal)
                join fresh using (ordinal)
                where 0 < any ($16::bigint[])
                  or exists (select from subledger.subscription_head where stream_id = any ($1::integer[]))
                group by fresh.stream_id, subscription.subscription_sha256
              ) as named
              where named.is_of_v1
                or exists (
                  select
                  from subledger.subscription_head
                  where subscription_head.stream_id = named.stream_id
                    and subscription_head.subscription_sha256 = named.subscription_sha256
                )
              on conflict (stream_id, subscription_sha256) do update set position = excluded.position
            ),
            conflicting as (
              insert into subledger.event_conflict (stream_id, position, body_sha256, received_at, body)
              select input.stream_id, coalesce(input.position, fresh.position), input.body_sha256,
                ($3::timestamptz[])[input.ordinal], ($11::bytea[])[input.ordinal]
              from input
              left join fresh using (stream_id, dedupe_key, run)
              where input.is_conflict
              on conflict do nothing
            ),
            moved as (
              update subledger.stream_head
              set position = last.position, chain = last.chain
              from (
                select distinct on (stream_id) stream_id, position, chain
                from linked
                order by stream_id, position desc
              ) as last
              where stream_head.stream_id = last.stream_id
            )
            select input.ordinal, coalesce(input.position, fresh.position) as position,
              input.position is null and input.copy = 1 as is_new, input.is_conflict
            from input
            left join fresh using (stream_id, dedupe_key, run)
            order by input.ordinal
            """)

        static let findStream = Statement(
            "log_find_stream",
            """
            select stream_id
            from subledger.stream
            where app = $1
              and environment = $2
            """)

        static let nextStreamId = Statement(
            "log_next_stream_id",
            """
            select coalesce(max(stream_id), 0) + 1
            from subledger.stream
            """)

        /// Two writers at once may create a stream, or pick one number: the second waits for the first and fails on a
        /// unique key. A distributed database permits `on conflict` only to roles that may update the table.
        static let createStream = Statement(
            "log_create_stream",
            """
            insert into subledger.stream (stream_id, app, environment)
            values ($3, $1, $2)
            """)

        /// In the transaction of ``createStream``, after it: no stream is ever seen without its head.
        static let createHead = Statement(
            "log_create_head",
            """
            insert into subledger.stream_head (stream_id, position, chain)
            select stream_id, 0, subledger.chain_start(app, environment, created_at)
            from subledger.stream
            where app = $1
              and environment = $2
            """)
    }
}
