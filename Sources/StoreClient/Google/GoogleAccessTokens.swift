import Encoding
import Logging
import PlayStore
import Synchronization

/// The access tokens of Google accounts: fetched when first needed, kept until five minutes before their end, and fetched
/// once for all calls that need one at the same time.
final class GoogleAccessTokens: Sendable {
    enum Failure: Error, Sendable, Hashable {
        /// Google rejects the credentials: a person must repair them.
        case rejected
        /// No answer, or a temporary failure.
        case unavailable(Unavailability, retryAfter: Duration)
    }

    private struct State: Sendable {
        var issued: [String: AccessToken] = [:]
        /// Fetches in flight, by account.
        var fetches: [String: (id: UInt64, task: Task<Result<AccessToken, Failure>, Never>)] = [:]
        var lastId: UInt64 = 0
        /// Why no token is fetched for a while, by account.
        var failures: [String: (failure: Failure, until: ContinuousClock.Instant)] = [:]
    }

    private let transport: any StoreTransport
    private let addresses: GoogleAddresses
    private let clock: StoreClock
    private let metrics: GoogleMetrics
    private let logger: Logger
    private let state = Mutex(State())

    init(
        transport: any StoreTransport, addresses: GoogleAddresses, clock: StoreClock, metrics: GoogleMetrics,
        logger: Logger
    ) {
        self.transport = transport
        self.addresses = addresses
        self.clock = clock
        self.metrics = metrics
        self.logger = logger
    }

    /// The account's token.
    func token(of credentials: GoogleCredentials) async -> Result<String, Failure> {
        let account = credentials.account
        let (now, date) = (clock.now(), clock.date())
        let found = state.withLock { state -> Found in
            if let issued = state.issued[account], date < issued.renewAt { return .issued(issued.text) }
            if let failed = state.failures[account], now < failed.until { return .failed(failed.failure) }
            if let fetch = state.fetches[account] { return .fetching(fetch.id, fetch.task) }
            state.lastId += 1
            // A separate task: the caller may be cancelled, and other callers wait for the same token.
            let task = Task { await self.fetch(credentials) }
            state.fetches[account] = (state.lastId, task)
            return .fetching(state.lastId, task)
        }
        switch found {
        case .issued(let text): return .success(text)
        case .failed(let failure): return .failure(failure)
        case .fetching(let id, let task):
            let result = await task.value
            finish(id, result, of: account)
            return result.map(\.text)
        }
    }

    /// Lets the next call fetch another token, unless another call has done so already.
    func drop(_ token: String, of account: String) {
        state.withLock { state in
            if state.issued[account]?.text == token { state.issued[account] = nil }
        }
    }

    private enum Found {
        case issued(String)
        case failed(Failure)
        case fetching(UInt64, Task<Result<AccessToken, Failure>, Never>)
    }

    private func finish(_ id: UInt64, _ result: Result<AccessToken, Failure>, of account: String) {
        let now = clock.now()
        state.withLock { state in
            // The first of the callers that waited does it for all.
            guard state.fetches[account]?.id == id else { return }
            state.fetches[account] = nil
            switch result {
            case .success(let issued):
                state.issued[account] = issued
                state.failures[account] = nil
            case .failure(.rejected): state.failures[account] = (.rejected, now + Limits.keyRejectedPause)
            case .failure(.unavailable(let reason, let retryAfter)):
                state.failures[account] = (
                    .unavailable(reason, retryAfter: retryAfter), now + max(retryAfter, Limits.accessTokenPause)
                )
            }
        }
    }

    private func fetch(_ credentials: GoogleCredentials) async -> Result<AccessToken, Failure> {
        let result = await ask(credentials)
        switch result {
        case .success: metrics.noteToken(isIssued: true)
        case .failure: metrics.noteToken(isIssued: false)
        }
        return result
    }

    private func ask(_ credentials: GoogleCredentials) async -> Result<AccessToken, Failure> {
        guard let request = try? credentials.request(at: clock.date()) else { return .failure(.rejected) }
        let response: StoreResponse
        do throws(TransportFailure) {
            response = try await transport.send(
                StoreRequest(
                    "POST", addresses.token ?? request.url, body: request.body,
                    contentType: AccessTokenRequest.contentType),
                timeout: Limits.googleCallWaitMax, bytesMax: Limits.accessTokenBytesMax)
        } catch {
            return .failure(.unavailable(Unavailability(error), retryAfter: .zero))
        }
        let refusal: AccessTokenRefusal
        if response.status == 200 {
            do throws(AccessTokenRefusal) {
                return .success(try AccessToken(decoding: response.body, receivedAt: clock.date()))
            } catch {
                refusal = error
            }
        } else {
            refusal = AccessTokenRefusal(httpStatus: response.status, body: response.body)
        }
        switch refusal.kind {
        case .grant, .configuration:
            logger.error(
                "access token refused",
                metadata: ["google.error": "\(refusal)", "http.status": "\(response.status)"])
            return .failure(.rejected)
        case .temporary, .unreadable:
            let wait = response.status == 429 ? QuotaPause.wait(response.retryAfter, at: clock.date()) : .zero
            return .failure(.unavailable(.temporaryStatus, retryAfter: wait))
        }
    }
}
