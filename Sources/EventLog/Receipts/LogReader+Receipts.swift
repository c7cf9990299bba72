import Encoding
import Postgres
import Subscriptions

extension LogReader {
    /// Those of the positions whose events contain a receipt, with which Apple can be asked later.
    ///
    /// - Throws: ``ReadError``.
    package func positionsWithReceipt(
        among positions: [Int64], in stream: StreamKey
    ) async throws(ReadError) -> Set<Int64> {
        try await pool.read(
            ReceiptStatements.positionsWithReceipt,
            [Parameter(stream.app), Parameter(stream.environment.rawValue), .array(positions)],
            within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            Set(try rows.map { row throws(PostgresError) in try row.value(Int64.self, at: 0) })
        }
    }

    /// The body of an event, and the `originalTransactionId`s that the event names; nil if there is no such event, or its
    /// body was erased.
    ///
    /// The pool needs the rights of `subledger_poller`: readers cannot read bodies.
    ///
    /// - Throws: ``ReadError``.
    package func body(
        at position: Int64, in stream: StreamKey
    ) async throws(ReadError) -> (bytes: [UInt8], subscriptions: Set<String>)? {
        do {
            let rows = try await pool.readBodies(
                ReceiptStatements.body,
                [Parameter(stream.app), Parameter(stream.environment.rawValue), Parameter(position)],
                within: Limits.readWaitMax
            ) { $0 }
            guard let row = rows.first else { return nil }
            let facts = try EventFacts(json: try JSONDocument(try row.value(JSONB.self, at: 1).utf8).root)
            var bytes: [UInt8]? = try row.optional(at: 0)
            if bytes == nil, let files = try row.optional(String.self, at: 2) {
                bytes = try archive.evidence(at: position, in: files, digest: try row.value(at: 3))
            }
            guard let bytes, !bytes.isEmpty else { return nil }
            return (bytes, Set(facts.bySubscription.keys))
        } catch {
            throw ReadError(reading: error)
        }
    }

    private enum ReceiptStatements {
        static let body = Statement(
            "receipt_body",
            """
            select subledger.rebuilt_body(event.stream_id, stored.body), event.facts, archived.files, event.body_sha256
            from subledger.stream
            join subledger.event using (stream_id)
            left join \(BodyPartitions.bodyOfEvent) on true
            left join \(BodyArchive.filesOfEvent) on stored.body is null
            where stream.app = $1
              and stream.environment = $2
              and event.position = $3
            """)

        static let positionsWithReceipt = Statement(
            "receipt_positions",
            """
            select event.position
            from subledger.stream
            join subledger.event using (stream_id)
            where stream.app = $1
              and stream.environment = $2
              and event.position = any ($3::bigint[])
              and event.source in ('apple-v1', 'apple-receipt')
            """)
    }
}
