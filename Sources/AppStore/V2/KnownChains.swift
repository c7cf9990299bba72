import Encoding

/// A cache of chains with which a signature was verified, least recently used first. A body with an invalid signature
/// can neither add nor evict a chain.
struct KnownChains: Sendable {
    /// `header` is the latest verified header with these certificates, so that an equal one need not be decoded again.
    private(set) var entries: [(header: [UInt8], chain: VerifiedChain)] = []
    private let entriesMax: Int

    init(max entriesMax: Int) {
        self.entriesMax = entriesMax
    }

    func chain(header: ArraySlice<UInt8>) -> VerifiedChain? {
        entries.last { $0.header[...].hasSameBytes(as: header) }?.chain
    }

    func chain(_ id: ChainID, isShort: Bool) -> VerifiedChain? {
        entries.last { $0.chain.certificates.id == id && $0.chain.isShort == isShort }?.chain
    }

    /// Makes a chain the most recently used one, adding it if necessary.
    ///
    /// Call it only after a signature was verified with the chain's key.
    mutating func use(_ chain: VerifiedChain, header: ArraySlice<UInt8>) {
        if let last = entries.last, last.chain === chain, last.header[...].hasSameBytes(as: header) { return }
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
