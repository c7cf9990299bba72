import Encoding
import EventLog
import Postgres

/// What the console reads beside the other readers: streams, searches, single events, the state of the system.
package struct ConsoleReader: Sendable {
    let pool: PostgresPool

    /// - Parameter pool: With the rights of `subledger_reader`.
    package init(pool: PostgresPool) {
        self.pool = pool
    }

    func rows(_ statement: Statement, _ parameters: [Parameter] = []) async throws(ReadError) -> RowSet {
        try await pool.run(statement, parameters, within: Limits.readWaitMax)
    }

    /// Decodes rows; a column that cannot be read is damage.
    func decoding<Value>(_ decode: () throws(PostgresError) -> Value) throws(ReadError) -> Value {
        do throws(PostgresError) {
            return try decode()
        } catch {
            throw ReadError(error)
        }
    }
}

/// A stream, with how far it is folded.
package struct StreamState: Sendable, Hashable {
    package let streamId: Int32
    package let app: String
    package let environment: String
    package let head: Int64
    package let folded: Int64
    /// When the oldest event that is not folded was received; nil if all are.
    package let waitingSince: Instant?
    /// Why the projector does not advance, and since when; nil if it does.
    package let stall: Stall?

    package struct Stall: Sendable, Hashable {
        /// Of the last event that is folded.
        package let position: Int64
        package let cause: String
        package let since: Instant
    }

    package init(
        streamId: Int32, app: String, environment: String, head: Int64, folded: Int64, waitingSince: Instant?,
        stall: Stall? = nil
    ) {
        self.streamId = streamId
        self.app = app
        self.environment = environment
        self.head = head
        self.folded = folded
        self.waitingSince = waitingSince
        self.stall = stall
    }

    /// The value of the console's parameter `stream`.
    package var text: String { "\(environment):\(app)" }
    package var waiting: Int64 { Swift.max(0, head - folded) }
}

extension ConsoleReader {
    /// All streams, in order of bundle id and environment.
    package func streams() async throws(ReadError) -> [StreamState] {
        let rows = try await rows(Self.streams)
        return try decoding { () throws(PostgresError) in
            var states: [StreamState] = []
            for row in rows {
                let cause: String? = try row.optional(at: 7)
                states.append(
                    StreamState(
                        streamId: try row.value(at: 0), app: try row.value(at: 1), environment: try row.value(at: 2),
                        head: try row.value(at: 3), folded: try row.value(at: 4), waitingSince: try row.optional(at: 5),
                        stall: try cause.map { cause throws(PostgresError) in
                            StreamState.Stall(
                                position: try row.value(at: 6), cause: cause, since: try row.value(at: 8))
                        }))
            }
            return states
        }
    }

    private static let streams = Statement(
        "console_streams",
        """
        select stream.stream_id, stream.app, stream.environment, coalesce(stream_head.position, 0),
          coalesce(checkpoint.position, 0), waiting.received_at, projector_stall.position, projector_stall.cause,
          projector_stall.since
        from subledger.stream
        left join subledger.stream_head using (stream_id)
        left join subledger.checkpoint using (stream_id)
        left join subledger.projector_stall
          on projector_stall.stream_id = stream.stream_id
          and projector_stall.position = coalesce(checkpoint.position, 0)
        left join subledger.event as waiting
          on waiting.stream_id = stream.stream_id
          and waiting.position = coalesce(checkpoint.position, 0) + 1
        order by stream.app collate "C", stream.environment
        """)
}
