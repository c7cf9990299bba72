import EventLog
import Subscriptions

/// Follows the hash chain of one stream from its start, or from a place that was verified, event by event, and compares it
/// with signed heads on the way, and the tree of the events with signed checkpoints and with the roots that the database has.
///
/// Where the chain is broken, the walk goes on from the stored value: each break is found once, and what follows it is
/// compared as if there were none.
struct ChainWalk {
    private let stream: AuditedStream
    private var chain: LogChain
    /// In order of position; those before the current position are checked.
    private var heads: ArraySlice<SignedHead>
    /// The position of the last head that the log extends.
    private var confirmed: Int64
    private var tree: TreeWalk
    /// A head does not match. Neither does any later one then, and they would say nothing more.
    private var isUnlikeHeads = false

    /// - Parameters:
    ///   - place: Where to begin; heads and roots up to there are not compared. Nil for the start of the stream.
    ///   - heads: Of any streams, with valid signatures.
    ///   - roots: Of this stream's tree.
    init(
        _ stream: AuditedStream, from place: VerifiedPlace? = nil, heads: [SignedHead], roots: [TreeWalk.Root] = []
    ) {
        self.stream = stream
        confirmed = place?.head.position ?? 0
        tree = TreeWalk(roots, from: place?.tree)
        let start = place?.head.position ?? -1
        let heads = heads.filter { $0.head.stream == stream.key && $0.head.position > start }
        self.heads = heads.sorted { $0.head.position < $1.head.position }[...]
        if let place {
            chain = LogChain(position: place.head.position, value: place.head.chain)
        } else if let key = stream.key, let createdAt = stream.createdAt {
            chain = LogChain(startOf: key, createdAt: createdAt)
        } else {
            chain = LogChain(position: 0, value: [])
        }
    }

    var position: Int64 { chain.position }

    /// The place that was reached. Nil if a position is missing before it.
    var place: VerifiedPlace? {
        guard let key = stream.key, tree.frontier.size == position else { return nil }
        return VerifiedPlace(
            head: StreamHead(stream: key, position: position, chain: chain.value), tree: tree.frontier)
    }

    /// Checks the stream before its first event.
    mutating func start() -> Finding? { passHeads() }

    /// Checks the next event, and goes on after it in any case.
    ///
    /// - Returns: What is wrong with the events before it, and with the event: it does not match the chain or a head.
    mutating func next(_ link: AuditedLink) -> (before: Finding?, itself: Finding?) {
        guard link.position == position + 1 else {
            let missing = position + 1...max(position + 1, link.position - 1)
            // Without a leaf there is no tree.
            tree = TreeWalk()
            chain = LogChain(position: link.position, value: link.chain)
            // Nothing shows what the event was linked to.
            heads = heads.drop { $0.head.position < link.position }
            return (gap(missing), passHeads())
        }
        chain.append(link.digest)
        let unlikeTree = tree.next(link.digest, of: stream)
        guard link.chain == chain.value else {
            let before = position == 1 ? "the stream's row" : "the event before it"
            chain = LogChain(position: position, value: link.chain)
            _ = passHeads()
            return (
                nil,
                Finding(
                    stream, position: position,
                    "does not match the hash chain: received_at, source, dedupe_key, body_sha256, chain_id, "
                        + "revocation or chain was changed, or \(before)")
            )
        }
        return (nil, passHeads() ?? unlikeTree)
    }

    private func gap(_ missing: ClosedRange<Int64>) -> Finding {
        missing.count == 1
            ? Finding(stream, position: missing.lowerBound, "event is missing")
            : Finding(
                stream, row: "positions \(missing.lowerBound) to \(missing.upperBound): events are missing")
    }

    /// Checks that the stream ends here.
    func end() -> Finding? {
        guard let head = stream.head else { return Finding(stream, "has events but no head") }
        if position < head { return Finding(stream, position: position + 1, "event is missing") }
        if head < position { return Finding(stream, position: head + 1, "event is past the head of its stream") }
        guard stream.headChain == chain.value else {
            return Finding(stream, position: position, "chain in the stream's head is not that of the event")
        }
        if let later = heads.first {
            return Finding(stream, position: position + 1, "event is missing: \(later.summary)")
        }
        return tree.end(of: stream)
    }

    private mutating func passHeads() -> Finding? {
        while let next = heads.first, next.head.position == position {
            guard !isUnlikeHeads, next.head.chain == chain.value else {
                heads = heads.dropFirst()
                guard !isUnlikeHeads else { continue }
                isUnlikeHeads = true
                guard position > 0 else { return Finding(stream, "was registered differently: \(next.summary)") }
                return Finding(
                    stream, positions: min(confirmed + 1, position)...position,
                    "an event was changed, inserted or removed: \(next.summary)")
            }
            confirmed = position
            heads = heads.dropFirst()
        }
        return nil
    }
}

extension SignedHead {
    /// Why the log is wrong if it does not extend this head.
    fileprivate var summary: String {
        "the log does not extend the head signed at \(signedAt) with position \(head.position)"
    }
}
