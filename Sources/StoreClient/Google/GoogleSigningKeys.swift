import Encoding
import Logging
import PlayStore
import Synchronization

/// The keys with which Google signs the tokens of its pushes: fetched when first needed, and kept as long as Google says.
package final class GoogleSigningKeys: PushKeys {
    private struct State: Sendable {
        var keys = JSONWebKeySet.empty
        var fetchedAt: ContinuousClock.Instant?
        var freshUntil: ContinuousClock.Instant?
        var failedAt: ContinuousClock.Instant?
        var lastId: UInt64 = 0
        var fetch: (id: UInt64, task: Task<JSONWebKeySet?, Never>)?
        /// The callers that wait for it.
        var waiting = 0
    }

    private let transport: any StoreTransport
    private let address: String
    private let clock: StoreClock
    private let logger: Logger
    private let state = Mutex(State())

    package init(
        transport: some StoreTransport, addresses: GoogleAddresses = .google, clock: StoreClock, logger: Logger
    ) {
        self.transport = transport
        address = addresses.signingKeys
        self.clock = clock
        self.logger = logger
    }

    package var known: JSONWebKeySet {
        let now = clock.now()
        return state.withLock { state in
            guard let freshUntil = state.freshUntil, now < freshUntil else { return .empty }
            return state.keys
        }
    }

    /// Fetches at most once a minute. Nil also if many callers wait for the keys.
    package func fetched() async -> JSONWebKeySet? {
        let now = clock.now()
        let found = state.withLock { state -> Found in
            if let freshUntil = state.freshUntil, now < freshUntil, let fetchedAt = state.fetchedAt,
                now < fetchedAt + Limits.signingKeysPause
            {
                return .known(state.keys)
            }
            if let fetch = state.fetch {
                guard state.waiting < Limits.signingKeysWaitingMax else { return .failed }
                state.waiting += 1
                return .fetching(fetch.id, fetch.task)
            }
            if let failedAt = state.failedAt, now < failedAt + Limits.signingKeysFailurePause { return .failed }
            state.lastId += 1
            // A separate task: the caller may be cancelled, and other callers wait for the same keys.
            let task = Task { await self.fetch() }
            state.fetch = (state.lastId, task)
            state.waiting += 1
            return .fetching(state.lastId, task)
        }
        switch found {
        case .known(let keys): return keys
        case .failed: return nil
        case .fetching(let id, let task):
            let keys = await task.value
            state.withLock { state in
                state.waiting -= 1
                if state.fetch?.id == id { state.fetch = nil }
            }
            return keys
        }
    }

    private enum Found {
        case known(JSONWebKeySet)
        case failed
        case fetching(UInt64, Task<JSONWebKeySet?, Never>)
    }

    private func fetch() async -> JSONWebKeySet? {
        let start = clock.now()
        let problem: String
        do {
            let response = try await transport.send(
                StoreRequest("GET", address), timeout: Limits.signingKeysCallMax, bytesMax: Limits.accessTokenBytesMax)
            if response.status == 200 {
                let keys = try JSONWebKeySet(decoding: response.body)
                let age = min(Self.maxAge(response.cacheControl) ?? Limits.signingKeysPause, Limits.signingKeysAgeMax)
                state.withLock { state in
                    state.keys = keys
                    state.fetchedAt = start
                    state.freshUntil = start + max(age, Limits.signingKeysPause)
                    state.failedAt = nil
                }
                return keys
            }
            problem = "HTTP status \(response.status)"
        } catch {
            problem = "\(error)"
        }
        logger.warning("signing keys of Google not fetched", metadata: ["error": "\(problem)"])
        // From the end on: after a call that timed out, the next one would follow at once.
        let end = clock.now()
        state.withLock { $0.failedAt = end }
        return nil
    }

    /// The directive `max-age`; nil if there is none.
    static func maxAge(_ header: String?) -> Duration? {
        for directive in (header ?? "").split(separator: ",") {
            let parts = directive.filter { !$0.isWhitespace }.lowercased().split(separator: "=")
            guard parts.count == 2, parts[0] == "max-age", let seconds = Int32(parts[1]), seconds >= 0 else { continue }
            return .seconds(seconds)
        }
        return nil
    }
}
