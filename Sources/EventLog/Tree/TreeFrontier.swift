/// A tree that grows leaf by leaf: the roots of its complete subtrees, at most one of each height.
package struct TreeFrontier: Sendable {
    /// The number of leaves.
    package private(set) var size: Int64 = 0
    /// The largest first.
    private var roots: [[UInt8]] = []

    package init() {}

    /// - Parameter hash: Of the next leaf.
    package mutating func append(_ hash: [UInt8]) {
        var hash = hash
        for _ in 0..<(~size).trailingZeroBitCount { hash = MerkleTree.node(roots.removeLast(), hash) }
        roots.append(hash)
        size += 1
    }

    package var root: [UInt8] {
        guard var root = roots.last else { return MerkleTree.emptyRoot }
        for larger in roots.dropLast().reversed() { root = MerkleTree.node(larger, root) }
        return root
    }
}
