import AppStore
import Encoding
import Logging
import Metrics
import PlayStore
import Synchronization

/// Asks the Play Developer API, within half of Google's limits for each account.
///
/// All questions of a process should share one client: budgets, tokens and the breaker belong to it.
package final class GoogleClient: Sendable {
    private let transport: any StoreTransport
    private let addresses: GoogleAddresses
    private let clock: StoreClock
    private let budget: @Sendable (PlayRequest.Quota) -> CallBudget
    private let callsOfDayMax: Int
    private let random: @Sendable () -> Double
    private let metrics: GoogleMetrics
    private let logger: Logger
    private let tokens: GoogleAccessTokens
    private let accountAlarm: CredentialAlarm
    private let permissionAlarm: CredentialAlarm
    private let breakers: AppBreakers<PlayHost>
    private let state = Mutex(State())

    /// The only host that is asked about apps.
    private enum PlayHost: Sendable, Hashable {
        case api
    }

    /// What Google limits separately.
    private struct Lane: Sendable, Hashable {
        let account: String
        let quota: PlayRequest.Quota
    }

    private struct State: Sendable {
        var gates: [Lane: CallGate] = [:]
        /// Google answered that there were too many requests.
        var parkedUntil: [Lane: ContinuousClock.Instant] = [:]
        var days: [String: DayQuota] = [:]
        /// The app's credentials were rejected, or may not ask about it.
        var rejectedUntil: [String: (outcome: GoogleOutcome, until: ContinuousClock.Instant)] = [:]
        /// By package name: the paths that were forbidden since the last answer.
        var forbidden: [String: Set<String>] = [:]
    }

    /// The result of one call.
    fileprivate enum Call: Sendable {
        case answered(GoogleAnswer)
        case refused(PlayRefusal, retryAfter: String?)
        case failed(Unavailability)
        /// No request was sent.
        case notMade(Unavailability, retryAfter: Duration)
    }

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
        let metrics = GoogleMetrics(factory: factory)
        self.transport = transport
        self.addresses = addresses
        self.clock = clock
        self.budget = budget
        self.callsOfDayMax = callsOfDayMax ?? Limits.googleCallsOfDayMax
        self.random = random
        self.metrics = metrics
        self.logger = logger
        tokens = GoogleAccessTokens(
            transport: transport, addresses: addresses, clock: clock, metrics: metrics, logger: logger)
        accountAlarm = CredentialAlarm("credentials rejected by the Play Developer API", logger: logger)
        permissionAlarm = CredentialAlarm("account may not ask the Play Developer API about the app", logger: logger)
        breakers = AppBreakers { app, _, state, worst in
            metrics.note(worst)
            GoogleClient.log(state, of: app, logger)
        }
    }

    /// How long calls about an app are held back anyway, so that nothing needs to be claimed; nil if they are not.
    func isHeld(_ app: GoogleApp) -> Duration? {
        let now = clock.now()
        if let pause = breakers.breaker(of: app.packageName, .api).rejection(at: now) { return pause }
        return state.withLock { state in
            let rejected = state.rejectedUntil[app.packageName].map { $0.until - now } ?? .zero
            return rejected > .zero ? rejected : nil
        }
    }

    /// Sends a request about an app.
    ///
    /// Temporary failures are retried a few times with random pauses. A question ends early when the task is cancelled, and
    /// then is `unavailable`.
    ///
    /// - Parameters:
    ///   - app: Must have credentials.
    ///   - priority: Hand-ins come before checks while the budget is short.
    ///   - isScheduled: True for questions that no notification led to: they may use only half of the day's quota.
    func ask(
        _ request: PlayRequest, app: GoogleApp, priority: AskPriority = .check, isScheduled: Bool = false
    ) async -> GoogleOutcome {
        guard let credentials = app.credentials else { preconditionFailure("the app has no credentials") }
        var retries = 0
        var isFirst = true
        var hasNewToken = false
        while true {
            if let rejected = rejection(of: app) { return rejected }
            let token: String
            switch await tokens.token(of: credentials) {
            case .success(let text): token = text
            case .failure(.rejected):
                accountAlarm.note(app.packageName, at: clock.now())
                return .credentialsRejected
            case .failure(.unavailable(let reason, let retryAfter)):
                return .unavailable(reason.rawValue, retryAfter: max(retryAfter, Limits.accessTokenPause))
            }
            let lane = Lane(account: credentials.account, quota: request.quota)
            let call = await call(
                request, app, lane, token, CallRank(priority, isFirst: isFirst), isScheduled: isScheduled)
            isFirst = false
            switch call {
            case .answered(let answer):
                state.withLock { $0.forbidden[app.packageName] = nil }
                return .answered(answer)
            case .notMade(let reason, let retryAfter): return .unavailable(reason.rawValue, retryAfter: retryAfter)
            case .failed(.cancelled): return .unavailable(Unavailability.cancelled.rawValue, retryAfter: .zero)
            case .failed(.tooLong):
                return .unavailable(Unavailability.tooLong.rawValue, retryAfter: Limits.pauseMax)
            case .refused(let refusal, let retryAfter):
                switch refusal.kind {
                case .unauthorised where !hasNewToken:
                    hasNewToken = true
                    tokens.drop(token, of: credentials.account)
                    continue
                case .unauthorised:
                    tokens.drop(token, of: credentials.account)
                    reject(app, .credentialsRejected, accountAlarm)
                    return .credentialsRejected
                case .forbidden:
                    // Google may forbid a single purchase, of which anyone could hand in the token.
                    let count = state.withLock { state in
                        var paths = state.forbidden[app.packageName] ?? []
                        paths.insert(request.path)
                        // After the pause, two are needed again.
                        state.forbidden[app.packageName] = paths.count < Limits.forbiddenRequestsMax ? paths : nil
                        return paths.count
                    }
                    if count >= Limits.forbiddenRequestsMax { reject(app, .forbidden, permissionAlarm) }
                    return .forbidden
                case .quota:
                    let wait = QuotaPause.wait(retryAfter, at: clock.date())
                    state.withLock { $0.parkedUntil[lane] = clock.now() + wait }
                    return .unavailable(Unavailability.budget.rawValue, retryAfter: wait)
                case .wrongPurchase, .stateConflict, .notFound, .gone, .refused: return .refused(refusal)
                case .conflict, .temporary: break
                }
            case .failed: break
            }
            guard retries < Limits.retriesMax else { return call.outcome }
            retries += 1
            do {
                try await clock.sleep(clock.now() + BackOff.pause(before: retries, part: random()))
            } catch {
                return .unavailable(Unavailability.cancelled.rawValue, retryAfter: .zero)
            }
        }
    }

    // MARK: Calls

    private func call(
        _ request: PlayRequest, _ app: GoogleApp, _ lane: Lane, _ token: String, _ rank: CallRank, isScheduled: Bool
    ) async -> Call {
        let breaker = breakers.breaker(of: app.packageName, .api)
        if let pause = breaker.rejection(at: clock.now()) { return .notMade(.breakerOpen, retryAfter: pause) }
        let gate: CallGate
        switch gateOf(lane) {
        case .parked(let wait): return .notMade(.budget, retryAfter: wait)
        case .open(let open): gate = open
        }
        switch await gate.enter(rank) {
        case .admitted: break
        case .refused(let wait): return .notMade(.budget, retryAfter: wait)
        case .cancelled: return .notMade(.cancelled, retryAfter: .zero)
        }
        if let wait = countOfDay(lane.account, isScheduled: isScheduled, isStranger: rank.isOfStranger) {
            gate.leave(rank, isUnused: true)
            return .notMade(.budget, retryAfter: wait)
        }
        let start = clock.now()
        // It may have opened while the call waited.
        guard case .call(let permit) = breaker.begin(at: start) else {
            gate.leave(rank, isUnused: true)
            return .notMade(.breakerOpen, retryAfter: breaker.rejection(at: start) ?? Limits.probePause)
        }
        let call = await send(request, token)
        let end = clock.now()
        breaker.end(permit, call.breakerResult, at: end)
        metrics.note(call.label, request.quota, duration: end - start)
        gate.leave(rank)
        return call
    }

    private func send(_ request: PlayRequest, _ token: String) async -> Call {
        let response: StoreResponse
        do throws(TransportFailure) {
            response = try await transport.send(
                StoreRequest(request.method, addresses.api + request.path, token: token, body: request.body),
                timeout: Limits.googleCallWaitMax, bytesMax: Limits.apiAnswerBytesMax)
        } catch {
            return .failed(Unavailability(error))
        }
        guard response.body.count <= Limits.apiAnswerBytesMax else { return .failed(.tooLong) }
        guard (200...206).contains(response.status) else {
            return .refused(
                PlayRefusal(httpStatus: response.status, body: response.body), retryAfter: response.retryAfter)
        }
        return .answered(GoogleAnswer(status: response.status, body: response.body, answeredAt: clock.date()))
    }

    private enum Gate {
        case open(CallGate)
        case parked(Duration)
    }

    private func gateOf(_ lane: Lane) -> Gate {
        let now = clock.now()
        return state.withLock { state in
            if let end = state.parkedUntil[lane], now < end { return .parked(end - now) }
            if let known = state.gates[lane] { return .open(known) }
            let gate = CallGate(budget(lane.quota), clock: clock) {}
            state.gates[lane] = gate
            return .open(gate)
        }
    }

    /// Counts a call, or returns how long to wait.
    private func countOfDay(_ account: String, isScheduled: Bool, isStranger: Bool) -> Duration? {
        let now = clock.date()
        let (wait, calls) = state.withLock { state -> (Duration?, Int) in
            var day = state.days[account] ?? DayQuota(callsMax: callsOfDayMax)
            let wait = day.take(at: now, isScheduled: isScheduled, isStranger: isStranger)
            state.days[account] = day
            return (wait, day.calls)
        }
        metrics.note(callsOfDay: calls)
        return wait
    }

    private func rejection(of app: GoogleApp) -> GoogleOutcome? {
        let now = clock.now()
        return state.withLock { state in
            guard let rejected = state.rejectedUntil[app.packageName], now < rejected.until else { return nil }
            return rejected.outcome
        }
    }

    private func reject(_ app: GoogleApp, _ outcome: GoogleOutcome, _ alarm: CredentialAlarm) {
        let now = clock.now()
        state.withLock { $0.rejectedUntil[app.packageName] = (outcome, now + Limits.keyRejectedPause) }
        alarm.note(app.packageName, at: now)
    }

    private static func log(_ state: BreakerState, of app: String, _ logger: Logger) {
        let metadata: Logger.Metadata = ["stream.app": "\(app)"]
        switch state {
        case .closed: logger.notice("Play Developer API answers again", metadata: metadata)
        case .halfOpen: logger.debug("trying the Play Developer API", metadata: metadata)
        case .open: logger.warning("calls to the Play Developer API stopped", metadata: metadata)
        }
    }
}

