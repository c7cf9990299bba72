import Encoding
import EventLog
import Postgres
import Readers
import Subscriptions

/// The notifications of the log, to be passed on as the stores sent them.
struct EventFeed: MessageSource {
    /// Has the rights of `subledger_poller`.
    let pool: PostgresPool
    /// Hears of events.
    let signal: ChangeSignal
    let endpoint: Endpoint
    let streamId: Int32

    /// The sources of what stores push. What was asked for, or stated by backends, is not passed on.
    static let pushed = ["apple-v1", "apple-v2", "google-rtdn"]

    func page(after number: Int64, limit: Int) async throws(ReadError) -> MessagePage {
        try await pool.read(
            Statements.page, [Parameter(streamId), Parameter(number), Parameter(Int64(limit))],
            within: Limits.databaseWaitMax
        ) { rows throws(PostgresError) in
            var messages: [SourceMessage] = []
            var through = number
            for row in rows {
                through = try row.value(at: 0)
                if let message = try message(row) { messages.append(message) }
            }
            return MessagePage(messages: messages, through: through)
        }
    }

    func message(_ number: Int64) async throws(ReadError) -> SourceMessage? {
        try await page(after: number - 1, limit: 1).messages.first { $0.number == number }
    }

    private func message(_ row: Row) throws(PostgresError) -> SourceMessage? {
        let source: String = try row.value(at: 1)
        let body: [UInt8]? = try row.optional(at: 4)
        // An empty one was erased, and is meant to be gone.
        guard Self.pushed.contains(source), body?.isEmpty != true,
            (endpoint.kinds ?? Self.pushed).contains(source)
        else { return nil }
        let position: Int64 = try row.value(at: 0)
        let check: String = try row.value(at: 3)
        let id = "evt_\(streamId)_\(position)_\(check)_\(endpoint.id)"
        return SourceMessage(
            number: position, line: try row.value(at: 2), id: id,
            headers: [("content-type", "application/json"), ("webhook-id", id)], body: body ?? [], isLost: body == nil)
    }

    func mark() async -> ChangeSignal.Mark { await signal.mark(of: streamId) }

    func wait(since mark: ChangeSignal.Mark, until deadline: ContinuousClock.Instant) async {
        await signal.wait(for: streamId, since: mark, until: deadline)
    }

    private enum Statements {
        /// Only bodies that are passed on are rebuilt. Empty if it was erased, null if it is lost.
        static let page = Statement(
            "event_source_page",
            """
            select position, source,
              coalesce(
                facts #>> '{transactions,0,originalTransactionId}', facts #>> '{renewals,0,originalTransactionId}',
                facts #>> '{purchases,0,purchaseToken}', position::text
              ),
              left(encode(chain, 'hex'), 8),
              case when source in ('apple-v1', 'apple-v2', 'google-rtdn') then
                subledger.event_body(stream_id, position)
              end
            from subledger.event
            where stream_id = $1
              and position > $2
            order by position
            limit $3
            """)
    }
}
