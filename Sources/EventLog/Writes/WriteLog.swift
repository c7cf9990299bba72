import Encoding
import Postgres
import Subscriptions

/// The changes that operators ask the store for: each is an event before the store is asked, and another one with the
/// store's answer.
///
/// If the process ends in between, the request has no answer in the log. It is repeated with the same identifier, by which
/// the store recognises it.
package struct WriteLog: Sendable {
    private let pool: PostgresPool
    private let appender: Appender

    /// - Parameter pool: Has the rights of `subledger_poller`.
    package init(pool: PostgresPool, appender: Appender) {
        self.pool = pool
        self.appender = appender
    }

    /// An event of the log.
    package struct Placed: Sendable {
        package let write: StoreWrite
        package let position: Int64
        package let receivedAt: Instant
    }

    package enum Begun: Sendable {
        /// The request is in the log, and the store may be asked. `repeats` is an earlier request with its identifier.
        case begun(Placed, repeats: Placed?)
        /// Another change, which this one would come on top of, may have been made: the request for it has no answer.
        /// Nothing was appended.
        case open(Placed)
        /// The identifier is of a request for another change. Nothing was appended.
        case identifierUsed(Placed)
        /// The log has a request with its key, which must not be sent again. Nothing was appended.
        case known(Repeat)
    }

    /// What the log has of a request with an idempotency key.
    package enum Repeat: Sendable {
        /// The store has made the change, or refused it.
        case answered(Placed)
        /// The request was stored lately, and has no answer yet.
        case underWay(Placed)
        /// It has no answer, or an unknown one, so it may be sent again.
        case unfinished(Placed)
        /// The key is of another request.
        case keyUsed(Placed)
    }

    /// Appends a request, unless it must not be sent. Durable when this returns.
    ///
    /// A request without an answer for the same change gives its identifier to the new one, so the store makes the change
    /// once. Requests that several processes begin at the same time follow one another. A request with an idempotency key that
    /// the log has is appended only if the first one has no known answer, and then repeats it.
    ///
    /// - Parameters:
    ///   - request: Has no answer.
    ///   - isIdentifierChosen: Whether the operator has chosen the identifier of the request. Then it is kept, and requests
    ///     without an answer are left alone.
    /// - Throws: ``ReadError``, ``AppendError``.
    package func begin(
        _ request: StoreWrite, isIdentifierChosen: Bool, in stream: StreamKey, receivedAt: Instant
    ) async throws -> Begun {
        try await pool.holding(.writes, in: stream) {
            connection async throws(PostgresError) -> Result<Begun, AppendError> in
            if let key = request.idempotency {
                switch try await Self.known(key, in: stream, at: receivedAt, connection) {
                case nil: break
                case .unfinished(let first):
                    let again = StoreWrite(
                        first.write.change, requestIdentifier: first.write.requestIdentifier, by: request.by,
                        reason: request.reason)
                    return await append(again, in: stream, receivedAt: receivedAt).map { .begun($0, repeats: first) }
                case let known?: return .success(.known(known))
                }
            }
            let earlier = try await Self.placed(about: request.change, in: stream, connection)
            var repeats: Placed?
            if isIdentifierChosen {
                repeats = earlier.first { $0.write.requestIdentifier == request.requestIdentifier }
                if let repeats, repeats.write.change != request.change { return .success(.identifierUsed(repeats)) }
            } else {
                let open = Self.open(earlier)
                repeats = open.first { $0.write.change == request.change }
                if repeats == nil, request.change.isAddition, let other = open.first { return .success(.open(other)) }
            }
            let sent = StoreWrite(
                request.change, requestIdentifier: repeats?.write.requestIdentifier ?? request.requestIdentifier,
                by: request.by, reason: request.reason, idempotency: request.idempotency)
            return await append(sent, in: stream, receivedAt: receivedAt).map { .begun($0, repeats: repeats) }
        }.get()
    }

    /// What the log has of a request with a key; nil if there is none.
    ///
    /// - Throws: ``ReadError``.
    package func known(
        _ key: StoreWrite.IdempotencyKey, in stream: StreamKey, at now: Instant
    ) async throws(ReadError) -> Repeat? {
        try await pool.using(within: Limits.readWaitMax) { (connection) async throws(PostgresError) -> Repeat? in
            try await Self.known(key, in: stream, at: now, connection)
        }
    }

    /// Appends a request that is sent several times, unless the log has it. Durable when this returns.
    ///
    /// - Parameter isFirst: Whether it was never sent. If it was, and it is about no known subscription, the log has it.
    /// - Returns: The request, by whom the log says.
    /// - Throws: ``ReadError``, ``AppendError``: then it must not be sent.
    package func noted(
        _ request: StoreWrite, isFirst: Bool, in stream: StreamKey, receivedAt: Instant
    ) async throws -> StoreWrite {
        if let subject = request.change.originalTransactionId {
            let known = try await writes(about: subject, in: stream).first {
                $0.write.requestIdentifier == request.requestIdentifier
            }
            if let known {
                return StoreWrite(
                    request.change, requestIdentifier: request.requestIdentifier, by: known.write.by,
                    reason: known.write.reason)
            }
        } else if !isFirst {
            return request
        }
        return try await append(request, in: stream, receivedAt: receivedAt).get().write
    }

    /// Appends the store's answer to a request. Durable when this returns.
    package func finish(
        _ answered: StoreWrite, in stream: StreamKey, receivedAt: Instant
    ) async -> Result<Placed, AppendError> {
        await append(answered, in: stream, receivedAt: receivedAt)
    }

    /// The last requests and answers about a subscription or product, the latest first, at most ``Limits/writesMax``.
    ///
    /// - Parameter subject: An `originalTransactionId` or a product id.
    /// - Throws: ``ReadError``.
    package func writes(about subject: String, in stream: StreamKey) async throws(ReadError) -> [Placed] {
        try await pool.using(within: Limits.readWaitMax) { (connection) async throws(PostgresError) -> [Placed] in
            try await Self.placed(about: subject, in: stream, connection)
        }
    }

    /// The last event of each request that has no answer or an unknown one, the latest first.
    ///
    /// - Parameter placed: The latest first.
    static func open(_ placed: [Placed]) -> [Placed] {
        var seen: Set<String> = []
        return placed.filter { seen.insert($0.write.requestIdentifier).inserted && $0.write.isOpen }
    }

    private func append(
        _ write: StoreWrite, in stream: StreamKey, receivedAt: Instant
    ) async -> Result<Placed, AppendError> {
        do throws(AppendError) {
            let stated = StatedEvent(
                write.event(environment: stream.environment, app: stream.app, receivedAt: receivedAt),
                text: write.canonicalText, stream: stream)
            let appended = try await appender.append(PreparedEvent(stated, receivedAt: receivedAt))
            return .success(Placed(write: write, position: appended.position, receivedAt: receivedAt))
        } catch {
            return .failure(error)
        }
    }

    /// Requests of the same kind, the latest first.
    private static func placed(
        about change: StoreWrite.Change, in stream: StreamKey, _ connection: PostgresConnection
    ) async throws(PostgresError) -> [Placed] {
        try await placed(about: change.subject, in: stream, connection).filter {
            $0.write.change.action == change.action
        }
    }

    private static func placed(
        about subject: String, in stream: StreamKey, _ connection: PostgresConnection
    ) async throws(PostgresError) -> [Placed] {
        try await placed(
            Statements.about,
            [
                Parameter(stream.app), Parameter(stream.environment.rawValue), Parameter(subject),
                Parameter(Limits.writesMax),
            ], connection)
    }

    private static func known(
        _ key: StoreWrite.IdempotencyKey, in stream: StreamKey, at now: Instant, _ connection: PostgresConnection
    ) async throws(PostgresError) -> Repeat? {
        let place = [Parameter(stream.app), Parameter(stream.environment.rawValue)]
        let keyed = try await placed(
            Statements.withKey, place + [Parameter(DedupeKey(of: key).bytes)], connection)
        guard let first = keyed.first else { return nil }
        guard first.write.idempotency == key else { return .keyUsed(first) }
        let parameters = [Parameter(first.write.change.subject), Parameter(first.write.requestIdentifier)]
        let last = try await placed(Statements.withIdentifier, place + parameters, connection).first ?? first
        guard last.write.isOpen else { return .answered(last) }
        let isUnderWay = last.write.answer == nil && last.receivedAt.duration(to: now) < Limits.writeUnderWayMax
        return isUnderWay ? .underWay(first) : .unfinished(first)
    }

    private static func placed(
        _ statement: Statement, _ parameters: [Parameter], _ connection: PostgresConnection
    ) async throws(PostgresError) -> [Placed] {
        let rows = try await connection.query(
            Step(statement, parameters), deadline: .now + Limits.readWaitMax)
        var placed: [Placed] = []
        for row in rows {
            let text = try row.value(JSONB.self, at: 2).utf8
            guard let document = try? JSONDocument(text), let write = try? Facts(json: document.root).write else {
                throw PostgresError(.decoding)
            }
            placed.append(Placed(write: write, position: try row.value(at: 0), receivedAt: try row.value(at: 1)))
        }
        return placed
    }

    private enum Statements {
        /// The first request with an idempotency key.
        static let withKey = Statement(
            "log_write_with_key",
            """
            select event.position, event.received_at, event.facts
            from subledger.stream
            join subledger.stream_head using (stream_id)
            join subledger.event using (stream_id)
            where stream.app = $1
              and stream.environment = $2
              and event.dedupe_key = $3
              and event.source = 'operator'
            """)

        /// The last event of a request, or that of the answer that it was made.
        static let withIdentifier = Statement(
            "log_write_with_identifier",
            """
            select event.position, event.received_at, event.facts
            from subledger.stream
            join subledger.stream_head using (stream_id)
            cross join lateral (
              select position, received_at, facts
              from subledger.event
              where event.stream_id = stream_head.stream_id
                and coalesce(event.facts #>> '{write,originalTransactionId}', event.facts #>> '{write,productId}') = $3
                and event.facts #>> '{write,requestIdentifier}' = $4
                and event.source = 'operator'
              order by coalesce(event.facts #>> '{write,answer,result}' = 'accepted', false) desc, event.position desc
              limit 1
            ) as event
            where stream.app = $1
              and stream.environment = $2
            """)

        static let about = Statement(
            "log_writes_about",
            """
            select event.position, event.received_at, event.facts
            from subledger.stream
            join subledger.stream_head using (stream_id)
            cross join lateral (
              select position, received_at, facts
              from subledger.event
              where event.stream_id = stream_head.stream_id
                and coalesce(event.facts #>> '{write,originalTransactionId}', event.facts #>> '{write,productId}') = $3
                and event.source = 'operator'
              order by event.position desc
              limit $4
            ) as event
            where stream.app = $1
              and stream.environment = $2
            order by event.position desc
            """)
    }
}
