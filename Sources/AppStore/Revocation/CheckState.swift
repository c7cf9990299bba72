import Subscriptions

/// The chains that a checker remembers, and the checks that wait or are under way.
struct CheckState: Sendable {
    private struct Chain: Sendable {
        var record: VerdictRecord?
        /// While a check waits or is under way.
        var promise: Promise<RevocationVerdict>?
        var lastUse: UInt64
    }

    private let limits: RevocationLimits
    private var chains: [ChainID: Chain] = [:]
    private var uses: UInt64 = 0
    /// In the order of their asking. Every one has a promise, so there are no more than chains.
    private var queue: [CertificateChain] = []
    private var underWay: [ChainID: Task<Void, Never>] = [:]
    private var isStopped = false

    init(limits: RevocationLimits) {
        self.limits = limits
    }

    // MARK: Verdicts

    mutating func known(_ id: ChainID, at now: Instant) -> RevocationVerdict? {
        uses += 1
        chains[id]?.lastUse = uses
        return chains[id]?.record?.verdict(at: now)
    }

    func isFresh(_ id: ChainID, at now: Instant) -> Bool {
        chains[id]?.record?.isFresh(at: now) ?? false
    }

    /// Returns the chain's verdict with this answer, and whether it was another before; nil if there is no room.
    @discardableResult
    mutating func settle(
        _ id: ChainID, _ answer: RevocationVerdict, at now: Instant
    ) -> (verdict: RevocationVerdict, isNew: Bool)? {
        guard makeRoom(for: id) else { return nil }
        let before = chains[id]?.record
        var record = before ?? VerdictRecord(answer, at: now, limits: limits)
        if before != nil { record.settle(answer, at: now, limits: limits) }
        chains[id]?.record = record
        return (record.verdict, record.verdict != before?.verdict)
    }

    // MARK: Checks

    /// The promise of the chain's check, which is queued if there was none; nil if there is no room or no more time.
    mutating func enqueue(_ chain: CertificateChain) -> Promise<RevocationVerdict>? {
        if let promise = chains[chain.id]?.promise { return promise }
        guard !isStopped, makeRoom(for: chain.id) else { return nil }
        let promise = Promise<RevocationVerdict>()
        chains[chain.id]?.promise = promise
        queue.append(chain)
        return promise
    }

    var isIdle: Bool { queue.isEmpty && underWay.isEmpty }

    /// The next chain to check; nil if there is none, or enough are under way.
    mutating func dequeue() -> CertificateChain? {
        guard !isStopped, underWay.count < limits.checksMax, !queue.isEmpty else { return nil }
        return queue.removeFirst()
    }

    mutating func isUnderWay(_ id: ChainID, as task: Task<Void, Never>) {
        underWay[id] = task
    }

    func promise(of id: ChainID) -> Promise<RevocationVerdict>? {
        chains[id]?.promise
    }

    mutating func end(_ id: ChainID) {
        underWay[id] = nil
        chains[id]?.promise = nil
    }

    /// Gives up what is queued, and returns what is under way.
    mutating func stop() -> [Task<Void, Never>] {
        isStopped = true
        for chain in queue {
            chains[chain.id]?.promise?.keep(.unknown)
            chains[chain.id]?.promise = nil
        }
        queue = []
        return Array(underWay.values)
    }

    // MARK: Room

    /// Makes an entry for the chain if there is none, in place of the one that was not used for the longest time.
    ///
    /// Revoked ones go last: until it is found out again, a forgotten revocation is as good as none.
    private mutating func makeRoom(for id: ChainID) -> Bool {
        guard chains[id] == nil else { return true }
        if chains.count >= limits.chainsMax {
            let idle = chains.filter { $0.value.promise == nil }
            let isRevoked = { (chain: Chain) in chain.record?.verdict == .revoked }
            let victim =
                idle.filter { !isRevoked($0.value) }.min { $0.value.lastUse < $1.value.lastUse }
                ?? idle.min { $0.value.lastUse < $1.value.lastUse }
            guard let victim else { return false }
            chains[victim.key] = nil
        }
        uses += 1
        chains[id] = Chain(lastUse: uses)
        return true
    }
}
