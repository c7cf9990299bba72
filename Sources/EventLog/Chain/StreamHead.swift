import Encoding
import Postgres
import Subscriptions

/// The last position of a stream with the value of its hash chain.
package struct StreamHead: Sendable, Hashable {
    package let stream: StreamKey
    /// 0 if the stream has no events.
    package let position: Int64
    /// 32 bytes.
    package let chain: [UInt8]

    package init(stream: StreamKey, position: Int64, chain: [UInt8]) {
        self.stream = stream
        self.position = position
        self.chain = chain
    }

    /// The heads of all streams, in order of app and environment.
    ///
    /// - Parameter connection: Has the rights of a reader.
    package static func all(on connection: PostgresConnection) async throws(PostgresError) -> [StreamHead] {
        try heads(in: try await connection.query(statement, deadline: .now + Limits.readWaitMax))
    }

    static let statement = Statement(
        "stream_heads",
        """
        select stream.app, stream.environment, stream_head.position, stream_head.chain
        from subledger.stream
        join subledger.stream_head using (stream_id)
        order by stream.app, stream.environment
        """)

    static func heads(in rows: RowSet) throws(PostgresError) -> [StreamHead] {
        try rows.map { (row) throws(PostgresError) -> StreamHead in
            let name: String = try row.value(at: 1)
            guard let environment = Environment(rawValue: name) else {
                throw PostgresError(.decoding)
            }
            return StreamHead(
                stream: StreamKey(app: try row.value(at: 0), environment: environment),
                position: try row.value(at: 2), chain: try row.value(at: 3))
        }
    }
}

extension LogReader {
    /// The heads of all streams, in order of app and environment.
    package func heads() async throws(ReadError) -> [StreamHead] {
        try await pool.read(StreamHead.statement, within: Limits.readWaitMax) { rows throws(PostgresError) in
            return try StreamHead.heads(in: rows)
        }
    }
}
