import EventLog
import Synchronization

/// Caches the active tokens, so that authenticating a request needs no round trip to the database.
///
/// Requests trigger reloads of all tokens, and a cache older than ``EventLog/Limits/tokensAgeMax`` is never used. A
/// created or revoked token takes effect after at most that time plus the time of one reload. If reloading fails,
/// requests fail as soon as the cache has expired.
package final class TokenCache: Sendable {
    private typealias Tokens = [String: ActiveToken]

    private struct State {
        var tokens: Tokens = [:]
        /// When the reload that returned them started.
        var readAt: ContinuousClock.Instant?
        var reading: Task<Result<Tokens, ReadError>, Never>?
    }

    private let state = Mutex(State())
    private let read: @Sendable () async throws(ReadError) -> [ActiveToken]
    private let now: @Sendable () -> ContinuousClock.Instant

    package init(
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        read: @escaping @Sendable () async throws(ReadError) -> [ActiveToken]
    ) {
        self.now = now
        self.read = read
    }

    /// Returns the token's scope; nil if the token is not active.
    package func scope(of token: AccessToken) async throws(ReadError) -> TokenScope? {
        try await active(token)?.scope
    }

    /// Returns what is known of a token; nil if it is not active.
    func active(_ token: AccessToken) async throws(ReadError) -> ActiveToken? {
        guard let known = try await tokens()[token.id], token.matches(digest: known.digest) else { return nil }
        return known
    }

    private func tokens() async throws(ReadError) -> Tokens {
        let (known, reading) = state.withLock { state -> (Tokens?, Task<Result<Tokens, ReadError>, Never>?) in
            let age = state.readAt.map { now() - $0 }
            let isFresh = age.map { $0 < EventLog.Limits.tokensAgeMax } ?? false
            // Reload early while requests arrive, so that none of them waits for it.
            if state.reading == nil, age.map({ $0 >= EventLog.Limits.tokensAgeMax / 2 }) ?? true {
                state.reading = Task { await readAll() }
            }
            return isFresh ? (state.tokens, nil) : (nil, state.reading)
        }
        if let known { return known }
        guard let reading else { throw .unavailable }
        return try await reading.value.get()
    }

    private func readAll() async -> Result<Tokens, ReadError> {
        let startedAt = now()
        let outcome: Result<Tokens, ReadError>
        do throws(ReadError) {
            outcome = .success(Dictionary(try await read().map { ($0.id, $0) }) { $1 })
        } catch {
            outcome = .failure(error)
        }
        state.withLock { state in
            state.reading = nil
            if case .success(let tokens) = outcome {
                state.tokens = tokens
                state.readAt = startedAt
            }
        }
        return outcome
    }
}
