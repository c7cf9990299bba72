import Encoding
import EventLog
import Postgres

/// A single event with everything that is known about it, except its body.
package struct EventRecord: Sendable {
    package let event: StoredEvent
    package let bodySHA256: String
    /// Where the body is: `database`, `archive`, `erased`, `wrong_time` or `missing`.
    package let bodyPlace: String
    /// The archive file that has the body, or what is left of it; nil without one.
    package let archiveFile: String?
    /// Nil if no certificates signed it.
    package let chainId: String?
    /// The result of the revocation check when it was received; nil if there was none.
    package let revocation: String?
    package let verdicts: [Verdict]
    package let conflicts: [Conflict]
    package let changes: [ChangeRow]
    package let skip: Skip?
    package let changesSQL: ReadableSQL

    package struct Verdict: Sendable {
        package let decidedAt: Instant
        package let verdict: String
    }

    package struct Conflict: Sendable {
        package let bodySHA256: String
        package let receivedAt: Instant
    }

    package struct Skip: Sendable {
        package let reason: String
        package let at: Instant
        package let by: String
    }
}

/// A published change.
package struct ChangeRow: Sendable {
    package let number: Int64
    package let publishedAt: Instant
    package let kind: String
    package let originalTransactionId: String
    package let at: Instant
    package let cause: String
    package let position: Int64?
    package let productId: String?
    package let until: Instant?

    init(_ row: Row) throws(PostgresError) {
        number = try row.value(at: 0)
        publishedAt = try row.value(at: 1)
        kind = try row.value(at: 2)
        originalTransactionId = try row.value(at: 3)
        at = try row.value(at: 4)
        cause = try row.value(at: 5)
        position = try row.optional(at: 6)
        productId = try row.optional(at: 7)
        until = try row.optional(Timestamptz.self, at: 8)?.end
    }

    static func all(_ rows: RowSet) throws(PostgresError) -> [ChangeRow] {
        var changes: [ChangeRow] = []
        for row in rows { changes.append(try ChangeRow(row)) }
        return changes
    }
}

extension ConsoleReader {
    /// The event at a position; nil if there is none.
    package func event(_ position: Int64, in stream: StreamState) async throws(ReadError) -> EventRecord? {
        guard let event = try await events([position], in: stream).first else { return nil }
        let key = [Parameter(stream.streamId), Parameter(position)]
        let proof = try await rows(Self.proof, key)
        let places = try await rows(Self.place, key)
        let verdicts = try await rows(Self.verdicts, key)
        let conflicts = try await rows(Self.conflicts, key)
        let changes = try await rows(Self.changes, key + [Parameter(Int64(Limits.changesShownMax))])
        let skips = try await rows(Self.skip, key)
        return try decoding { () throws(PostgresError) in
            guard let row = proof.first else { return nil }
            return EventRecord(
                event: event, bodySHA256: Hex.text(try row.value(at: 0)),
                bodyPlace: try places.first?.value(at: 0) ?? "missing",
                archiveFile: try places.first?.optional(at: 1) ?? nil,
                chainId: try row.optional([UInt8].self, at: 1).map { Hex.text($0) },
                revocation: try row.optional(at: 2),
                verdicts: try Self.all(verdicts) { row throws(PostgresError) in
                    EventRecord.Verdict(decidedAt: try row.value(at: 0), verdict: try row.value(at: 1))
                },
                conflicts: try Self.all(conflicts) { row throws(PostgresError) in
                    EventRecord.Conflict(
                        bodySHA256: Hex.text(try row.value(at: 0)), receivedAt: try row.value(at: 1))
                },
                changes: try ChangeRow.all(changes),
                skip: try skips.first.map { row throws(PostgresError) in
                    EventRecord.Skip(
                        reason: try row.value(at: 0), at: try row.value(at: 1), by: try row.value(at: 2))
                },
                changesSQL: ReadableSQL(
                    Self.changes,
                    [.number(Int64(stream.streamId)), .number(position), .number(Int64(Limits.changesShownMax))]))
        }
    }

    /// The events at some positions, in their order; the latest ``Limits/eventsShownMax`` of them, and the others.
    package func events(
        _ positions: [Int64], and others: Set<Int64> = [], in stream: StreamState
    ) async throws(ReadError) -> [StoredEvent] {
        let all = others.union(positions.sorted().suffix(Limits.eventsShownMax))
        guard !all.isEmpty else { return [] }
        let rows = try await rows(Self.events, [Parameter(stream.streamId), .array(Array(all))])
        return try decoding { () throws(PostgresError) in try LogReader.storedEvents(rows) }
    }

    /// The position of the last event that was received until an instant; 0 if there was none.
    package func head(at instant: Instant, in stream: StreamState) async throws(ReadError) -> Int64 {
        let rows = try await rows(Self.headThen, [Parameter(stream.streamId), Parameter(instant)])
        return try decoding { () throws(PostgresError) in try rows.first?.value(at: 0) ?? 0 }
    }

    static func all<Value>(
        _ rows: RowSet, _ decode: (Row) throws(PostgresError) -> Value
    ) throws(PostgresError) -> [Value] {
        var values: [Value] = []
        for row in rows { values.append(try decode(row)) }
        return values
    }

    private static let events = Statement(
        "console_events",
        """
        select position, received_at, occurred_at, source, type, subtype, kind, dedupe_key, facts, defects
        from subledger.event
        where stream_id = $1
          and position = any ($2::bigint[])
        order by position
        """)

    private static let headThen = Statement(
        "console_head_then",
        """
        select position
        from subledger.event
        where stream_id = $1
          and received_at <= $2
        order by received_at desc, position desc
        limit 1
        """)

    private static let proof = Statement(
        "console_event_proof",
        """
        select body_sha256, chain_id, revocation
        from subledger.event
        where stream_id = $1
          and position = $2
        """)

    private static let place = Statement(
        "console_event_place",
        """
        select place, file
        from subledger.body_place($1, $2)
        """)

    private static let verdicts = Statement(
        "console_event_verdicts",
        """
        select certificate_verdict.decided_at, certificate_verdict.verdict
        from subledger.event
        join subledger.certificate_verdict using (chain_id)
        where event.stream_id = $1
          and event.position = $2
        order by certificate_verdict.decided_at
        """)

    private static let conflicts = Statement(
        "console_event_conflicts",
        """
        select body_sha256, received_at
        from subledger.event_conflict
        where stream_id = $1
          and position = $2
        order by received_at
        """)

    private static let changes = Statement(
        "console_event_changes",
        """
        select number, published_at, kind, original_transaction_id, at, cause, position, product_id, until
        from subledger.change
        where stream_id = $1
          and position = $2
        order by number
        limit $3
        """)

    private static let skip = Statement(
        "console_event_skip",
        """
        select reason, skipped_at, skipped_by
        from subledger.projector_skip
        where stream_id = $1
          and position = $2
        """)
}
