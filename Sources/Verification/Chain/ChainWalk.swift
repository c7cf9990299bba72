import EventLog
import Subscriptions

/// Follows the hash chain of one stream from its start, event by event, and compares it with signed heads on the way.
struct ChainWalk {
    private let stream: AuditedStream
    private var chain: LogChain
    /// In order of position; those before the current position are checked.
    private var heads: ArraySlice<SignedHead>
    /// The position of the last head that the log extends.
    private var confirmed: Int64 = 0

    /// - Parameter heads: Of any streams, with valid signatures.
    init(_ stream: AuditedStream, heads: [SignedHead]) {
        self.stream = stream
        let heads = heads.filter { $0.head.stream == stream.key }
        self.heads = heads.sorted { $0.head.position < $1.head.position }[...]
        if let key = stream.key, let createdAt = stream.createdAt {
            chain = LogChain(startOf: key, createdAt: createdAt)
        } else {
            chain = LogChain(position: 0, value: [])
        }
    }

    var position: Int64 { chain.position }

    /// Checks the stream before its first event.
    mutating func start() -> Finding? { passHeads() }

    /// Checks the next event. Returns the finding if it is not the next one, or does not match the chain or a head.
    mutating func next(_ link: AuditedLink) -> Finding? {
        guard link.position == position + 1 else {
            return Finding(stream, position: position + 1, "event is missing")
        }
        chain.append(link.digest)
        guard link.chain == chain.value else {
            let before = position == 1 ? "the stream's row" : "the event before it"
            return Finding(
                stream, position: position,
                "does not match the hash chain: received_at, source, dedupe_key, body_sha256, chain_id, revocation or "
                    + "chain was changed, or \(before)")
        }
        return passHeads()
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
        return nil
    }

    private mutating func passHeads() -> Finding? {
        while let next = heads.first, next.head.position == position {
            guard next.head.chain == chain.value else {
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
