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

    /// - Parameter error: Of the database, or of stored data that cannot be read.
    package init(reading error: any Error) {
        self =
            switch error {
            case let error as PostgresError: ReadError(error)
            case let error as ReadError: error
            default: .damaged(detail: String(describing: error))
            }
    }
}

/// Reads the event log in position order.
package struct LogReader: Sendable {
    let pool: PostgresPool
    let archive: BodyArchive

    /// - Parameter archive: Where the bodies of past months are, for those who read bodies.
    package init(pool: PostgresPool, archive: BodyArchive = .none) {
        self.pool = pool
        self.archive = archive
    }

    /// Returns when the database has responded.
    ///
    /// - Throws: ``ReadError``.
    package func ping(within limit: Duration = Limits.readWaitMax) async throws(ReadError) {
        try await pool.run(Statements.ping, within: limit)
    }

    /// The events after a position, oldest first.
    ///
    /// - Parameters:
    ///   - limit: Capped at ``Limits/pageEventsMax``.
    ///   - scanTime: After it, no more events are read to find those that the filter selects; nil for no such limit.
    /// - Throws: ``ReadError``.
    package func events(
        of stream: StreamKey, after place: ReadPlace, limit: Int, filter: EventFilter = EventFilter(),
        scanTime: Duration? = nil
    ) async throws(ReadError) -> EventPage.Outcome {
        let deadline = ContinuousClock.now + Limits.readWaitMax
        do throws(PostgresError) {
            let found = try await pool.query(
                Statements.head, [Parameter(stream.app), Parameter(stream.environment.rawValue)], deadline: deadline)
            guard found.count == 1 else { return .noStream }
            let id: Int32 = try found[0].value(at: 0)
            let head: Int64 = try found[0].value(at: 1)
            guard place.number <= head else { return .beyondHead(head) }
            let span = try await span(id, filter, head: head, deadline: deadline)
            let after = max(place.number, span.first - 1)
            guard after < span.last else {
                return try await page([], id, from: place, through: head, head: head, hasMore: false, deadline)
            }
            let last = span.last - after > Limits.scannedEventsMax ? after + Limits.scannedEventsMax : span.last
            let limit = min(limit, Limits.pageEventsMax)
            let step = scanTime == nil ? Limits.scannedEventsMax : Limits.scanStepEvents
            let scanEnd = ContinuousClock.now + (scanTime ?? .zero)
            var events: [StoredEvent] = []
            var through = after
            repeat {
                let end = min(last, through + step)
                let rows = try await pool.query(
                    Statements.page,
                    [
                        Parameter(id), Parameter(through), Parameter(end), Parameter(filter.type),
                        Parameter(filter.kind), Parameter(filter.source), Parameter(filter.receivedFrom),
                        Parameter(filter.receivedUntil), Parameter(Int64(limit - events.count)),
                    ], deadline: deadline)
                events += try Self.storedEvents(rows)
                through = events.count == limit ? events.last?.position ?? end : end
            } while events.count < limit && through < last && ContinuousClock.now < scanEnd
            return try await page(
                events, id, from: place, through: through, head: head, hasMore: through < span.last, deadline)
        } catch {
            throw ReadError(error)
        }
    }

    /// The page, if the event at `place` is still the one that the client has read.
    private func page(
        _ events: [StoredEvent], _ stream: Int32, from place: ReadPlace, through: Int64, head: Int64, hasMore: Bool,
        _ deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> EventPage.Outcome {
        let rows = try await pool.query(
            Statements.places, [Parameter(stream), Parameter(place.number), Parameter(through)], deadline: deadline)
        var places: [Int64: ReadPlace] = [0: .start]
        for row in rows {
            let number: Int64 = try row.value(at: 0)
            places[number] = ReadPlace(number: number, check: try row.value(at: 1))
        }
        guard let read = places[place.number], place.precedes(read), let through = places[through] else {
            return .replaced
        }
        return .page(EventPage(events: events, through: through, head: head, hasMore: hasMore))
    }

    /// The range of positions that contains the events received in the filter's time range. Empty if there are none.
    private func span(
        _ stream: Int32, _ filter: EventFilter, head: Int64, deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> (first: Int64, last: Int64) {
        guard filter.receivedFrom != nil || filter.receivedUntil != nil else { return (1, head) }
        let rows = try await pool.query(
            Statements.span, [Parameter(stream), Parameter(filter.receivedFrom), Parameter(filter.receivedUntil)],
            deadline: deadline)
        let first: Int64? = filter.receivedFrom == nil ? 1 : try rows[0].optional(at: 0)
        let last: Int64? = filter.receivedUntil == nil ? head : try rows[0].optional(at: 1)
        guard let first, let last else { return (1, 0) }
        return (first, min(last, head))
    }

    /// Decodes rows with the columns of ``Statements/page``.
    package static func storedEvents(_ rows: RowSet) throws(PostgresError) -> [StoredEvent] {
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
              and position <= $3
              and ($4 is null or type = $4)
              and ($5 is null or kind = $5)
              and ($6 is null or source = $6)
              and ($7 is null or received_at >= $7)
              and ($8 is null or received_at < $8)
            order by position
            limit $9
            """)

        static let places = Statement(
            "log_places",
            """
            select position, left(encode(chain, 'hex'), 16)
            from subledger.event
            where stream_id = $1
              and position in ($2, $3)
            """)

        /// Receivers read the clock before they assign positions in commit order, so events received within a minute
        /// of each other may be in a different order by time than by position. `offset 0` keeps the planner from
        /// scanning by position.
        static let span = Statement(
            "log_span",
            """
            select
              (
                select min(position)
                from (
                  select position
                  from subledger.event
                  where stream_id = $1
                    and received_at >= $2
                    and received_at < (
                      select received_at
                      from subledger.event
                      where stream_id = $1
                        and received_at >= $2
                      order by received_at
                      limit 1
                    ) + interval '1 minute'
                  offset 0
                ) as early
              ),
              (
                select max(position)
                from (
                  select position
                  from subledger.event
                  where stream_id = $1
                    and received_at < $3
                    and received_at > (
                      select received_at
                      from subledger.event
                      where stream_id = $1
                        and received_at < $3
                      order by received_at desc
                      limit 1
                    ) - interval '1 minute'
                  offset 0
                ) as late
              )
            """)
    }
}
