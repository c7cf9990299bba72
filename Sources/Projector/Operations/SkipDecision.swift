import EventLog
import Postgres
import Subscriptions

/// An operator's decision to skip an event that cannot be folded. The event stays in the log.
package struct SkipDecision: Sendable {
    package let stream: StreamKey
    package let position: Int64
    package let reason: String
    package let decidedBy: String

    package init(stream: StreamKey, position: Int64, reason: String, decidedBy: String) {
        self.stream = stream
        self.position = position
        self.reason = reason
        self.decidedBy = decidedBy
    }

    /// Records the decision. The projector then continues without a restart. A decision cannot be undone.
    ///
    /// It leads the stream meanwhile, so that no projector is folding the event.
    ///
    /// - Parameter connection: Has the rights of the projector.
    /// - Throws: ``SkipRefusal``; ``PostgresError``, after which it is unknown whether the decision was recorded.
    package func record(on connection: PostgresConnection) async throws {
        let found = try await connection.query(
            Step(Statements.findStream, [Parameter(stream.app), Parameter(stream.environment.rawValue)]))
        guard found.count == 1 else { throw SkipRefusal.noStream(stream) }
        let id: Int32 = try found[0].value(at: 0)
        _ = try await connection.query(
            Step(RebuildStatements.makeLiveCheckpoint, [Parameter(id), Parameter(Checkpoint.projectionVersion)]))
        try await connection.begin(deadline: .now + Limits.statementWaitMax)
        do {
            try await record(Parameter(id), on: connection)
            try await connection.commit(deadline: .now + Limits.statementWaitMax)
        } catch {
            try? await connection.rollback(deadline: .now + Limits.statementWaitMax)
            throw error
        }
    }

    private func record(_ id: Parameter, on connection: PostgresConnection) async throws {
        func query(_ step: Step) async throws(PostgresError) -> RowSet {
            try await connection.query(step, deadline: .now + Limits.leadWaitMax)
        }
        // A running rebuild may already have folded the event into its own tables.
        guard try await connection.lockOutRebuilds(by: Statements.keepOutRebuilds) else {
            throw SkipRefusal.rebuildRuns
        }
        if try await Distribution.isInUse(connection) {
            _ = try await query(Step(ProjectionStatements.holdStream, [id]))
        }
        _ = try await query(Step(RebuildStatements.lockLive, [id]))
        let state = try await query(Step(Statements.state, [id, Parameter(position)]))
        let folded: Int64 = try state[0].value(at: 1)
        guard try state[0].value(Bool.self, at: 0) else { throw SkipRefusal.noEvent(position) }
        guard try !state[0].value(Bool.self, at: 2) else { throw SkipRefusal.skippedAlready(position) }
        guard position > folded else { throw SkipRefusal.folded(position, upTo: folded) }
        _ = try await query(
            Step(Statements.record, [id, Parameter(position), Parameter(reason), Parameter(decidedBy)]))
    }

    private enum Statements {
        static let keepOutRebuilds = Statement(
            "skip_keep_out_rebuilds",
            """
            lock table subledger.projector_skip in row exclusive mode
            """)
        static let findStream = Statement(
            "skip_find_stream",
            """
            select stream_id
            from subledger.stream
            where app = $1
              and environment = $2
            """)
        static let state = Statement(
            "skip_state",
            """
            select
              exists (
                select
                from subledger.event
                where stream_id = $1
                  and position = $2
              ),
              coalesce((
                select position
                from subledger.checkpoint
                where stream_id = $1
              ), 0),
              exists (
                select
                from subledger.projector_skip
                where stream_id = $1
                  and position = $2
              )
            """)
        static let record = Statement(
            "skip_record",
            """
            insert into subledger.projector_skip (stream_id, position, reason, skipped_by)
            values ($1, $2, $3, $4)
            """)
    }
}

/// Why a skip was refused.
package enum SkipRefusal: Error, Hashable, CustomStringConvertible {
    case noStream(StreamKey)
    case noEvent(Int64)
    case skippedAlready(Int64)
    case folded(Int64, upTo: Int64)
    case rebuildRuns

    package var description: String {
        switch self {
        case .noStream(let stream):
            "no stream of \(stream.app) in \(stream.environment.rawValue): see `subledger projector status`"
        case .noEvent(let position): "no event at position \(position): see `subledger projector status`"
        case .skippedAlready(let position): "the event at position \(position) is already skipped"
        case .folded(let position, let folded):
            "the event at position \(position) is already folded, as are all events up to \(folded)"
        case .rebuildRuns: "a rebuild is running: try again when it has ended"
        }
    }
}
