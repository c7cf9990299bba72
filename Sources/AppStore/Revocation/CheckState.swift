import Encoding

/// The verdicts that a checker remembers, and the checks that are queued or running.
struct CheckState: Sendable {
    private struct Chain: Sendable {
        var record: VerdictRecord?
        /// Set while a check is queued or running.
        var promise: Promise<RevocationVerdict>?
        var lastUse: UInt64
    }

    private let limits: RevocationLimits
    private var chains: [ChainID: Chain] = [:]
    private var uses: UInt64 = 0
    /// In order of request. Every queued chain has a promise, so the queue is never longer than the list of chains.
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

    /// Records a verdict. Returns the chain's resulting verdict and whether it changed; nil if there is no room.
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

    /// Returns the promise of the chain's check and queues one if there is none; nil if there is no room or the checker
    /// has stopped.
    mutating func enqueue(_ chain: CertificateChain) -> Promise<RevocationVerdict>? {
        if let promise = chains[chain.id]?.promise { return promise }
        guard !isStopped, makeRoom(for: chain.id) else { return nil }
        let promise = Promise<RevocationVerdict>()
        chains[chain.id]?.promise = promise
        queue.append(chain)
        return promise
    }

    var isIdle: Bool { queue.isEmpty && underWay.isEmpty }

    /// The next chain to check; nil if there is none or the maximum number of checks is running.
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

    /// Abandons all queued checks and returns the running ones.
    mutating func stop() -> [Task<Void, Never>] {
        isStopped = true
        for chain in queue {
            chains[chain.id]?.promise?.fulfill(.unknown)
            chains[chain.id]?.promise = nil
        }
        queue = []
        return Array(underWay.values)
    }

    // MARK: Room

    /// Creates an entry for the chain if there is none, evicting the least recently used one if necessary.
    ///
    /// Revoked chains are evicted last: a forgotten revocation has no effect until the next check.
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