extension GoogleClient.Call {
    /// The outcome of a question that ends with this call.
    fileprivate var outcome: GoogleOutcome {
        switch self {
        case .answered(let answer): .answered(answer)
        case .failed(let reason): .unavailable(reason.rawValue, retryAfter: Limits.unavailablePause)
        case .refused(let refusal, _):
            refusal.kind == .temporary || refusal.kind == .conflict
                ? .unavailable(Unavailability.temporaryStatus.rawValue, retryAfter: Limits.unavailablePause)
                : .refused(refusal)
        case .notMade(let reason, let retryAfter): .unavailable(reason.rawValue, retryAfter: retryAfter)
        }
    }

    /// A host that refuses works. One that answers 5xx does not.
    fileprivate var breakerResult: CircuitBreaker.Result {
        switch self {
        case .answered: .answered
        case .refused(let refusal, _): refusal.httpStatus >= 500 ? .failed : .answered
        case .failed(.cancelled), .notMade: .abandoned
        case .failed(.tooLong): .answered
        case .failed: .failed
        }
    }

    fileprivate var label: GoogleMetrics.Result {
        switch self {
        case .answered: .answered
        case .failed, .notMade: .noAnswer
        case .refused(let refusal, _):
            switch refusal.kind {
            case .unauthorised: .unauthorised
            case .forbidden: .forbidden
            case .quota: .rateLimited
            case .conflict, .temporary: .temporary
            case .notFound: .notFound
            case .gone: .gone
            case .wrongPurchase, .stateConflict, .refused: .refused
            }
        }
    }
}

extension PlayRequest.Quota {
    /// Half of Google's limit. The rest is for the owner's other tools.
    package var budget: CallBudget { CallBudget(callsPerMinute: perMinute / 2, concurrency: 32) }
}
