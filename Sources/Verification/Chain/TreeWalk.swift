import EventLog
import Subscriptions

/// Computes the tree of a stream's events leaf by leaf, and compares its roots with those that were signed or stored.
struct TreeWalk {
    /// The root that the tree has at a size.
    struct Root {
        let size: Int64
        let root: [UInt8]
        /// What says so.
        let name: String
    }

    private(set) var frontier: TreeFrontier
    /// In order of size; those of smaller trees than the current one are checked.
    private var roots: ArraySlice<Root>
    /// The last size at which the tree has the root that it should have.
    private var confirmed: Int64

    /// - Parameter start: The tree of the events before the first one; its root is known to be right.
    init(_ roots: [Root] = [], from start: TreeFrontier? = nil) {
        frontier = start ?? TreeFrontier()
        confirmed = frontier.size
        self.roots = roots.filter { [size = frontier.size] in $0.size > size }.sorted { $0.size < $1.size }[...]
    }

    /// Adds the next event.
    ///
    /// - Returns: The first difference. Every later root differs too then, and is not compared.
    mutating func next(_ digest: [UInt8], of stream: AuditedStream) -> Finding? {
        frontier.append(MerkleTree.leaf(digest))
        while let next = roots.first, next.size == frontier.size {
            guard next.root == frontier.root else {
                roots = []
                return Finding(
                    stream, positions: min(confirmed + 1, next.size)...next.size,
                    "an event was changed, inserted or removed: the log does not extend \(next.name)")
            }
            confirmed = next.size
            roots = roots.dropFirst()
        }
        return nil
    }

    /// A root of a larger tree, if there is one.
    func end(of stream: AuditedStream) -> Finding? {
        roots.first.map {
            Finding(
                stream, position: frontier.size + 1, "event is missing: the log does not extend \($0.name)")
        }
    }
}

extension TreeWalk.Root {
    /// The root of a checkpoint that somebody kept elsewhere.
    init(_ checkpoint: TreeCheckpoint) {
        self.init(
            size: checkpoint.size, root: checkpoint.root, name: "the signed checkpoint of \(checkpoint.size) events")
    }
}

extension HeadCheck {
    /// The heads and the roots of checkpoints up to a place, which a walk from there on does not compare.
    func before(_ place: VerifiedPlace, of stream: AuditedStream) -> (heads: [SignedHead], roots: [TreeWalk.Root]) {
        (
            signed.filter { $0.head.stream == stream.key && $0.head.position <= place.head.position },
            signedCheckpoints.map(\.checkpoint)
                .filter { $0.origin.stream == stream.key && $0.size <= place.head.position }
                .map(TreeWalk.Root.init)
        )
    }

    /// The roots that a stream's tree must have: those of the checkpoints, and those in the database.
    ///
    /// - Returns: Also why the tiles in the database are no tree; nil if they are one.
    func roots(of stream: AuditedStream, in log: LogAudit) async throws -> (roots: [TreeWalk.Root], problem: Finding?) {
        let signed = signedCheckpoints.map(\.checkpoint).filter { $0.origin.stream == stream.key }
        let stored = try await log.tree(of: stream)
        let kept = stored.checkpoints.map(\.checkpoint).map {
            TreeWalk.Root(
                size: $0.size, root: $0.root, name: "the checkpoint of \($0.size) events in table head_checkpoint")
        }
        let tiles = stored.tiles.map {
            TreeWalk.Root(size: $0.size, root: $0.root, name: "the tiles of \($0.size) events in table head_tile")
        }
        return (
            signed.map(TreeWalk.Root.init) + kept + [tiles].compactMap(\.self),
            stored.problem.map { Finding(stream, row: $0.description) }
        )
    }
}
