import AppStore
import Encoding
import EventLog
import Logging
import Metrics
import PlayStore
import Synchronization

/// An answer of the Play Developer API with a status from 200 to 206.
struct GoogleAnswer: Sendable, Hashable {
    let status: Int
    let body: [UInt8]
    /// Our clock. What the answer says is true then.
    let answeredAt: Instant
}

/// What a question to the Play Developer API led to.
typealias GoogleOutcome = StoreOutcome<GoogleAnswer, PlayRefusal>

/// Asks the Play Developer API, within half of Google's limits for each account.
///
/// All questions of a process should share one client: budgets, tokens and the breaker belong to it.
package final class GoogleClient: Sendable {
    private let transport: any StoreTransport
    private let addresses: GoogleAddresses
    private let clock: StoreClock
    private let budget: @Sendable (PlayRequest.Quota) -> CallBudget
    private let callsOfDayMax: Int
    private let callsOfDay: Gauge
    private let tokensIssued: CounterTable
    private let logger: Logger
    private let tokens: CallTokens
    private let caller: StoreCaller<PlayHost>
    /// By account.
    private let days = Mutex<[String: DayQuota]>([:])

    /// - Parameters:
    ///   - budget: The requests to make at most, for each account.
    ///   - callsOfDayMax: The requests of one of Google's days at most, for each account; nil for the usual number.
    ///   - random: Returns numbers from 0 up to but excluding 1, for the pauses between calls.
    package init(
        transport: some StoreTransport, addresses: GoogleAddresses = .google, clock: StoreClock,
        budget: @escaping @Sendable (PlayRequest.Quota) -> CallBudget = { $0.budget }, callsOfDayMax: Int? = nil,
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) },
        metrics factory: any MetricsFactory = MetricsSystem.factory, logger: Logger
    ) {
        self.transport = transport
        self.addresses = addresses
        self.clock = clock
        self.budget = budget
        self.callsOfDayMax = callsOfDayMax ?? Limits.googleCallsOfDayMax
        self.logger = logger
        callsOfDay = Gauge(label: "subledger_google_calls_of_day", factory: factory)
        callsOfDay.record(0)
        tokensIssued = CounterTable(
            "subledger_google_access_tokens_total", [MetricLabel("result", ["issued", "failed"])],
            factory: factory)
        tokens = CallTokens(clock: clock)
        caller = StoreCaller(
            StoreCaller.Store(
                name: "Play Developer API", callWaitMax: Limits.googleCallWaitMax,
                answerBytesMax: Limits.apiAnswerBytesMax, holdsRejected: true,
                credentialsRejected: "credentials rejected by the Play Developer API",
                permissionRejected: "account may not ask the Play Developer API about the app"),
            transport: transport, clock: clock, random: random,
            metrics: CallMetrics(
                "subledger_google", series: [MetricLabel("quota", PlayRequest.Quota.allCases)],
                results: [
                    .answered, .notFound, .gone, .refused, .unauthorised, .forbidden, .rateLimited, .temporary,
                    .unreadable, .noAnswer,
                ], factory: factory), logger: logger)
    }

    /// How long calls about the purchases of an app are held back anyway, so that nothing needs to be claimed; nil if they are
    /// not.
    func isHeld(_ app: GoogleApp) -> Duration? { caller.isHeld(app.packageName, .purchases) }

    /// Sends a request about an app.
    ///
    /// A question ends early when the task is cancelled, and then is `unavailable`.
    ///
    /// - Parameters:
    ///   - app: Must have credentials.
    ///   - priority: Hand-ins come before checks while the budget is short.
    ///   - isScheduled: True for questions that no notification led to, and for those that can wait: they may use only half
    ///     of the day's quota.
    func ask(
        _ request: PlayRequest, app: GoogleApp, priority: AskPriority = .check, isScheduled: Bool = false
    ) async -> GoogleOutcome {
        guard let credentials = app.credentials else { preconditionFailure("the app has no credentials") }
        return await caller.ask(
            PlayCall(
                request: request, app: app.packageName, credentials: credentials, priority: priority,
                isScheduled: isScheduled, client: self))
    }

    /// A question to the Play Developer API.
    private struct PlayCall: StoreCall {
        let request: PlayRequest
        let app: String
        let credentials: GoogleCredentials
        let priority: AskPriority
        let isScheduled: Bool
        let client: GoogleClient

        var host: PlayHost { request.quota == .orders ? .orders : .purchases }
        var lane: CallLane { CallLane(owner: credentials.account, part: request.quota.rawValue) }
        var budget: CallBudget { client.budget(request.quota) }

        func credential(_ number: Int) async -> Result<String?, CredentialFailure> {
            await client.tokens.token(of: credentials.account) { [client, credentials] in
                await client.fetchToken(credentials)
            }
        }

        func drop(_ token: String) { client.tokens.drop(token, of: credentials.account) }

        func takeOfQuota(_ rank: CallRank) -> Duration? {
            client.takeOfDay(credentials.account, isScheduled: isScheduled, isStranger: rank.isOfStranger)
        }

        func request(to host: PlayHost, with token: String?) -> StoreRequest {
            StoreRequest(request.method, client.addresses.api + request.path, token: token, body: request.body)
        }

        func read(
            _ response: StoreResponse, from host: PlayHost, at date: Instant
        ) -> CallResult<GoogleAnswer, PlayRefusal> {
            guard (200...206).contains(response.status) else {
                let refusal = PlayRefusal(httpStatus: response.status, body: response.body)
                let kind: RefusalKind =
                    switch refusal.kind {
                    case .unauthorised: .credential
                    case .forbidden: .permission
                    case .quota: .rateLimit(RetryAfter.wait(response.retryAfter, at: date))
                    case .conflict, .temporary: .temporary
                    case .wrongPurchase, .stateConflict, .notFound, .gone, .refused: .final
                    }
                return .refused(refusal, kind)
            }
            return .answered(GoogleAnswer(status: response.status, body: response.body, answeredAt: date))
        }

        func series(of host: PlayHost) -> [String] { [request.quota.rawValue] }
    }

    /// Counts a call, or returns how long to wait.
    private func takeOfDay(_ account: String, isScheduled: Bool, isStranger: Bool) -> Duration? {
        let now = clock.date()
        let (wait, calls) = days.withLock { days -> (Duration?, Int) in
            var day = days[account] ?? DayQuota(callsMax: callsOfDayMax)
            let wait = day.take(at: now, isScheduled: isScheduled, isStranger: isStranger)
            days[account] = day
            return (wait, day.calls)
        }
        callsOfDay.record(calls)
        return wait
    }

    // MARK: Access tokens

    private func fetchToken(_ credentials: GoogleCredentials) async -> CallTokens.Made {
        let made = await askForToken(credentials)
        if case .success = made { tokensIssued.increment(["issued"]) } else { tokensIssued.increment(["failed"]) }
        return made
    }

    /// A token is renewed five minutes before its end.
    private func askForToken(_ credentials: GoogleCredentials) async -> CallTokens.Made {
        guard let request = try? credentials.request(at: clock.date()) else { return .failure(.rejected) }
        let response: StoreResponse
        do throws(TransportFailure) {
            response = try await transport.send(
                StoreRequest(
                    "POST", addresses.token ?? request.url, body: request.body,
                    contentType: AccessTokenRequest.contentType),
                timeout: Limits.googleCallWaitMax, bytesMax: Limits.accessTokenBytesMax)
        } catch {
            return .failure(.unavailable(Unavailability(error), retryAfter: Limits.accessTokenPause))
        }
        let refusal: AccessTokenRefusal
        if response.status == 200 {
            do throws(AccessTokenRefusal) {
                let date = clock.date()
                let token = try AccessToken(decoding: response.body, receivedAt: date)
                return .success(
                    CallTokens.Token(text: token.text, renewAt: clock.now() + date.duration(to: token.renewAt)))
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
            let wait = response.status == 429 ? RetryAfter.wait(response.retryAfter, at: clock.date()) : .zero
            return .failure(.unavailable(.temporaryStatus, retryAfter: max(wait, Limits.accessTokenPause)))
        }
    }
}

/// What Google may forbid an account, and may not answer about, without the rest: it needs another permission to see orders
/// than to see purchases.
private enum PlayHost: String, StoreHost {
    case purchases, orders

    var other: PlayHost { self }
}

extension PlayRefusal: StoreRefusal {
    var isOutage: Bool { httpStatus >= 500 }

    var label: CallLabel {
        switch kind {
        case .notFound: .notFound
        case .gone: .gone
        default: .refused
        }
    }
}

extension PlayRequest.Quota {
    /// Half of Google's limit. The rest is for the owner's other tools.
    package var budget: CallBudget { CallBudget(callsPerMinute: perMinute / 2, concurrency: 32) }
}
