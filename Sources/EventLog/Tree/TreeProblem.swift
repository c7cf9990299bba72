import Postgres

/// Why a stream's tree proves nothing: nothing may be signed.
package enum TreeProblem: Error, Sendable, Hashable, CustomStringConvertible {
    /// The event at this position does not continue the hash chain from where the tiles end, or is missing: the events are
    /// not those of the tiles.
    case chain(position: Int64)
    /// A tile is missing or malformed.
    case tile(TreeTile)
    /// A checkpoint was signed of more events than the log has.
    case shorter(signed: Int64, events: Int64)
    /// The tree is not an extension of the checkpoint of this size.
    case fork(signed: Int64)
    /// The record of what was signed last, beside the key, cannot be read or written.
    case record(String)
    /// The database refuses what the tree of this stream needs.
    case refused(sqlstate: String)

    package var description: String {
        switch self {
        case .chain(let position):
            "the tree does not agree with the hash chain at position \(position)"
        case .tile(let tile):
            "tile \(tile.number) of level \(tile.level) of the tree is missing or damaged"
        case .shorter(let signed, let events):
            "a checkpoint of \(signed) events was signed, and the log has \(events)"
        case .fork(let signed):
            "no consistency proof leads from the signed checkpoint of \(signed) events to the log"
        case .record(let path):
            "the record of signed checkpoints \(path) cannot be read or written"
        case .refused(let sqlstate):
            "the database refuses to keep the tree, SQLSTATE \(sqlstate)"
        }
    }
}

/// Why something about a tree failed.
package enum TreeError: Error, Sendable, CustomStringConvertible {
    case problem(TreeProblem)
    case database(PostgresError)

    package var description: String {
        switch self {
        case .problem(let problem): problem.description
        case .database(let error): error.description
        }
    }

    /// Runs a step of the database.
    static func inDatabase<Value>(
        _ step: () async throws(PostgresError) -> Value
    ) async throws(TreeError) -> Value {
        do throws(PostgresError) {
            return try await step()
        } catch {
            throw .database(error)
        }
    }
}
