import Encoding
import Postgres

/// The projector's progress in a stream.
package struct StreamStatus: Sendable, Hashable, CustomStringConvertible {
    package let app: String
    package let environment: String
    /// The last position in the log.
    package let head: Int64
    /// All events up to this position are folded.
    package let folded: Int64
    /// The number of events that operators have skipped.
    package let skips: Int64
    /// When the oldest event that is not folded was received; nil if all are folded.
    package let waitingSince: Instant?
    /// Why the stream is stalled, as a raw value of ``StallCause`` that a running projector has recorded; nil if it is
    /// not stalled.
    package let stalledBy: String?

    package var description: String {
        var text = "\(app), \(environment): head \(head), folded \(folded), lag \(head - folded), skips \(skips)"
        if let waitingSince { text += ", waiting since \(waitingSince)" }
        if let stalledBy { text += ", stalled: \(stalledBy)" }
        return text
    }

    /// All streams, in order of stream id.
    ///
    /// - Parameter connection: Has the rights of a reader.
    package static func all(on connection: PostgresConnection) async throws(PostgresError) -> [StreamStatus] {
        let rows = try await connection.query(Statements.all, deadline: .now + Limits.readWaitMax)
        var streams: [StreamStatus] = []
        for row in rows {
            streams.append(
                StreamStatus(
                    app: try row.value(at: 0), environment: try row.value(at: 1), head: try row.value(at: 2),
                    folded: try row.value(at: 3), skips: try row.value(at: 4), waitingSince: try row.optional(at: 5),
                    stalledBy: try row.optional(at: 6)))
        }
        return streams
    }

    private enum Statements {
        static let all = Statement(
            "projector_status",
            """
            select stream.app, stream.environment, stream_head.position, coalesce(checkpoint.position, 0),
              (
                select count(*)
                from subledger.projector_skip
                where projector_skip.stream_id = stream_head.stream_id
              ),
              (
                select event.received_at
                from subledger.event
                where event.stream_id = stream_head.stream_id
                  and event.position = coalesce(checkpoint.position, 0) + 1
              ),
              (
                select projector_stall.cause
                from subledger.projector_stall
                where projector_stall.stream_id = stream_head.stream_id
                  and projector_stall.position = coalesce(checkpoint.position, 0)
              )
            from subledger.stream_head
            join subledger.stream using (stream_id)
            left join subledger.checkpoint using (stream_id)
            order by stream.stream_id
            """)
    }
}
