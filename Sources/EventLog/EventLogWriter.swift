import Postgres
import Subscriptions

/// Writes batches of events, each batch in one transaction and one round trip.
package struct EventLogWriter: Sendable {
    let pool: PostgresPool

    /// What connections of the receiver's role need set. A batch's plan does not hang on what is in it, and planning
    /// the append takes as long as executing it for a small batch; left to itself PostgreSQL plans it each time,
    /// because it knows how many rows the arrays of that batch make.
    package static let planSettings = ["enable_seqscan": "off", "plan_cache_mode": "force_generic_plan"]

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// An event with what a row of the log needs beside it, made ready outside the transaction.
    package struct Entry: Sendable {
        package let stream: StreamKey
        package let event: Event
        let body: CompactBody
        let bodyDigest: [UInt8]
        let chain: SigningChain?
        package let receivedAt: Instant

        /// - Parameter receivedAt: Our clock.
        package init(_ proven: some ProvenEvent, receivedAt: Instant) {
            stream = proven.stream
            event = proven.event
            body = CompactBody(proven.body)
            bodyDigest = proven.bodyDigest
            chain = proven.chain
            self.receivedAt = receivedAt
        }

        /// What it takes on its way to the database.
        var bodyBytes: Int { body.stored.count + body.headers.reduce(0) { $0 + $1.text.count } }
    }

    /// Appends entries to the streams of the given ids and returns their places, in the order of the entries.
    ///
    /// The first step locks the heads of the streams, in the order of their ids so that two writers cannot wait for
    /// each other. The append is a statement of its own because a statement sees what had been committed when it
    /// began: it must begin behind the lock to see what the previous holder committed. The headers of the bodies go
    /// in between: nothing is remembered of them here, since a failover could have lost what we remember, and a body
    /// without its header is lost.
    package func append(
        _ entries: [Entry], streamIds: [Int32], deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> [Appended] {
        let distinct = Parameter.array(Set(streamIds).sorted())
        let steps = [
            Step(Statements.lockHeads, [distinct]),
            Step(Statements.keepHeaders, Self.headerParameters(entries, streamIds)),
            Step(Statements.append, Self.parameters(entries, streamIds)),
            Step(Statements.notify, [distinct]),
        ]
        let results = try await pool.withConnection(deadline: deadline) {
            (connection) async throws(PostgresError) -> [RowSet] in
            try await connection.transaction(steps, deadline: deadline)
        }
        let rows = results[2]
        var places: [Appended] = []
        places.reserveCapacity(rows.count)
        for index in 0..<rows.count {
            places.append(
                Appended(
                    position: try rows[index].value(at: 0), isNew: try rows[index].value(at: 1),
                    isConflict: try rows[index].value(at: 2)))
        }
        return places
    }

    private static func parameters(_ entries: [Entry], _ streamIds: [Int32]) -> [Parameter] {
        [
            .array(streamIds),
            .array(entries.map(\.event.dedupeKey.bytes)),
            .array(entries.map(\.receivedAt)),
            .array(entries.map(\.event.occurredAt)),
            .array(entries.map(\.event.source.rawValue)),
            .array(entries.map(\.event.type)),
            .array(entries.map(\.event.subtype)),
            .array(entries.map(\.event.kind.rawValue)),
            .array(
                entries.map { entry in
                    var writer = JSONWriter()
                    writer.object { entry.event.writeFacts(to: &$0) }
                    return JSONB(utf8: writer.bytes)
                }),
            .array(
                entries.map { entry -> JSONB? in
                    guard !entry.event.defects.isEmpty else { return nil }
                    var writer = JSONWriter()
                    writer.array(entry.event.defects) { $1.write(to: &$0) }
                    return JSONB(utf8: writer.bytes)
                }),
            .array(entries.map(\.body.stored)),
            .array(entries.map(\.bodyDigest)),
            .array(entries.map { $0.chain?.id }),
            .array(entries.map { $0.chain?.revocation.rawValue }),
        ]
    }

    /// Streams, digests and texts of the headers, each once.
    private static func headerParameters(_ entries: [Entry], _ streamIds: [Int32]) -> [Parameter] {
        struct Key: Hashable {
            let stream: Int32
            let digest: [UInt8]
        }
        var headers: [Key: [UInt8]] = [:]
        for (entry, stream) in zip(entries, streamIds) {
            for header in entry.body.headers { headers[Key(stream: stream, digest: header.digest)] = header.text }
        }
        return [
            .array(headers.keys.map(\.stream)), .array(headers.keys.map(\.digest)), .array(Array(headers.values)),
        ]
    }

    /// The id of a stream, made if there is none yet. Safe from several writers at once.
    package func streamId(of stream: StreamKey, deadline: ContinuousClock.Instant) async throws(PostgresError) -> Int32
    {
        let key = [Parameter(stream.app), Parameter(stream.environment.rawValue)]
        let found = try await pool.query(Statements.findStream, key, deadline: deadline)
        if found.count == 1 { return try found[0].value(at: 0) }
        let steps = [
            Step(Statements.lockStreams), Step(Statements.createStream, key), Step(Statements.findStream, key),
        ]
        let results = try await pool.withConnection(deadline: deadline) {
            (connection) async throws(PostgresError) -> [RowSet] in
            try await connection.transaction(steps, deadline: deadline)
        }
        return try results[2][0].value(at: 0)
    }

    private enum Statements {
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
            on conflict do nothing
            """)

        /// Bodies are taken out of their array by ordinal, so that they are not copied through the intermediate
        /// steps. A second copy inside one batch gets the place of the first. Known events are looked up one by one:
        /// the limit keeps that from becoming a join over the whole log. V1 has no notification id, so other bytes
        /// with the same key are no conflict there: they say the same.
        static let append = Statement(
            "log_append",
            """
            with input as (
              select input.ordinal, input.stream_id, input.dedupe_key, input.body_sha256, known.position,
                row_number() over first_copy as copy,
                input.source = 'apple-v2'
                  and input.body_sha256 <> coalesce(known.body_sha256, first_value(input.body_sha256) over first_copy)
                  as is_conflict
              from unnest($1::integer[], $2::bytea[], $12::bytea[], $5::text[])
                with ordinality as input (stream_id, dedupe_key, body_sha256, source, ordinal)
              left join lateral (
                select event.position, event.body_sha256
                from subledger.event
                where event.stream_id = input.stream_id
                  and event.dedupe_key = input.dedupe_key
                limit 1
              ) as known on true
              window first_copy as (partition by input.stream_id, input.dedupe_key order by input.ordinal)
            ),
            fresh as (
              select input.ordinal, input.stream_id, input.dedupe_key, input.body_sha256,
                stream_head.position + row_number() over (partition by input.stream_id order by input.ordinal)
                  as position
              from input
              join subledger.stream_head using (stream_id)
              where input.position is null
                and input.copy = 1
            ),
            written as (
              insert into subledger.event (
                stream_id, position, received_at, occurred_at, source, type, subtype, kind, dedupe_key, facts,
                defects, body, body_sha256, chain_id, revocation
              )
              select fresh.stream_id, fresh.position, ($3::timestamptz[])[fresh.ordinal],
                ($4::timestamptz[])[fresh.ordinal], ($5::text[])[fresh.ordinal], ($6::text[])[fresh.ordinal],
                ($7::text[])[fresh.ordinal], ($8::text[])[fresh.ordinal], fresh.dedupe_key,
                ($9::jsonb[])[fresh.ordinal], ($10::jsonb[])[fresh.ordinal], ($11::bytea[])[fresh.ordinal],
                fresh.body_sha256, ($13::bytea[])[fresh.ordinal], ($14::text[])[fresh.ordinal]
              from fresh
            ),
            conflicting as (
              insert into subledger.event_conflict (stream_id, position, body_sha256, received_at, body)
              select input.stream_id, coalesce(input.position, fresh.position), input.body_sha256,
                ($3::timestamptz[])[input.ordinal], ($11::bytea[])[input.ordinal]
              from input
              left join fresh using (stream_id, dedupe_key)
              where input.is_conflict
              on conflict do nothing
            ),
            moved as (
              update subledger.stream_head
              set position = last.position
              from (select stream_id, max(position) as position from fresh group by stream_id) as last
              where stream_head.stream_id = last.stream_id
            )
            select coalesce(input.position, fresh.position) as position,
              input.position is null and input.copy = 1 as is_new, input.is_conflict
            from input
            left join fresh using (stream_id, dedupe_key)
            order by input.ordinal
            """)

        static let notify = Statement(
            "log_notify",
            """
            select pg_notify('subledger_event', stream_id::text)
            from unnest($1::integer[]) as input (stream_id)
            """)

        static let findStream = Statement(
            "log_find_stream",
            """
            select stream_id
            from subledger.stream
            where app = $1
              and environment = $2
            """)

        static let lockStreams = Statement(
            "log_lock_streams",
            """
            select pg_advisory_xact_lock(hashtext('subledger'), hashtext('stream'))
            """)

        static let createStream = Statement(
            "log_create_stream",
            """
            with created as (
              insert into subledger.stream (stream_id, app, environment)
              select coalesce(max(stream_id), 0) + 1, $1, $2
              from subledger.stream
              having not exists (
                select
                from subledger.stream
                where app = $1
                  and environment = $2
              )
              returning stream_id
            )
            insert into subledger.stream_head (stream_id, position)
            select stream_id, 0
            from created
            """)
    }
}
