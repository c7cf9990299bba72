import Crypto
import Postgres
import Subscriptions

/// Reads the log as it is stored, bodies included, for who doubts it.
package struct LogAudit: Sendable {
    private let connection: PostgresConnection

    /// - Parameter connection: May read the whole log: the receiver's role and the projector's suffice.
    package init(connection: PostgresConnection) {
        self.connection = connection
    }

    /// Every stream that anything in the log belongs to, in the order of their ids.
    package func streams() async throws(PostgresError) -> [AuditedStream] {
        let rows = try await connection.query(Statements.streams, deadline: .now + Limits.auditWaitMax)
        var streams: [AuditedStream] = []
        for row in rows {
            var key: StreamKey?
            if let app = try row.optional(String.self, at: 1),
                let environment = Environment(rawValue: try row.value(at: 2))
            {
                key = StreamKey(app: app, environment: environment)
            }
            streams.append(
                AuditedStream(
                    id: try row.value(at: 0), key: key, head: try row.optional(at: 3), last: try row.value(at: 4)))
        }
        return streams
    }

    /// The events behind a position, oldest first: as many as go into memory, and at least one if there is one.
    package func page(
        of stream: AuditedStream, after position: Int64
    ) async throws(PostgresError) -> [AuditedEvent] {
        let rows = try await connection.query(
            Statements.page,
            [
                Parameter(stream.id), Parameter(position), Parameter(stream.last),
                Parameter(Int64(Limits.auditPageEventsMax)), Parameter(Int64(Limits.auditPageBytesMax)),
            ], deadline: .now + Limits.auditWaitMax)
        let bodies = try rows.map { row throws(PostgresError) in try row.value([UInt8].self, at: 8) }
        let headers = try await headers(of: bodies, in: stream)
        var events: [AuditedEvent] = []
        events.reserveCapacity(rows.count)
        for (row, body) in zip(rows, bodies) {
            let times = [
                ("received_at", try row.value(Timestamptz.self, at: 1)),
                ("occurred_at", try row.optional(Timestamptz.self, at: 2)),
            ]
            events.append(
                AuditedEvent(
                    position: try row.value(at: 0), receivedAt: try row.value(at: 1),
                    occurredAt: try row.optional(at: 2),
                    brokenTime: times.first { ($0.1?.microsecondsSinceUnixEpoch ?? 0) % 1000 != 0 }?.0,
                    source: try row.value(at: 3), type: try row.optional(at: 4),
                    subtype: try row.optional(at: 5), kind: try row.value(at: 6),
                    dedupeKey: DedupeKey(bytes: try row.value(at: 7)), storedBody: body,
                    bodyDigest: try row.value(at: 9), chainId: try row.optional(at: 10),
                    revocation: try row.optional(at: 11), headers: headers))
        }
        return events
    }

    /// The headers that bodies refer to, as far as they are there.
    private func headers(
        of bodies: [[UInt8]], in stream: AuditedStream
    ) async throws(PostgresError) -> [[UInt8]: [UInt8]] {
        var digests: Set<[UInt8]> = []
        for body in bodies {
            _ = try? CompactBody.rebuild(body) { digest in
                digests.insert(digest)
                return []
            }
        }
        guard !digests.isEmpty else { return [:] }
        let rows = try await connection.query(
            Statements.headers, [Parameter(stream.id), .array(Array(digests))], deadline: .now + Limits.auditWaitMax)
        var headers: [[UInt8]: [UInt8]] = [:]
        for row in rows { headers[try row.value(at: 0)] = try row.value([UInt8].self, at: 1) }
        return headers
    }

    /// The first of some events whose stored facts or defects are not the given ones, with the column; nil if all are.
    /// Compared in the database's own spelling, which keeps neither the order of keys nor white space.
    ///
    /// - Parameters:
    ///   - facts: JSON texts.
    ///   - defects: JSON texts; nil where there are none.
    package func firstWithOtherFacts(
        _ positions: [Int64], _ facts: [[UInt8]], _ defects: [[UInt8]?], in stream: AuditedStream
    ) async throws(PostgresError) -> (position: Int64, column: String)? {
        let rows = try await connection.query(
            Statements.otherFacts,
            [
                Parameter(stream.id), .array(positions), .array(facts.map { JSONB(utf8: $0) }),
                .array(defects.map { $0.map { JSONB(utf8: $0) } }),
            ], deadline: .now + Limits.auditWaitMax)
        return rows.count == 0 ? nil : (try rows[0].value(at: 0), try rows[0].value(at: 1))
    }

    private enum Statements {
        static let streams = Statement(
            "audit_streams",
            """
            select id.stream_id, stream.app, stream.environment, stream_head.position,
              coalesce((
                select max(event.position)
                from subledger.event
                where event.stream_id = id.stream_id
              ), 0)
            from (
              select stream_id
              from subledger.stream
              union
              select stream_id
              from subledger.stream_head
              union
              select stream_id
              from subledger.event
            ) as id
            left join subledger.stream using (stream_id)
            left join subledger.stream_head using (stream_id)
            order by id.stream_id
            """)

        static let headers = Statement(
            "audit_headers",
            """
            select digest, header
            from subledger.jws_header
            where stream_id = $1
              and digest = any ($2::bytea[])
            """)

        /// The length of a body is known without reading it.
        static let page = Statement(
            "audit_page",
            """
            select position, received_at, occurred_at, source, type, subtype, kind, dedupe_key, body,
              body_sha256, chain_id, revocation
            from (
              select position, received_at, occurred_at, source, type, subtype, kind, dedupe_key, body, body_sha256,
                chain_id, revocation,
                sum(octet_length(body)) over (order by position) - octet_length(body) as bytes_before
              from (
                select position, received_at, occurred_at, source, type, subtype, kind, dedupe_key, body, body_sha256,
                  chain_id, revocation
                from subledger.event
                where stream_id = $1
                  and position > $2
                  and position <= $3
                order by position
                limit $4
              ) as next
            ) as measured
            where bytes_before < $5
            order by position
            """)

        static let otherFacts = Statement(
            "audit_other_facts",
            """
            select event.position,
              case when event.facts::text <> input.facts::text then 'facts' else 'defects' end
            from unnest($2::bigint[], $3::jsonb[], $4::jsonb[]) as input (position, facts, defects)
            join subledger.event on event.stream_id = $1 and event.position = input.position
            where event.facts::text <> input.facts::text
              or event.defects::text is distinct from input.defects::text
            order by event.position
            limit 1
            """)
    }
}

