import Subscriptions

/// Chains under which a signature was verified, the least recently used one first. A body that only claims to be signed
/// leaves no trace here: it can neither add a chain nor evict one.
struct KnownChains: Sendable {
    /// The header is the latest one that brought these certificates and was signed: the same text need not be decoded.
    private(set) var entries: [(header: [UInt8], chain: VerifiedChain)] = []
    private let entriesMax: Int

    init(max entriesMax: Int) {
        self.entriesMax = entriesMax
    }

    func chain(header: ArraySlice<UInt8>) -> VerifiedChain? {
        entries.last { $0.header[...].holdsSameBytes(as: header) }?.chain
    }

    func chain(_ id: ChainID, isShort: Bool) -> VerifiedChain? {
        entries.last { $0.chain.certificates.id == id && $0.chain.isShort == isShort }?.chain
    }

    /// Makes a chain the most recently used one.
    ///
    /// Call it after a signature was verified with the chain's key, and not before.
    mutating func use(_ chain: VerifiedChain, header: ArraySlice<UInt8>) {
        if let last = entries.last, last.chain === chain, last.header[...].holdsSameBytes(as: header) { return }
        let place = entries.firstIndex {
            $0.chain.certificates.id == chain.certificates.id && $0.chain.isShort == chain.isShort
        }
        if let place {
            entries.remove(at: place)
        } else if entries.count >= entriesMax {
            entries.removeFirst()
        }
        entries.append((Array(header), chain))
    }
}
