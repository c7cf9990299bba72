import Postgres
import Subscriptions

/// What one process at a time may do for a stream: nothing is lost between what it reads and what it appends.
///
/// A row of ``turn`` that only the receiver's and the poller's role may write. It is locked until the end of the transaction,
/// which must be rolled back.
enum Turn: String {
    case links, writes

    /// The step that waits for the turn, for the begin of a transaction.
    func step(in stream: StreamKey) -> Step {
        Step(
            Self.take,
            [Parameter(rawValue), Parameter(stream.app), Parameter(stream.environment.rawValue)])
    }

    /// A transaction that inserts the same row waits for this one to end.
    private static let take = Statement(
        "turn_take",
        """
        insert into subledger.turn (work, app, environment)
        values ($1, $2, $3)
        on conflict (work, app, environment) do update
        set work = excluded.work
        """)
}

extension PostgresPool {
    /// Runs the body while no other process runs one with this turn for the stream.
    ///
    /// - Throws: ``ReadError``. The body may have run.
    func holding<Value: Sendable>(
        _ turn: Turn, in stream: StreamKey,
        _ body: @Sendable (PostgresConnection) async throws(PostgresError) -> Value
    ) async throws(ReadError) -> Value {
        try await using(within: Limits.readWaitMax) { (connection) async throws(PostgresError) -> Value in
            _ = try await connection.begin(with: [turn.step(in: stream)], deadline: .now + Limits.readWaitMax)
            let value = try await body(connection)
            try await connection.rollback(deadline: .now + Limits.readWaitMax)
            return value
        }
    }
}
