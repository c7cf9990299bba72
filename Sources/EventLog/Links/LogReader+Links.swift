import Encoding
import Postgres
import Subscriptions

/// A link statement of the log, with its position.
package struct PlacedLinks: Sendable {
    package let statement: LinkStatement
    package let position: Int64
}

extension LogReader {
    /// The last link statement about a customer; nil if there is none.
    ///
    /// - Throws: ``ReadError``.
    package func linkStatement(
        ofCustomer backendCustomerId: String, in stream: StreamKey
    ) async throws(ReadError) -> PlacedLinks? {
        do throws(PostgresError) {
            return try await pool.withConnection(deadline: .now + Limits.readWaitMax) {
                (connection) async throws(PostgresError) -> PlacedLinks? in
                try await Self.lastLinks(ofCustomer: backendCustomerId, in: stream, connection)
            }
        } catch {
            throw ReadError(error)
        }
    }

    static func lastLinks(
        ofCustomer backendCustomerId: String, in stream: StreamKey, _ connection: PostgresConnection
    ) async throws(PostgresError) -> PlacedLinks? {
        let rows = try await connection.query(
            Step(
                LinkStatements.last,
                [Parameter(stream.app), Parameter(stream.environment.rawValue), Parameter(backendCustomerId)]),
            deadline: .now + Limits.readWaitMax)
        guard let row = rows.last else { return nil }
        let position: Int64 = try row.value(at: 0)
        let text = try row.value(JSONB.self, at: 1).utf8
        guard let document = try? JSONDocument(text), let facts = try? Facts(json: document.root) else {
            throw PostgresError(.decoding)
        }
        return facts.link.map { PlacedLinks(statement: $0, position: position) }
    }

    private enum LinkStatements {
        static let last = Statement(
            "log_last_link_statement",
            """
            select event.position, event.facts
            from subledger.stream
            join subledger.stream_head using (stream_id)
            cross join lateral (
              select position, facts
              from subledger.event
              where event.stream_id = stream_head.stream_id
                and event.facts #>> '{link,backendCustomerId}' = $3
                and event.kind = 'link'
              order by event.position desc
              limit 1
            ) as event
            where stream.app = $1
              and stream.environment = $2
            """)
    }
}