/// A stream as the tables of the log have it.
package struct AuditedStream: Sendable {
    package let id: Int32
    /// Nil when the log has events of a stream that is not registered.
    package let key: StreamKey?
    /// The last position given out; nil when none is recorded.
    package let head: Int64?
    /// The last position of an event; 0 when there is none.
    package let last: Int64
}

/// An event with its body.
package struct AuditedEvent: Sendable {
    package let position: Int64
    package let receivedAt: Instant
    package let occurredAt: Instant?
    /// A column whose time is not in whole milliseconds, as all are that were ever written.
    package let brokenTime: String?
    package let source: String
    package let type: String?
    package let subtype: String?
    package let kind: String
    package let dedupeKey: DedupeKey
    private let storedBody: [UInt8]
    private let bodyDigest: [UInt8]
    /// The certificates behind the signature; nil for what is not signed, and for what was stored before they were kept.
    package let chainId: [UInt8]?
    package let revocation: String?
    private let headers: [[UInt8]: [UInt8]]

    init(
        position: Int64, receivedAt: Instant, occurredAt: Instant?, brokenTime: String?, source: String,
        type: String?, subtype: String?, kind: String, dedupeKey: DedupeKey, storedBody: [UInt8],
        bodyDigest: [UInt8], chainId: [UInt8]?, revocation: String?, headers: [[UInt8]: [UInt8]]
    ) {
        self.position = position
        self.receivedAt = receivedAt
        self.occurredAt = occurredAt
        self.brokenTime = brokenTime
        self.source = source
        self.type = type
        self.subtype = subtype
        self.kind = kind
        self.dedupeKey = dedupeKey
        self.storedBody = storedBody
        self.bodyDigest = bodyDigest
        self.chainId = chainId
        self.revocation = revocation
        self.headers = headers
    }

    /// The bytes as they arrived, less the shared secret: those whose digest was noted then.
    package func body() throws(DamagedBody) -> [UInt8] {
        let body = try CompactBody.rebuild(storedBody) { headers[$0] }
        guard SHA256.hash(data: body).elementsEqual(bodyDigest) else { throw .digest }
        return body
    }
}
