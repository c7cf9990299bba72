import Encoding

/// The proof that an event is in a stream's tree: a checkpoint, and the hashes from the event's leaf to its root.
///
/// - Source: C2SP, tlog-proof (draft of 2025).
package struct TreeProof: Sendable, Hashable {
    /// The event's position in its stream. The index of its leaf is one less.
    package let position: Int64
    /// From the leaf's sibling up; at most 30 up to 10^9 events.
    package let hashes: [[UInt8]]
    package let checkpoint: SignedCheckpoint

    package init(position: Int64, hashes: [[UInt8]], checkpoint: SignedCheckpoint) {
        self.position = position
        self.hashes = hashes
        self.checkpoint = checkpoint
    }

    /// Whether the proof leads from the event with this digest to the root of the checkpoint.
    package func proves(_ digest: [UInt8]) -> Bool {
        let (size, root) = (checkpoint.checkpoint.size, checkpoint.checkpoint.root)
        return MerkleTree.includes(
            MerkleTree.leaf(digest), at: position - 1, size: size, root: root, proof: hashes)
    }

    private static let firstLine = "c2sp.org/tlog-proof@v1"

    package var encoded: String {
        let lines = hashes.map { Base64.text($0) + "\n" }.joined()
        return "\(Self.firstLine)\nindex \(position - 1)\n\(lines)\n\(checkpoint.note.encoded)"
    }

    /// - Returns: Nil if it is malformed. Extra data, which nothing authenticates, is refused.
    package init?(encoded: String) {
        let lines = encoded.split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.count > 3, lines[0] == Self.firstLine, lines[1].hasPrefix("index "),
            let index = DecimalText.number(lines[1].dropFirst(6)), index < Int64.max,
            let blank = lines.dropFirst(2).firstIndex(of: ""),
            let checkpoint = SignedCheckpoint(encoded: lines[(blank + 1)...].joined(separator: "\n"))
        else { return nil }
        let hashes = lines[2..<blank].compactMap { Base64.hash($0) }
        guard hashes.count == blank - 2 else { return nil }
        self.init(position: index + 1, hashes: hashes, checkpoint: checkpoint)
    }
}

/// What is posted to a witness: a checkpoint, with the proof that it extends the one that the witness knows.
///
/// - Source: C2SP, tlog-witness v1.0.0.
package struct WitnessRequest: Sendable, Hashable {
    /// The size of the checkpoint that the witness knows; 0 if it knows none.
    package let oldSize: Int64
    package let proof: [[UInt8]]
    package let checkpoint: SignedCheckpoint

    package init(oldSize: Int64, proof: [[UInt8]], checkpoint: SignedCheckpoint) {
        self.oldSize = oldSize
        self.proof = proof
        self.checkpoint = checkpoint
    }

    package var encoded: String {
        let lines = proof.map { Base64.text($0) + "\n" }.joined()
        return "old \(oldSize)\n\(lines)\n\(checkpoint.note.encoded)"
    }
}
