import Synchronization

/// The tokens of accounts: made when first needed, kept until they must be renewed, and made once for all calls that need
/// one at the same time.
final class CallTokens: Sendable {
    struct Token: Sendable {
        let text: String
        let renewAt: ContinuousClock.Instant
    }

    typealias Made = Result<Token, CredentialFailure>

    private struct State: Sendable {
        var tokens: [String: Token] = [:]
        /// In progress.
        var making: [String: Task<Made, Never>] = [:]
        /// Why none is made for a while.
        var failures: [String: (failure: CredentialFailure, until: ContinuousClock.Instant)] = [:]
    }

    private let clock: StoreClock
    private let state = Mutex(State())

    init(clock: StoreClock) {
        self.clock = clock
    }

    /// The account's token.
    ///
    /// - Parameter make: Makes one. Runs to its end also if this task is cancelled, since other calls wait for the same.
    func token(
        of account: String, make: @escaping @Sendable () async -> Made
    ) async -> Result<String?, CredentialFailure> {
        let now = clock.now()
        let (known, task) = state.withLock { state -> (Made?, Task<Made, Never>?) in
            if let token = state.tokens[account], now < token.renewAt { return (.success(token), nil) }
            if let failed = state.failures[account], now < failed.until { return (.failure(failed.failure), nil) }
            if let task = state.making[account] { return (nil, task) }
            let task = Task {
                let made = await make()
                self.note(made, of: account)
                return made
            }
            state.making[account] = task
            return (nil, task)
        }
        if let known { return known.map { $0.text } }
        return await task?.value.map { $0.text } ?? .failure(.rejected)
    }

    /// Lets the next call make another token, unless another call has done so already.
    func drop(_ token: String, of account: String) {
        state.withLock { state in
            if state.tokens[account]?.text == token { state.tokens[account] = nil }
        }
    }

    private func note(_ made: Made, of account: String) {
        let now = clock.now()
        state.withLock { state in
            state.making[account] = nil
            state.failures[account] = nil
            switch made {
            case .success(let token): state.tokens[account] = token
            case .failure(let failure):
                let pause =
                    switch failure {
                    case .rejected: Limits.keyRejectedPause
                    case .unavailable(_, let retryAfter): max(retryAfter, Limits.accessTokenPause)
                    }
                state.failures[account] = (failure, now + pause)
            }
        }
    }
}
