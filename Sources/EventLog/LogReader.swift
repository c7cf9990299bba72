import Postgres
import Subscriptions

extension ReadError {
    package init(_ error: PostgresError) {
        switch error.kind {
        case .unavailable, .deadlineExceeded, .outcomeUnknown, .closed: self = .unavailable
        case .server: self = error.isTransient ? .unavailable : .damaged(detail: error.debugDescription)
        case .decoding: self = .damaged(detail: error.description)
        }
    }
}

/// Reads the event log in the order of its positions.
package struct LogReader: Sendable {
    let pool: PostgresPool

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// Answers when the database does.
    package func ping() async throws(ReadError) {
        do throws(PostgresError) {
            _ = try await pool.query(Statements.ping, [], deadline: .now + Limits.readWaitMax)
        } catch {
            throw ReadError(error)
        }
    }

    /// The events behind a position, oldest first, and the position of the stream's head.
    ///
    /// - Parameter limit: At most ``Limits/pageEventsMax`` are read whatever is asked for.
    /// - Returns: Nil when there is no such stream.
    package func events(
        of stream: StreamKey, after position: Int64, limit: Int
    ) async throws(ReadError) -> (events: [StoredEvent], head: Int64)? {
        let deadline = ContinuousClock.now + Limits.readWaitMax
        do throws(PostgresError) {
            let found = try await pool.query(
                Statements.head, [Parameter(stream.app), Parameter(stream.environment.rawValue)], deadline: deadline)
            guard found.count == 1 else { return nil }
            let id: Int32 = try found[0].value(at: 0)
            let rows = try await pool.query(
                Statements.page,
                [Parameter(id), Parameter(position), Parameter(Int64(min(limit, Limits.pageEventsMax)))],
                deadline: deadline)
            return (try Self.storedEvents(rows), try found[0].value(at: 1))
        } catch {
            throw ReadError(error)
        }
    }

    /// Decodes rows with the columns of ``Statements/page``.
    private static func storedEvents(_ rows: RowSet) throws(PostgresError) -> [StoredEvent] {
        var events: [StoredEvent] = []
        events.reserveCapacity(rows.count)
        for index in 0..<rows.count {
            let row = rows[index]
            events.append(
                StoredEvent(
                    position: try row.value(at: 0), receivedAt: try row.value(at: 1),
                    occurredAt: try row.optional(at: 2), source: try row.value(at: 3), type: try row.optional(at: 4),
                    subtype: try row.optional(at: 5), kind: try row.value(at: 6),
                    dedupeKey: DedupeKey(bytes: try row.value(at: 7)),
                    facts: try row.value(JSONB.self, at: 8).utf8, defects: try row.optional(JSONB.self, at: 9)?.utf8))
        }
        return events
    }

    private enum Statements {
        static let ping = Statement("log_ping", "select 1")
        static let head = Statement(
            "log_head",
            """
            select stream.stream_id, stream_head.position
            from subledger.stream
            join subledger.stream_head using (stream_id)
            where stream.app = $1
              and stream.environment = $2
            """)
        static let page = Statement(
            "log_page",
            """
            select position, received_at, occurred_at, source, type, subtype, kind, dedupe_key, facts, defects
            from subledger.event
            where stream_id = $1
              and position > $2
            order by position
            limit $3
            """)
    }
}
