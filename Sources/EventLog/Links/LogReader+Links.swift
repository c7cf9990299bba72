import Encoding
import Postgres
import Subscriptions

extension LogReader {
    /// The last link statement about a customer, with its position; nil if there is none.
    ///
    /// - Throws: ``ReadError``.
    package func linkStatement(
        ofCustomer backendCustomerId: String, in stream: StreamKey
    ) async throws(ReadError) -> (statement: LinkStatement, position: Int64)? {
        do {
            let rows = try await pool.query(
                LinkStatements.last,
                [Parameter(stream.app), Parameter(stream.environment.rawValue), Parameter(backendCustomerId)],
                deadline: .now + Limits.readWaitMax)
            guard let row = rows.last else { return nil }
            let facts = try Facts(json: try JSONDocument(try row.value(JSONB.self, at: 1).utf8).root)
            return try facts.link.map { ($0, try row.value(at: 0)) }
        } catch let error as PostgresError {
            throw ReadError(error)
        } catch {
            throw .damaged(detail: String(describing: error))
        }
    }

    private enum LinkStatements {
        static let last = Statement(
            "log_last_link_statement",
            """
            select event.position, event.facts
            from subledger.stream
            cross join lateral (
              select position, facts
              from subledger.event
              where event.stream_id = stream.stream_id
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
