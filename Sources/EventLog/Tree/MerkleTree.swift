import Crypto

/// The Merkle tree of RFC 6962 over the digests of a stream's events, see ``ChainedEvent/digest``.
///
/// A hash has 32 bytes. The functions that compute something take the hashes of complete subtrees from a closure, so that
/// the same code lists which hashes are needed, and computes with them. No input or output.
///
/// - Source: RFC 6962, section 2.1; the verification as in RFC 9162, sections 2.1.3.2 and 2.1.4.2.
package enum MerkleTree {
    /// A complete subtree: 2^level leaves, those from `index << level` on.
    package struct Node: Hashable, Sendable {
        package let level: Int
        package let index: Int64

        package init(level: Int, index: Int64) {
            self.level = level
            self.index = index
        }
    }

    /// The root of a tree without leaves.
    package static let emptyRoot = Array(SHA256.hash(data: [UInt8]()))

    /// The hash of a leaf.
    package static func leaf(_ digest: [UInt8]) -> [UInt8] { hash(0, digest, []) }

    /// The hash of an inner node.
    package static func node(_ left: [UInt8], _ right: [UInt8]) -> [UInt8] { hash(1, left, right) }

    private static func hash(_ prefix: UInt8, _ first: [UInt8], _ second: [UInt8]) -> [UInt8] {
        var hasher = SHA256()
        hasher.update(data: [prefix])
        hasher.update(data: first)
        hasher.update(data: second)
        return Array(hasher.finalize())
    }

    /// The root of the tree with the first `size` leaves.
    package static func root<E>(
        size: Int64, _ hash: (Node) throws(E) -> [UInt8]
    ) throws(E) -> [UInt8] {
        try size == 0 ? emptyRoot : subtree(0..<size, hash)
    }

    /// The root of a tree with these hashes as its lowest level.
    package static func root(of hashes: some RandomAccessCollection<[UInt8]>) -> [UInt8] {
        var frontier = TreeFrontier()
        for hash in hashes { frontier.append(hash) }
        return frontier.root
    }

    private static func subtree<E>(
        _ leaves: Range<Int64>, _ hash: (Node) throws(E) -> [UInt8]
    ) throws(E) -> [UInt8] {
        let count = leaves.upperBound - leaves.lowerBound
        if count.nonzeroBitCount == 1 {
            let level = count.trailingZeroBitCount
            return try hash(Node(level: level, index: leaves.lowerBound >> level))
        }
        let middle = split(leaves)
        let left = try subtree(leaves.lowerBound..<middle, hash)
        return node(left, try subtree(middle..<leaves.upperBound, hash))
    }

    /// Where a tree of two or more leaves is split: after the largest power of two that is smaller than their number.
    private static func split(_ leaves: Range<Int64>) -> Int64 {
        let count = leaves.upperBound - leaves.lowerBound
        return leaves.lowerBound + 1 << (Int64.bitWidth - 1 - (count - 1).leadingZeroBitCount)
    }

    // MARK: Proofs

    /// The hashes that prove that the leaf at an index is in the tree with the first `size` leaves, from its sibling up.
    ///
    /// - Precondition: `index` is below `size`.
    package static func inclusion<E>(
        of index: Int64, size: Int64, _ hash: (Node) throws(E) -> [UInt8]
    ) throws(E) -> [[UInt8]] {
        precondition(0..<size ~= index, "the leaf must be in the tree")
        return try inclusion(of: index, 0..<size, hash)
    }

    private static func inclusion<E>(
        of index: Int64, _ leaves: Range<Int64>, _ hash: (Node) throws(E) -> [UInt8]
    ) throws(E) -> [[UInt8]] {
        guard leaves.count > 1 else { return [] }
        let middle = split(leaves)
        let (left, right) = (leaves.lowerBound..<middle, middle..<leaves.upperBound)
        guard index < middle else { return try inclusion(of: index, right, hash) + [subtree(left, hash)] }
        return try inclusion(of: index, left, hash) + [subtree(right, hash)]
    }

    /// The hashes that prove that the tree with the first `old` leaves is the beginning of that with the first `size`. None
    /// are needed if `old` is 0 or `size`.
    ///
    /// - Precondition: `old` is at most `size`.
    package static func consistency<E>(
        from old: Int64, to size: Int64, _ hash: (Node) throws(E) -> [UInt8]
    ) throws(E) -> [[UInt8]] {
        precondition(0...size ~= old, "the older tree must not be larger")
        return try old == 0 ? [] : consistency(old, 0..<size, hash)
    }

    private static func consistency<E>(
        _ old: Int64, _ leaves: Range<Int64>, _ hash: (Node) throws(E) -> [UInt8]
    ) throws(E) -> [[UInt8]] {
        guard old < leaves.upperBound else {
            // The verifier knows the root of the whole older tree.
            return try leaves.lowerBound == 0 ? [] : [subtree(leaves, hash)]
        }
        let middle = split(leaves)
        let (left, right) = (leaves.lowerBound..<middle, middle..<leaves.upperBound)
        guard old <= middle else { return try consistency(old, right, hash) + [subtree(left, hash)] }
        return try consistency(old, left, hash) + [subtree(right, hash)]
    }

    // MARK: Verification

    /// Whether a proof shows that a leaf is at an index of the tree of that size and root. Trusts nothing in its input.
    ///
    /// - Parameter leaf: The hash of the leaf.
    package static func includes(
        _ leaf: [UInt8], at index: Int64, size: Int64, root: [UInt8], proof: [[UInt8]]
    ) -> Bool {
        guard size > 0, 0..<size ~= index, proof.allSatisfy({ $0.count == 32 }) else { return false }
        var (place, last, hash) = (index, size - 1, leaf)
        for sibling in proof {
            guard last > 0 else { return false }
            if place & 1 == 1 || place == last {
                hash = node(sibling, hash)
                while place & 1 == 0, place != 0 { (place, last) = (place >> 1, last >> 1) }
            } else {
                hash = node(hash, sibling)
            }
            (place, last) = (place >> 1, last >> 1)
        }
        return last == 0 && hash == root
    }

    /// Whether a proof shows that a tree is the beginning of a later one. Trusts nothing in its input.
    package static func isConsistent(
        _ oldRoot: [UInt8], size old: Int64, with root: [UInt8], size: Int64, proof: [[UInt8]]
    ) -> Bool {
        guard 0...max(size, 0) ~= old, proof.allSatisfy({ $0.count == 32 }) else { return false }
        if old == 0 { return proof.isEmpty && oldRoot == emptyRoot && (size > 0 || root == emptyRoot) }
        if old == size { return proof.isEmpty && oldRoot == root }
        // A complete older tree is a node of the later one.
        var hashes = (old.nonzeroBitCount == 1 ? [oldRoot] : []) + proof
        guard !hashes.isEmpty else { return false }
        var (place, last) = (old - 1, size - 1)
        while place & 1 == 1 { (place, last) = (place >> 1, last >> 1) }
        let first = hashes.removeFirst()
        var (oldHash, hash) = (first, first)
        for sibling in hashes {
            guard last > 0 else { return false }
            if place & 1 == 1 || place == last {
                oldHash = node(sibling, oldHash)
                hash = node(sibling, hash)
                while place & 1 == 0, place != 0 { (place, last) = (place >> 1, last >> 1) }
            } else {
                hash = node(hash, sibling)
            }
            (place, last) = (place >> 1, last >> 1)
        }
        return last == 0 && oldHash == oldRoot && hash == root
    }
}
