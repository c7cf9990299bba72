import Encoding
import Synchronization

/// Caches the revocation status of chains and refreshes it with OCSP checks.
///
/// At most one check per chain runs at a time, and all callers share its result. Checks are limited in number and time,
/// and every failure results in `unknown`.
package final class RevocationChecker: Sendable {
    package let mode: RevocationMode
    private let check: RevocationCheck
    private let limits: RevocationLimits
    private let now: @Sendable () -> Instant
    private let onVerdict: @Sendable (ChainID, RevocationVerdict, Instant) async -> Void
    private let onResponses: @Sendable ([VerifiedOCSPResponse], Instant) async -> Void
    private let state: Mutex<CheckState>

    /// - Parameters:
    ///   - now: The clock for the age of verdicts. X509 checks the freshness of responses with the system clock.
    ///   - onVerdict: Called when a chain's verdict changes, with the time of the check, after waiting callers have
    ///     been resumed. Calls about one chain are serialized. `good` for a chain that was revoked means that the
    ///     revocation was lifted. Should return soon: the check counts as running until then.
    ///   - onResponses: Called after each check that ended with `good` or `revoked`, with the signed responses and the
    ///     time of the check.
    package init(
        mode: RevocationMode, transport: some OCSPTransport, limits: RevocationLimits = RevocationLimits(),
        now: @escaping @Sendable () -> Instant,
        onVerdict: @escaping @Sendable (ChainID, RevocationVerdict, Instant) async -> Void,
        onResponses: @escaping @Sendable ([VerifiedOCSPResponse], Instant) async -> Void = { _, _ in }
    ) {
        self.mode = mode
        self.limits = limits
        self.now = now
        self.onVerdict = onVerdict
        self.onResponses = onResponses
        check = RevocationCheck(transport: transport, limits: limits)
        state = Mutex(CheckState(limits: limits))
    }

    /// Returns the cached verdict without waiting; nil if there is none, and always nil in mode `off`.
    ///
    /// In mode `background`, starts a check unless the verdict is fresh; in mode `required`, ``verdict(of:)`` does.
    package func knownVerdict(of chain: CertificateChain) -> RevocationVerdict? {
        guard mode != .off else { return nil }
        let now = now()
        return state.withLock { state in
            if mode == .background, !state.isFresh(chain.id, at: now) { _ = join(chain, in: &state) }
            return state.known(chain.id, at: now)
        }
    }

    /// Returns the cached verdict if it is fresh; otherwise waits for a check, which all callers for this chain share.
    ///
    /// A revocation is returned immediately, even if a check is due, and so is a recent `unknown` until its retry is
    /// due. In mode `off` the result is `unknown`. Returns `unknown` after ``RevocationLimits/checkWaitMax`` at the
    /// latest, and immediately when cancelled; the check continues for other callers.
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
        return await withTimeout(limits.checkWaitMax) { await promise.value } ?? .unknown
    }

    /// Restores revocations that were found before a restart, each with the time of its check.
    ///
    /// Call it before the first notification is accepted. If there are more than ``RevocationLimits/chainsMax``, the
    /// latest are kept.
    package func restore(revoked: [ChainID: Instant]) {
        state.withLock { state in
            for (id, checkedAt) in revoked.sorted(by: { $0.value > $1.value }).prefix(limits.chainsMax).reversed() {
                state.settle(id, .revoked, at: checkedAt)
            }
        }
    }

    /// Cancels all checks, returns `unknown` to waiting callers, and rejects new checks. Safe to repeat.
    package func stop() async {
        let underWay = state.withLock { $0.stop() }
        for task in underWay { task.cancel() }
        for task in underWay { await task.value }
    }

    /// True if no check is queued or running.
    package var isIdle: Bool { state.withLock { $0.isIdle } }

    // MARK: Checks

    /// Returns the promise of the chain's check, starting or queueing one if necessary; nil if there is no room for it.
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
        let (answer, responses) = await check.result(of: chain)
        let now = now()
        let settled = state.withLock { state -> (verdict: RevocationVerdict, isNew: Bool)? in
            // A cancelled check has no result.
            guard answer != .unknown || !Task.isCancelled else { return nil }
            return state.settle(chain.id, answer, at: now)
        }
        state.withLock { $0.promise(of: chain.id) }?.fulfill(settled?.verdict ?? .unknown)
        if let settled, settled.isNew { await onVerdict(chain.id, settled.verdict, now) }
        if !responses.isEmpty { await onResponses(responses, now) }
        state.withLock { state in
            state.end(chain.id)
            startChecks(in: &state)
        }
    }
}
