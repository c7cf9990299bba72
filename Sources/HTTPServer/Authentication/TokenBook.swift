import EventLog
import Synchronization

/// Knows the tokens in force, so that a request costs a look-up and a hash, and no round trip to the database.
///
/// All of them are read again when a request comes and what was read is older than ``EventLog/Limits/tokensAgeMax``:
/// a token that was made or revoked counts as that after so long, plus the time of one read. When it cannot be read
/// nobody is let in on what was known once.
package final class TokenBook: Sendable {
    private typealias Tokens = [String: LiveToken]

    private struct State {
        var tokens: Tokens = [:]
        /// The start of the read that found them.
        var readAt: ContinuousClock.Instant?
        var reading: Task<Result<Tokens, ReadError>, Never>?
    }

    private let state = Mutex(State())
    private let read: @Sendable () async throws(ReadError) -> [LiveToken]
    private let now: @Sendable () -> ContinuousClock.Instant

    package init(
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        read: @escaping @Sendable () async throws(ReadError) -> [LiveToken]
    ) {
        self.now = now
        self.read = read
    }

    /// What the bearer may do; nil when the token is not in force.
    package func scope(of token: AccessToken) async throws(ReadError) -> TokenScope? {
        guard let known = try await tokens()[token.id], token.matches(digest: known.digest) else { return nil }
        return known.scope
    }

    private func tokens() async throws(ReadError) -> Tokens {
        let (known, reading) = state.withLock { state -> (Tokens?, Task<Result<Tokens, ReadError>, Never>?) in
            let age = state.readAt.map { now() - $0 }
            let isFresh = age.map { $0 < EventLog.Limits.tokensAgeMax } ?? false
            // Read ahead of time while requests come, so that none of them waits for it.
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
