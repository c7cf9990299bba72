import Encoding
import Postgres
import Subscriptions

extension MonthClosing {
    /// The statement as an event of the log.
    package func event(environment: Environment, app: String?, receivedAt: Instant) -> Event {
        event(
            environment: environment, app: app, receivedAt: receivedAt,
            dedupeKey: DedupeKey(of: canonicalText, at: receivedAt))
    }

    /// Signed by the operator's head key.
    package func signed(by key: HeadKey) throws -> MonthClosing {
        var signed = self
        signed.signature = Signature(
            publicKey: key.publicKey.bytes, bytes: try key.signature(of: Self.purpose + signedText))
        return signed
    }

    /// Whether one of the keys signed the statement.
    package func isSigned(byOneOf keys: [HeadPublicKey]) -> Bool {
        guard let signature else { return false }
        return keys.contains { key in
            key.bytes == signature.publicKey && key.isSignature(signature.bytes, of: Self.purpose + signedText)
        }
    }

    /// Precedes what is signed, so that it is taken for nothing else that the key signs.
    private static let purpose = Array("subledger month 1\n".utf8)
}

/// The months that operators have closed: each is an event of its stream.
package struct MonthClosings: Sendable {
    private let pool: PostgresPool
    private let appender: Appender

    /// - Parameter pool: Has the rights of `subledger_receiver`.
    package init(pool: PostgresPool, appender: Appender) {
        self.pool = pool
        self.appender = appender
    }

    package enum Outcome: Sendable, Hashable {
        case stated(position: Int64)
        /// The month is closed. Nothing was appended.
        case closedAlready(at: Instant)
        /// The month is not closed. Nothing was appended.
        case notClosed
    }

    /// Closes a month, or opens it again. Durable when this returns. Of two processes that do so at once, one is refused.
    ///
    /// - Throws: ``ReadError``, ``AppendError``.
    package func state(_ closing: MonthClosing, in stream: StreamKey, receivedAt: Instant) async throws -> Outcome {
        try await pool.holding(.writes, in: stream) {
            connection async throws(PostgresError) -> Result<Outcome, AppendError> in
            let closedAt = try Self.closedAt(
                in: try await connection.query(
                    Statements.standing, Self.parameters(closing.month, stream), deadline: .now + Limits.readWaitMax))
            if closing.action == .close, let closedAt { return .success(.closedAlready(at: closedAt)) }
            if closing.action == .reopen, closedAt == nil { return .success(.notClosed) }
            do throws(AppendError) {
                let stated = StatedEvent(
                    closing.event(environment: stream.environment, app: stream.app, receivedAt: receivedAt),
                    text: closing.canonicalText, stream: stream)
                let appended = try await appender.append(PreparedEvent(stated, receivedAt: receivedAt))
                return .success(.stated(position: appended.position))
            } catch {
                return .failure(error)
            }
        }.get()
    }

    /// When a month was closed; nil if it is not.
    ///
    /// - Throws: ``ReadError``.
    package func closedAt(_ month: String, in stream: StreamKey) async throws(ReadError) -> Instant? {
        try await pool.read(
            Statements.standing, Self.parameters(month, stream), within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            return try Self.closedAt(in: rows)
        }
    }

    private static func parameters(_ month: String, _ stream: StreamKey) -> [Parameter] {
        [Parameter(stream.app), Parameter(stream.environment.rawValue), Parameter(month)]
    }

    private static func closedAt(in rows: RowSet) throws(PostgresError) -> Instant? {
        guard let row = rows.first else { return nil }
        let kind: String = try row.value(at: 0)
        return kind == EventKind.monthClosed.rawValue ? try row.value(at: 1) : nil
    }

    private enum Statements {
        /// The last statement about a month.
        static let standing = Statement(
            "month_closings_standing",
            """
            select event.kind, event.received_at
            from subledger.stream
            join subledger.event using (stream_id)
            where stream.app = $1
              and stream.environment = $2
              and event.source = 'operator'
              and event.kind in ('month_closed', 'month_reopened')
              and event.facts #>> '{closing,month}' = $3
            order by event.position desc
            limit 1
            """)
    }
}
