/// A tree that grows leaf by leaf: the roots of its complete subtrees, at most one of each height.
package struct TreeFrontier: Sendable, Hashable {
    /// The number of leaves.
    package private(set) var size: Int64 = 0
    /// The roots of the complete subtrees, the largest first: one for each bit that is set in ``size``.
    package private(set) var roots: [[UInt8]] = []

    package init() {}

    /// A tree as it was.
    ///
    /// - Returns: Nil if a tree of this size does not have as many complete subtrees.
    package init?(size: Int64, roots: [[UInt8]]) {
        guard size >= 0, roots.count == size.nonzeroBitCount, roots.allSatisfy({ $0.count == 32 }) else { return nil }
        (self.size, self.roots) = (size, roots)
    }

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
