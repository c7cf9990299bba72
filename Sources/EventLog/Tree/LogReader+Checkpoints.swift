import Postgres
import Subscriptions

extension LogReader {
    /// The last signed checkpoint of a stream, with the cosignatures that it has; nil if none was signed.
    package func checkpoint(of stream: StreamKey) async throws(ReadError) -> SignedCheckpoint? {
        let notes = try await pool.read(
            Self.checkpointStatement, [Parameter(stream.app), Parameter(stream.environment.rawValue)],
            within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> [(String, String?)] in
            try rows.map { (row) throws(PostgresError) -> (String, String?) in
                (try row.value(at: 0), try row.optional(at: 1))
            }
        }
        guard let first = notes.first, let checkpoint = SignedCheckpoint(encoded: first.0) else { return nil }
        return notes.compactMap { $0.1.flatMap(SignedCheckpoint.init(encoded:)) }
            .filter { $0.checkpoint == checkpoint.checkpoint }
            .reduce(checkpoint) { $0.with($1.note.signatures) }
    }

    private static let checkpointStatement = Statement(
        "stream_checkpoint",
        """
        select head_checkpoint.note, head_cosignature.note
        from subledger.head_checkpoint
        join subledger.stream on stream.stream_id = head_checkpoint.stream_id
        left join subledger.head_cosignature
          on head_cosignature.stream_id = head_checkpoint.stream_id
          and head_cosignature.origin = head_checkpoint.origin
          and head_cosignature.size = head_checkpoint.size
        where stream.app = $1
          and stream.environment = $2
        order by head_cosignature.witness
        """)
}
