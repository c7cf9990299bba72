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
                    id: try row.value(at: 0), key: key, head: try row.optional(at: 3), last: try row.value(at: 4),
                    sealedFrom: try row.optional(at: 5) ?? 1))
        }
        return streams
    }

    /// The events after a position, oldest first: as many as go into memory, and at least one if there is one.
    package func page(
        of stream: AuditedStream, after position: Int64
    ) async throws(PostgresError) -> [AuditedEvent] {
        let rows = try await connection.query(
            Statements.page,
            [
                Parameter(stream.id), Parameter(position), Parameter(stream.last),
                Parameter(Int64(Limits.auditPageEventsMax)), Parameter(Int64(Limits.auditPageBytesMax)),
                Parameter(stream.sealedFrom),
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
                    dedupeKey: DedupeKey(bytes: try row.value(at: 7)), fingerprint: try row.optional(at: 13),
                    storedBody: AuditedBody(stored: body, digest: try row.value(at: 9), headers: headers),
                    chainId: try row.optional(at: 10), revocation: try row.optional(at: 11),
                    isAsSealed: try row.value(at: 12)))
        }
        return events
    }

    /// The first subscription of a stream that does not lead to an event about it; nil if all do. Subscriptions lead to
    /// the last events, so look for missing events first.
    package func firstDamagedSubscription(of stream: AuditedStream) async throws(PostgresError) -> String? {
        let subscriptions = try await connection.query(
            Statements.brokenSubscriptionHeads, [Parameter(stream.id)], deadline: .now + Limits.auditWaitMax)
        guard subscriptions.count > 0 else { return nil }
        let digest = try subscriptions[0].value(String.self, at: 0)
        return "subscription_head \(digest): does not lead to an event about the subscription"
    }

    /// The first row beside a stream's events that is not what was sealed, or a body that is not the one whose digest
    /// was noted; nil if all are.
    package func firstDamage(beside stream: AuditedStream) async throws(PostgresError) -> String? {
        let broken = try await connection.query(
            Statements.brokenSeals, [Parameter(stream.id)], deadline: .now + Limits.auditWaitMax)
        if broken.count > 0 { return try Self.brokenSeal(broken[0]) }
        var (position, digest): (Int64, [UInt8]) = (0, [])
        while true {
            let rows = try await connection.query(
                Statements.conflicts,
                [
                    Parameter(stream.id), Parameter(position), Parameter(digest),
                    Parameter(Int64(Limits.auditPageEventsMax)),
                ], deadline: .now + Limits.auditWaitMax)
            guard rows.count > 0 else { return nil }
            let bodies = try rows.map { row throws(PostgresError) in try row.value([UInt8].self, at: 2) }
            let headers = try await headers(of: bodies, in: stream)
            for (row, body) in zip(rows, bodies) {
                (position, digest) = (try row.value(at: 0), try row.value(at: 1))
                do throws(DamagedBody) {
                    _ = try AuditedBody(stored: body, digest: digest, headers: headers).bytes()
                } catch {
                    return "event_conflict \(position): \(error)"
                }
            }
        }
    }

    /// The first answer about certificates that is not what was sealed; nil if all are. They belong to no stream.
    package func firstDamagedVerdict() async throws(PostgresError) -> String? {
        let broken = try await connection.query(Statements.brokenVerdicts, deadline: .now + Limits.auditWaitMax)
        return broken.count == 0 ? nil : try Self.brokenSeal(broken[0])
    }

    private static func brokenSeal(_ row: Row) throws(PostgresError) -> String {
        "\(try row.value(String.self, at: 0)) \(try row.value(String.self, at: 1)): is not what was sealed"
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
    /// Events before this position may have no seal.
    let sealedFrom: Int64
}
