import Crypto
import Encoding
import Postgres
import Subscriptions

/// A month that an operator closes, or opens again. Only ``MonthClosings`` creates them.
struct ClosingEvent: ProvenEvent {
    let stream: StreamKey
    let event: Event
    let evidence: Evidence
    let bodyDigest: [UInt8]
    /// Nil: the signature of the head key is part of the statement.
    var chain: SigningChain? { nil }

    init(_ closing: MonthClosing, stream: StreamKey, receivedAt: Instant) {
        self.stream = stream
        event = closing.event(environment: stream.environment, app: stream.app, receivedAt: receivedAt)
        evidence = Evidence(closing.canonicalText)
        bodyDigest = Array(SHA256.hash(data: closing.canonicalText))
    }
}

extension MonthClosing {
    /// The statement as an event of the log. Its dedupe key is the SHA-256 of the statement and the time.
    package func event(environment: Environment, app: String?, receivedAt: Instant) -> Event {
        let stated = canonicalText + Array(" \(receivedAt.milliseconds)".utf8)
        return event(
            environment: environment, app: app, receivedAt: receivedAt,
            dedupeKey: DedupeKey(bytes: Array(SHA256.hash(data: stated))))
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
            let rows = try await connection.query(
                Statements.standing,
                [Parameter(stream.app), Parameter(stream.environment.rawValue), Parameter(closing.month)],
                deadline: .now + Limits.readWaitMax)
            let kind: String? = try rows.first?.value(at: 0)
            let isClosed = kind == EventKind.monthClosed.rawValue
            if closing.action == .close, isClosed, let row = rows.first {
                return .success(.closedAlready(at: try row.value(at: 1)))
            }
            if closing.action == .reopen, !isClosed { return .success(.notClosed) }
            do throws(AppendError) {
                let event = ClosingEvent(closing, stream: stream, receivedAt: receivedAt)
                let appended = try await appender.append(PreparedEvent(event, receivedAt: receivedAt))
                return .success(.stated(position: appended.position))
            } catch {
                return .failure(error)
            }
        }.get()
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
