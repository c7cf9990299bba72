import Postgres

/// Puts the events of a stream into tiles, after they were appended.
///
/// It follows the hash chain on the way, so the tiles hold what the chain covers and nothing else. A kill at any instant
/// leaves full tiles up to where the tree says they end, since both are written in one transaction. Any number of
/// processes may run one: they take turns.
package struct TreeBuilder: Sendable {
    let store: TreeStore

    package init(_ store: TreeStore) {
        self.store = store
    }

    package enum Progress: Sendable, Hashable {
        /// Fewer events wait than fill a tile.
        case done
        /// More events wait.
        case unfinished
        /// Another process works on the stream's tree.
        case elsewhere
    }

    /// Puts all events of a stream into tiles that fill one.
    ///
    /// - Parameter waits: Whether to wait while another process works on the tree.
    /// - Returns: False if another process does the work.
    package func build(_ stream: TreeStream, waits: Bool) async throws(TreeError) -> Bool {
        while true {
            switch try await step(stream, waits: waits) {
            case .done: return true
            case .elsewhere: return false
            case .unfinished: if Task.isCancelled { return false }
            }
        }
    }

    /// Makes the next tiles, in one transaction.
    ///
    /// - Throws: ``TreeProblem/chain(position:)`` if the events do not continue the chain from where the tiles end.
    package func step(_ stream: TreeStream, waits: Bool) async throws(TreeError) -> Progress {
        guard stream.agrees else { throw .problem(.chain(position: stream.size ?? 0)) }
        if stream.size == nil {
            try await TreeError.inDatabase { () async throws(PostgresError) in try await store.begin(stream) }
        }
        return try await store.transaction { () async throws(TreeError) -> Progress in
            let end = try await TreeError.inDatabase { () async throws(PostgresError) in
                try await store.lockedEnd(of: stream.id, waits: waits)
            }
            guard let end else { return .elsewhere }
            let last = try await TreeError.inDatabase { () async throws(PostgresError) in
                try await store.last(of: stream.id)
            }
            let full = last / Int64(TreeTile.width) * Int64(TreeTile.width)
            guard full > end.position else { return .done }
            let until = min(full, end.position + Limits.treeStepEvents)
            let (hashes, newEnd) = try await store.leaves(of: stream.id, after: end, until: until)
            return try await TreeError.inDatabase { () async throws(PostgresError) -> Progress in
                guard try await store.setEnd(of: stream.id, from: end.position, to: newEnd) else { return .elsewhere }
                try await insert(hashes, from: end.position, of: stream.id)
                return until < full ? .unfinished : .done
            }
        }
    }

    /// Inserts full tiles of level 0, and those above them that become full.
    ///
    /// - Parameter first: The index of the first leaf, at the beginning of a tile.
    private func insert(_ leaves: [[UInt8]], from first: Int64, of stream: Int32) async throws(PostgresError) {
        let width = Int64(TreeTile.width)
        var tiles = stride(from: 0, to: leaves.count, by: TreeTile.width).map { start in
            (
                tile: TreeTile(level: 0, number: (first + Int64(start)) / width),
                hashes: Array(leaves[start..<start + TreeTile.width])
            )
        }
        while !tiles.isEmpty {
            try await store.insert(tiles, of: stream)
            var above: [(tile: TreeTile, hashes: [[UInt8]])] = []
            for (tile, _) in tiles where (tile.number + 1) % width == 0 {
                let roots = try await store.roots(
                    level: tile.level, tile.number + 1 - width..<tile.number + 1, of: stream)
                above.append((TreeTile(level: tile.level + 1, number: tile.number / width), roots))
            }
            tiles = above
        }
    }
}

extension TreeStore {
    /// Runs the body in a transaction, which a failure rolls back.
    func transaction<Value>(
        _ body: () async throws(TreeError) -> Value
    ) async throws(TreeError) -> Value {
        _ = try await TreeError.inDatabase { () async throws(PostgresError) in
            try await connection.begin(deadline: .now + Limits.readWaitMax)
        }
        do throws(TreeError) {
            let value = try await body()
            try await TreeError.inDatabase { () async throws(PostgresError) in
                try await connection.commit(deadline: .now + Limits.commitWaitMax)
            }
            return value
        } catch {
            try? await connection.rollback(deadline: .now + Limits.readWaitMax)
            throw error
        }
    }
}
