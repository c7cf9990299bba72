import Postgres

extension LogAudit {
    /// What the database says of a stream's tree.
    package struct Tree: Sendable {
        /// The last signed checkpoint, and those that witnesses cosigned last.
        package let checkpoints: [SignedCheckpoint]
        /// Size and root of the full tiles; nil without any.
        package let tiles: (size: Int64, root: [UInt8])?
        /// Why the tiles have no root.
        package let problem: TreeProblem?
    }

    /// Reads what the database says of the tree of the events that the stream had when it was read.
    package func tree(of stream: AuditedStream) async throws -> Tree {
        let store = TreeStore(connection: connection)
        var checkpoints = try await store.checkpoints(of: stream.id)
        let end = try await store.end(of: stream.id)
        // Those of events that were appended since then are not of this audit; those of events that are not there are.
        let last = try await store.last(of: stream.id)
        checkpoints.removeAll { stream.last < $0.checkpoint.size && $0.checkpoint.size <= last }
        guard let end, end.position > 0, end.position <= stream.last || end.position > last else {
            return Tree(checkpoints: checkpoints, tiles: nil, problem: nil)
        }
        do throws(TreeError) {
            let root = try await StreamTree(store, of: stream.id, tiled: end).root(size: end.position)
            return Tree(checkpoints: checkpoints, tiles: (end.position, root), problem: nil)
        } catch {
            guard case .problem(let problem) = error else { throw error }
            return Tree(checkpoints: checkpoints, tiles: nil, problem: problem)
        }
    }

    /// The proof that the event at a position is in the tree of the first events.
    ///
    /// - Parameter size: At least the position, and at most the stream's last position.
    package func inclusion(
        of position: Int64, in stream: AuditedStream, size: Int64
    ) async throws(TreeError) -> [[UInt8]] {
        let tree = try await StreamTree(TreeStore(connection: connection), of: stream.id)
        guard size <= tree.size else { throw .problem(.chain(position: tree.size + 1)) }
        return try await tree.inclusion(of: position, size: size)
    }
}
