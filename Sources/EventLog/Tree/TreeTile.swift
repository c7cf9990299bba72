/// A tile: 256 hashes of one level of a tree, or fewer at its right edge.
///
/// Tiles of level 0 hold hashes of leaves; those of level n hold the roots of 256^n leaves each.
///
/// - Source: C2SP, tlog-tiles.
package struct TreeTile: Hashable, Sendable {
    /// Hashes of a full tile.
    package static let width = 256
    /// Its binary logarithm: levels of the tree that a tile spans.
    static let height = 8

    package let level: Int
    package let number: Int64

    package init(level: Int, number: Int64) {
        self.level = level
        self.number = number
    }

    /// The tile of which the hash of a node can be computed, and from which of its hashes.
    static func place(of node: MerkleTree.Node) -> (tile: TreeTile, hashes: Range<Int>) {
        let (level, height) = (node.level / Self.height, node.level % Self.height)
        let first = node.index << height
        let start = Int(first & Int64(width - 1))
        return (TreeTile(level: level, number: first >> Self.height), start..<start + 1 << height)
    }

    /// How many leaves the tile covers if it is full.
    var leaves: Int64 { 1 << (Self.height * (level + 1)) }
}

/// Tiles of a tree, from which hashes of its nodes are computed.
package struct TreeTiles: Sendable {
    private var tiles: [TreeTile: [[UInt8]]] = [:]

    package init() {}

    /// Nil for a tile that is not among these.
    package subscript(tile: TreeTile) -> [[UInt8]]? {
        get { tiles[tile] }
        set { tiles[tile] = newValue }
    }

    /// The hash of a node.
    ///
    /// - Throws: The tile that is missing, or too short.
    package func hash(of node: MerkleTree.Node) throws(MissingTile) -> [UInt8] {
        let (tile, place) = TreeTile.place(of: node)
        guard let hashes = tiles[tile], place.upperBound <= hashes.count else { throw MissingTile(tile: tile) }
        return MerkleTree.root(of: hashes[place])
    }

    package struct MissingTile: Error, Hashable {
        package let tile: TreeTile
    }

    /// What a computation needs: each tile, with how many of its first hashes.
    package static func needs(
        of computation: ((MerkleTree.Node) -> [UInt8]) -> Void
    ) -> [TreeTile: Int] {
        var needs: [TreeTile: Int] = [:]
        computation { node in
            let (tile, place) = TreeTile.place(of: node)
            needs[tile] = max(needs[tile] ?? 0, place.upperBound)
            return []
        }
        return needs
    }
}
