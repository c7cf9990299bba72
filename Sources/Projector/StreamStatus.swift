import Postgres
import Subscriptions

/// How far the projector is in a stream.
package struct StreamStatus: Sendable, Hashable, CustomStringConvertible {
    package let app: String
    package let environment: String
    /// The last position in the log.
    package let head: Int64
    /// All up to this position is folded.
    package let folded: Int64
    /// Events that an operator had the projector pass over.
    package let skips: Int64

    package var description: String {
        "\(app), \(environment): head \(head), folded \(folded), lag \(head - folded), skips \(skips)"
    }

    /// Every stream, in the order of their ids.
    ///
    /// - Parameter connection: May do what a reader may do.
    package static func all(on connection: PostgresConnection) async throws(PostgresError) -> [StreamStatus] {
        let rows = try await connection.query(Statements.all, deadline: .now + Limits.readWaitMax)
        var streams: [StreamStatus] = []
        for row in rows {
            streams.append(
                StreamStatus(
                    app: try row.value(at: 0), environment: try row.value(at: 1), head: try row.value(at: 2),
                    folded: try row.value(at: 3), skips: try row.value(at: 4)))
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
                where projector_skip.stream_id = stream.stream_id
              )
            from subledger.stream
            join subledger.stream_head using (stream_id)
            left join subledger.checkpoint using (stream_id)
            order by stream.stream_id
            """)
    }
}
