import Subscriptions
import Synchronization

/// Knows which chains are revoked, and asks their issuers when that has to be learnt anew.
///
/// A chain is asked for by one check at a time, however many want to know. Checks are few and bounded in time, and
/// whatever goes wrong in them ends as `unknown`.
package final class RevocationChecker: Sendable {
    package let mode: RevocationMode
    private let check: RevocationCheck
    private let limits: RevocationLimits
    private let now: @Sendable () -> Instant
    private let onVerdict: @Sendable (ChainID, RevocationVerdict, Instant) async -> Void
    private let state: Mutex<CheckState>

    /// - Parameters:
    ///   - now: Ages verdicts. The freshness of answers is judged by X509, which reads the system's clock.
    ///   - onVerdict: Called when a chain's verdict becomes another than it was, with the time of the check; after
    ///     those who wait for it have it. Calls about one chain come one after another. `good` for a chain that was
    ///     revoked means that the revocation was lifted. Should end soon: a check counts as under way until then.
    package init(
        mode: RevocationMode, transport: some OCSPTransport, limits: RevocationLimits = RevocationLimits(),
        now: @escaping @Sendable () -> Instant,
        onVerdict: @escaping @Sendable (ChainID, RevocationVerdict, Instant) async -> Void
    ) {
        self.mode = mode
        self.limits = limits
        self.now = now
        self.onVerdict = onVerdict
        check = RevocationCheck(transport: transport, limits: limits)
        state = Mutex(CheckState(limits: limits))
    }

    /// The verdict known at this moment, without waiting. Nil if there is none, and always nil in mode `off`.
    ///
    /// In mode `background` this starts a check if none is fresh; in mode `required` ``verdict(of:)`` does.
    package func knownVerdict(of chain: CertificateChain) -> RevocationVerdict? {
        guard mode != .off else { return nil }
        let now = now()
        return state.withLock { state in
            if mode == .background, !state.isFresh(chain.id, at: now) { _ = join(chain, in: &state) }
            return state.known(chain.id, at: now)
        }
    }

    /// The verdict known, or that of a check, which everybody who waits for this chain joins.
    ///
    /// A revocation is returned at once, and so is `unknown` until its chain is asked for again. In mode `off` the
    /// answer is `unknown`. Returns after ``RevocationLimits/checkWaitMax`` at the latest, then with `unknown`, and
    /// with that at once when cancelled; the check goes on for the others.
    package func verdict(of chain: CertificateChain) async -> RevocationVerdict {
        guard mode != .off else { return .unknown }
        let now = now()
        let (known, promise) = state.withLock { state -> (RevocationVerdict?, Promise<RevocationVerdict>?) in
            let known = state.known(chain.id, at: now)
            if let known, state.isFresh(chain.id, at: now) { return (known, nil) }
            let promise = join(chain, in: &state)
            return (known == .revoked ? known : nil, promise)
        }
        if let known { return known }
        guard let promise else { return .unknown }
        return await within(limits.checkWaitMax) { await promise.value } ?? .unknown
    }

    /// Takes revocations known from before a restart, with the time of the check that found each.
    ///
    /// Call it before notifications come. The latest count if there are more than ``RevocationLimits/chainsMax``.
    package func restore(revoked: [ChainID: Instant]) {
        state.withLock { state in
            for (id, checkedAt) in revoked.sorted(by: { $0.value > $1.value }).prefix(limits.chainsMax).reversed() {
                state.settle(id, .revoked, at: checkedAt)
            }
        }
    }

    /// Ends all checks, answers `unknown` to those who wait, and starts none any more. Safe to repeat.
    package func stop() async {
        let underWay = state.withLock { $0.stop() }
        for task in underWay { task.cancel() }
        for task in underWay { await task.value }
    }

    /// Whether no check waits or is under way.
    package var isIdle: Bool { state.withLock { $0.isIdle } }

    // MARK: Checks

    /// The promise of the chain's check, started or queued now if there was none; nil if there is no room for it.
    private func join(_ chain: CertificateChain, in state: inout CheckState) -> Promise<RevocationVerdict>? {
        guard let promise = state.enqueue(chain) else { return nil }
        startChecks(in: &state)
        return promise
    }

    private func startChecks(in state: inout CheckState) {
        while let chain = state.dequeue() {
            state.isUnderWay(chain.id, as: Task { await self.run(chain) })
        }
    }

    private func run(_ chain: CertificateChain) async {
        let answer = await check.verdict(of: chain)
        let now = now()
        let settled = state.withLock { state -> (verdict: RevocationVerdict, isNew: Bool)? in
            // A check that was cut short has learnt nothing.
            guard answer != .unknown || !Task.isCancelled else { return nil }
            return state.settle(chain.id, answer, at: now)
        }
        state.withLock { $0.promise(of: chain.id) }?.keep(settled?.verdict ?? .unknown)
        if let settled, settled.isNew { await onVerdict(chain.id, settled.verdict, now) }
        state.withLock { state in
            state.end(chain.id)
            startChecks(in: &state)
        }
    }
}
