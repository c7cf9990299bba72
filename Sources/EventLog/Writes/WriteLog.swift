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
    }

    /// Appends a request, unless it must not be sent. Durable when this returns.
    ///
    /// A request without an answer for the same change gives its identifier to the new one, so the store makes the change
    /// once. Requests that several processes begin at the same time follow one another.
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
                by: request.by, reason: request.reason)
            return await append(sent, in: stream, receivedAt: receivedAt).map { .begun($0, repeats: repeats) }
        }.get()
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
        do throws(PostgresError) {
            return try await pool.withConnection(deadline: .now + Limits.readWaitMax) {
                (connection) async throws(PostgresError) -> [Placed] in
                try await Self.placed(about: subject, in: stream, connection)
            }
        } catch {
            throw ReadError(error)
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
        let rows = try await connection.query(
            Step(
                Statements.about,
                [
                    Parameter(stream.app), Parameter(stream.environment.rawValue), Parameter(subject),
                    Parameter(Limits.writesMax),
                ]), deadline: .now + Limits.readWaitMax)
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
