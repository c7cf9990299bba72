import Postgres

/// Computes roots and proofs of a stream's tree from its tiles and, after the last full tile, from the events.
package struct StreamTree: Sendable {
    private let store: TreeStore
    private let stream: Int32
    /// The hashes after the last full tile.
    private let rest: [[UInt8]]
    /// The hash chain up to the last event that the tree covers.
    package let end: LogChain

    /// The number of events that the tree covers.
    package var size: Int64 { end.position }
    private var tiled: Int64 { size - Int64(rest.count) }

    /// The tree of a stream, as far as the log goes now.
    ///
    /// - Throws: ``TreeProblem/chain(position:)`` too if more than a tile's events wait to be put into tiles: see
    ///   ``TreeBuilder``, which comes first.
    package init(_ store: TreeStore, of stream: Int32) async throws(TreeError) {
        let end = try await TreeError.inDatabase { () async throws(PostgresError) in try await store.end(of: stream) }
        guard let end else { throw .problem(.tile(TreeTile(level: 0, number: 0))) }
        try await self.init(store, of: stream, from: end)
    }

    /// - Parameter tiled: The end of the full tiles.
    init(_ store: TreeStore, of stream: Int32, from tiled: LogChain) async throws(TreeError) {
        self.store = store
        self.stream = stream
        let last = try await TreeError.inDatabase { () async throws(PostgresError) in try await store.last(of: stream) }
        guard last >= tiled.position else { throw .problem(.chain(position: last + 1)) }
        (rest, end) = try await store.leaves(
            of: stream, after: tiled, until: min(last, tiled.position + Int64(TreeTile.width) - 1))
    }

    /// The tree of the full tiles only.
    init(_ store: TreeStore, of stream: Int32, tiled: LogChain) {
        self.store = store
        self.stream = stream
        (rest, end) = ([], tiled)
    }

    /// The root of the tree of the first events.
    ///
    /// - Parameter size: At most ``size``.
    package func root(size: Int64) async throws(TreeError) -> [UInt8] {
        let tiles = try await tiles(needed: TreeTiles.needs { hash in _ = MerkleTree.root(size: size, hash) })
        return try Self.checked { () throws(TreeTiles.MissingTile) in
            try MerkleTree.root(size: size) { (node) throws(TreeTiles.MissingTile) in try tiles.hash(of: node) }
        }
    }

    /// The proof that the event at a position is in the tree of the first events.
    ///
    /// - Parameter size: At least the position, and at most ``size``.
    package func inclusion(of position: Int64, size: Int64) async throws(TreeError) -> [[UInt8]] {
        let tiles = try await tiles(
            needed: TreeTiles.needs { hash in _ = MerkleTree.inclusion(of: position - 1, size: size, hash) })
        return try Self.checked { () throws(TreeTiles.MissingTile) in
            try MerkleTree.inclusion(of: position - 1, size: size) { (node) throws(TreeTiles.MissingTile) in
                try tiles.hash(of: node)
            }
        }
    }

    /// The proof that the tree of the first `old` events is the beginning of that of the first `size`.
    ///
    /// - Parameter old: At most `size`, and that at most ``size``.
    package func consistency(from old: Int64, to size: Int64) async throws(TreeError) -> [[UInt8]] {
        let tiles = try await tiles(
            needed: TreeTiles.needs { hash in _ = MerkleTree.consistency(from: old, to: size, hash) })
        return try Self.checked { () throws(TreeTiles.MissingTile) in
            try MerkleTree.consistency(from: old, to: size) { (node) throws(TreeTiles.MissingTile) in
                try tiles.hash(of: node)
            }
        }
    }

    /// Throws unless the tree of `size` events extends a checkpoint, and returns the proof.
    @discardableResult
    package func extend(
        _ old: TreeCheckpoint, to size: Int64, root: [UInt8]
    ) async throws(TreeError) -> [[UInt8]] {
        guard old.size <= size else { throw .problem(.shorter(signed: old.size, events: size)) }
        let proof = try await consistency(from: old.size, to: size)
        guard MerkleTree.isConsistent(old.root, size: old.size, with: root, size: size, proof: proof) else {
            throw .problem(.fork(signed: old.size))
        }
        return proof
    }

    private static func checked<Value>(
        _ compute: () throws(TreeTiles.MissingTile) -> Value
    ) throws(TreeError) -> Value {
        do throws(TreeTiles.MissingTile) {
            return try compute()
        } catch {
            throw .problem(.tile(error.tile))
        }
    }

    /// Full tiles as stored. Those at the right edge are computed: at level 0 from the events, above it from the roots of
    /// the full tiles below.
    private func tiles(needed: [TreeTile: Int]) async throws(TreeError) -> TreeTiles {
        let full = needed.keys.filter { ($0.number + 1) * $0.leaves <= tiled }
        var tiles = TreeTiles()
        let stored = try await TreeError.inDatabase { () async throws(PostgresError) in
            try await store.tiles(full, of: stream)
        }
        for (tile, hashes) in stored { tiles[tile] = hashes }
        for (tile, count) in needed where (tile.number + 1) * tile.leaves > tiled {
            guard tile.level > 0 else {
                tiles[tile] = rest
                continue
            }
            let first = tile.number * Int64(TreeTile.width)
            tiles[tile] = try await TreeError.inDatabase { () async throws(PostgresError) in
                try await store.roots(level: tile.level - 1, first..<first + Int64(count), of: stream)
            }
        }
        return tiles
    }
}
