import Encoding
import Postgres
import Subscriptions

extension LogReader {
    /// The position up to which a stream is folded; 0 if nothing is.
    ///
    /// - Throws: ``ReadError``.
    package func foldedPosition(of stream: StreamKey) async throws(ReadError) -> Int64 {
        try await pool.read(
            ProjectionStatements.folded, [Parameter(stream.app), Parameter(stream.environment.rawValue)],
            within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            let position: Int64? = try rows.first?.value(at: 0)
            return position ?? 0
        }
    }

    /// The position of the last event of a stream; 0 if it has none.
    ///
    /// - Throws: ``ReadError``.
    package func lastPosition(of stream: StreamKey) async throws(ReadError) -> Int64 {
        try await pool.read(
            ProjectionStatements.last, [Parameter(stream.app), Parameter(stream.environment.rawValue)],
            within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            let position: Int64? = try rows.first?.optional(at: 0)
            return position ?? 0
        }
    }

    /// The backend's customers that own subscriptions at an instant, as far as the stream is folded.
    ///
    /// - Throws: ``ReadError``.
    package func linkedOwners(
        of subscriptions: [String], in stream: StreamKey, at instant: Instant
    ) async throws(ReadError) -> Set<ByteString> {
        try await pool.read(
            ProjectionStatements.linkedOwners,
            [
                Parameter(stream.app), Parameter(stream.environment.rawValue), .array(subscriptions),
                Parameter(instant),
            ], within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            var owners: Set<ByteString> = []
            for row in rows { owners.insert(ByteString(try row.value(String.self, at: 0))) }
            return owners
        }
    }

    private enum ProjectionStatements {
        static let folded = Statement(
            "log_folded_position",
            """
            select checkpoint.position
            from subledger.stream
            join subledger.checkpoint using (stream_id)
            where stream.app = $1
              and stream.environment = $2
            """)

        static let last = Statement(
            "log_last_position",
            """
            select max(event.position)
            from subledger.stream
            join subledger.event using (stream_id)
            where stream.app = $1
              and stream.environment = $2
            """)

        static let linkedOwners = Statement(
            "log_linked_owners",
            """
            select distinct ownership.customer_id
            from subledger.stream
            join subledger.ownership using (stream_id)
            where stream.app = $1
              and stream.environment = $2
              and ownership.original_transaction_id = any ($3::text[])
              and ownership.customer_kind = 'link'
              and ownership.reason <> 'seat'
              and ownership.starts_at <= $4
              and ownership.ends_at > $4
            """)
    }
}
