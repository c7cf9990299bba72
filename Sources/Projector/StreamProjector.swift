import EventLog
import Logging
import Postgres
import Subscriptions

/// Folds the events of one stream into its projections, one batch a transaction, in the order of positions.
struct StreamProjector: Sendable {
    let pool: PostgresPool
    let streamId: Int32

    enum Progress: Sendable, Hashable {
        /// Up to this position; there may be more.
        case folded(Int64)
        /// Nothing behind the checkpoint.
        case caughtUp
        /// Another projector leads this stream at the moment.
        case ledElsewhere
    }

    /// Folds the next batch. Rows and checkpoint are committed together or not at all, and the batch after a crash
    /// begins where the last one ended.
    ///
    /// - Throws: ``ProjectionError/unfoldable(position:problem:)`` when the first event of the batch cannot be
    ///   folded. Nothing is skipped: those before it are committed by the call before.
    func foldBatch() async throws(ProjectionError) -> Progress {
        let deadline = ContinuousClock.now + Limits.batchWaitMax
        do {
            return try await pool.withConnection(deadline: deadline) {
                (connection) async throws(PostgresError) -> Result<Progress, ProjectionError> in
                try await connection.begin(deadline: deadline)
                let result = try await foldBatch(on: connection, deadline: deadline)
                if case .success(.folded) = result {
                    try await connection.commit(deadline: deadline)
                } else {
                    try await connection.rollback(deadline: deadline)
                }
                return result
            }.get()
        } catch let error as ProjectionError {
            throw error
        } catch let error as PostgresError {
            throw .database(error)
        } catch {
            throw .unfoldable(position: 0, problem: String(describing: type(of: error)))
        }
    }

    private func foldBatch(
        on connection: PostgresConnection, deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> Result<Progress, ProjectionError> {
        let id = Parameter(streamId)
        let lead = try await connection.query(ProjectionStatements.lead, [id], deadline: deadline)
        guard try lead[0].value(Bool.self, at: 0) else { return .success(.ledElsewhere) }

        let checkpoint = try await connection.query(ProjectionStatements.checkpoint, [id], deadline: deadline)
        let start: Int64 = checkpoint.count == 0 ? 0 : try checkpoint[0].value(at: 0)
        let rows = try await connection.query(
            ProjectionStatements.nextEvents, [id, Parameter(start), Parameter(Limits.batchEventsMax)],
            deadline: deadline)
        guard rows.count > 0 else { return .success(.caughtUp) }

        let (events, failure) = try Self.decode(rows)
        guard let last = events.last else {
            return .failure(failure ?? .unfoldable(position: start + 1, problem: "the event is missing"))
        }
        let touched = Set(events.flatMap(\.facts.originalTransactionIds)).sorted()
        let known: [String: ProjectedLine]
        switch try await load(touched, on: connection, deadline: deadline) {
        case .success(let lines): known = lines
        case .failure(let error): return .failure(error)
        }
        var lines = known
        for event in events { event.fold(into: &lines) }
        let changed = touched.compactMap { lines[$0] }
        let steps =
            ProjectionWriter(streamId: streamId).steps(changed)
            + [Step(ProjectionStatements.writeCheckpoint, [id, Parameter(last.position)])]
        for step in steps { _ = try await connection.query(step, deadline: deadline) }
        return .success(.folded(last.position))
    }

    /// The events before the first that cannot be read, and why that one cannot.
    private static func decode(_ rows: RowSet) throws(PostgresError) -> ([FoldableEvent], ProjectionError?) {
        var events: [FoldableEvent] = []
        for index in 0..<rows.count {
            let row = rows[index]
            let position: Int64 = try row.value(at: 0)
            do {
                let document = try JSONDocument(try row.value(JSONB.self, at: 3).utf8)
                events.append(
                    FoldableEvent(
                        position: position, receivedAt: try row.value(at: 1), occurredAt: try row.optional(at: 2),
                        facts: try Facts(json: document.root)))
            } catch let error as PostgresError {
                throw error
            } catch {
                return (events, .unfoldable(position: position, problem: String(describing: error)))
            }
        }
        return (events, nil)
    }

    private func load(
        _ originalTransactionIds: [String], on connection: PostgresConnection, deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> Result<[String: ProjectedLine], ProjectionError> {
        let rows = try await connection.query(
            ProjectionStatements.loadSubscriptions, [Parameter(streamId), .array(originalTransactionIds)],
            deadline: deadline)
        var lines: [String: ProjectedLine] = [:]
        for index in 0..<rows.count {
            let id: String = try rows[index].value(at: 0)
            let position: Int64 = try rows[index].value(at: 1)
            do {
                let document = try JSONDocument(try rows[index].value(JSONB.self, at: 2).utf8)
                lines[id] = ProjectedLine(
                    facts: try SubscriptionFacts(originalTransactionId: id, json: document.root), position: position)
            } catch let error as PostgresError {
                throw error
            } catch {
                return .failure(.unfoldable(position: position, problem: String(describing: error)))
            }
        }
        return .success(lines)
    }
}

/// An event with what the fold needs of it.
private struct FoldableEvent: Sendable {
    let position: Int64
    let receivedAt: Instant
    let occurredAt: Instant?
    let facts: Facts

    func fold(into lines: inout [String: ProjectedLine]) {
        for id in facts.originalTransactionIds {
            var line =
                lines[id] ?? ProjectedLine(facts: SubscriptionFacts(originalTransactionId: id), position: position)
            line.facts.fold(facts, occurredAt: occurredAt, receivedAt: receivedAt, position: position)
            line.position = position
            lines[id] = line
        }
    }
}

package enum ProjectionError: Error, CustomStringConvertible {
    case database(PostgresError)
    /// The fold stops at this event until somebody has looked.
    case unfoldable(position: Int64, problem: String)

    package var description: String {
        switch self {
        case .database(let error): error.description
        case .unfoldable(let position, let problem): "the event at position \(position) cannot be folded: \(problem)"
        }
    }
}
