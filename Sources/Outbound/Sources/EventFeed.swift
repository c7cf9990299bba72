import Encoding
import EventLog
import Postgres
import Readers
import Subscriptions

/// The notifications of the log, to be passed on as the stores sent them.
struct EventFeed: MessageSource {
    /// Has the rights of `subledger_poller`.
    let pool: PostgresPool
    /// Where the bodies of past months are: an operator can ask for their delivery.
    let archive: BodyArchive
    /// Hears of events.
    let signal: ChangeSignal
    let endpoint: Endpoint
    let streamId: Int32

    /// The sources of what is passed on.
    static let pushed = EventSource.allCases.filter(\.isPushed).map(\.rawValue)

    func page(after number: Int64, limit: Int) async throws(ReadError) -> MessagePage {
        let found = try await pool.readBodies(
            Statements.page,
            [Parameter(streamId), Parameter(number), Parameter(Int64(limit)), .array(Self.pushed)],
            within: Limits.databaseWaitMax
        ) { rows throws(PostgresError) in try rows.map { row throws(PostgresError) in try FoundEvent(row) } }
        var messages: [SourceMessage] = []
        for event in found {
            if let message = try message(event) { messages.append(message) }
        }
        return MessagePage(messages: messages, through: found.last?.position ?? number)
    }

    func message(_ number: Int64) async throws(ReadError) -> SourceMessage? {
        try await page(after: number - 1, limit: 1).messages.first { $0.number == number }
    }

    private func message(_ event: FoundEvent) throws(ReadError) -> SourceMessage? {
        guard Self.pushed.contains(event.source), (endpoint.kinds ?? Self.pushed).contains(event.source) else {
            return nil
        }
        var body = event.body
        if body == nil, let files = event.files {
            do throws(DamagedBody) {
                body = try archive.evidence(at: event.position, in: files, digest: event.digest) ?? []
            } catch {
                throw ReadError.damaged(detail: "position \(event.position): \(error)")
            }
        }
        // An empty one was erased, and is meant to be gone.
        guard body?.isEmpty != true else { return nil }
        let id = "evt_\(streamId)_\(event.position)_\(event.check)_\(endpoint.id)"
        return SourceMessage(
            number: event.position, line: event.line, id: id,
            headers: [("content-type", "application/json"), ("webhook-id", id)], body: body ?? [], isLost: body == nil)
    }

    private struct FoundEvent {
        let position: Int64
        let source: String
        let line: String
        let check: String
        /// Nil if it is not in the database; empty if it was erased.
        let body: [UInt8]?
        /// The archive files that can have it.
        let files: String?
        let digest: [UInt8]

        init(_ row: Row) throws(PostgresError) {
            position = try row.value(at: 0)
            source = try row.value(at: 1)
            line = try row.value(at: 2)
            check = try row.value(at: 3)
            body = try row.optional(at: 4)
            files = try row.optional(at: 5)
            digest = try row.value(at: 6)
        }
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
              left(encode(chain, 'hex'), 8), subledger.rebuilt_body(stream_id, stored.body), archived.files, body_sha256
            from (
              select stream_id, position, received_at, source, facts, chain, body_sha256,
                source = any ($4::text[]) as is_pushed
              from subledger.event
              where stream_id = $1
                and position > $2
              order by position
              limit $3
            ) as event
            left join \(BodyPartitions.bodyOfEvent) on is_pushed
            left join \(BodyArchive.filesOfEvent) on is_pushed and stored.body is null
            order by position
            """)
    }
}
