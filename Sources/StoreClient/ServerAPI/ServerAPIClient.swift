import AppStore
import Encoding
import Logging
import Metrics
import Synchronization

/// Asks the App Store Server API, within half of Apple's limits for each app, host and endpoint.
///
/// All questions of a process should share one client: budgets, tokens and breakers belong to it.
package final class ServerAPIClient: Sendable {
    private let transport: any StoreTransport
    private let addresses: ServerAPIAddresses
    private let clock: StoreClock
    private let budget: @Sendable (ServerAPIEndpoint, ReceiptHost) -> CallBudget
    private let random: @Sendable () -> Double
    private let metrics: ServerAPIMetrics
    private let keyAlarm: CredentialAlarm
    private let breakers: AppBreakers<ReceiptHost>
    private let tokens = ServerAPITokens()
    private let lanes = Mutex<[Lane: LaneState]>([:])

    /// What Apple limits separately.
    private struct Lane: Sendable, Hashable {
        let app: String
        let host: ReceiptHost
        let endpoint: ServerAPIEndpoint
    }

    private struct LaneState: Sendable {
        let gate: CallGate
        /// Apple answered that there were too many requests.
        var parkedUntil: ContinuousClock.Instant?
    }

    /// The result of one call.
    fileprivate enum Call<Answer: Sendable>: Sendable {
        case answered(Answer)
        case refused(ServerAPIRefusal, retryAfter: String?)
        case unreadable(String)
        case failed(Unavailability)
        /// No request was sent.
        case notMade(Unavailability, retryAfter: Duration)
    }

    /// - Parameters:
    ///   - budget: The requests to make at most, for each app.
    ///   - random: Returns numbers from 0 up to but excluding 1, for the pauses between calls.
    package init(
        transport: some StoreTransport, addresses: ServerAPIAddresses = .apple, clock: StoreClock,
        budget: @escaping @Sendable (ServerAPIEndpoint, ReceiptHost) -> CallBudget = { $0.budget($1) },
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) },
        metrics factory: any MetricsFactory = MetricsSystem.factory, logger: Logger
    ) {
        let metrics = ServerAPIMetrics(factory: factory)
        self.transport = transport
        self.addresses = addresses
        self.clock = clock
        self.budget = budget
        self.random = random
        self.metrics = metrics
        keyAlarm = CredentialAlarm("key rejected by the App Store Server API", logger: logger)
        breakers = AppBreakers { app, host, state, worst in
            metrics.note(worst, of: host)
            ServerAPIClient.log(state, of: app, host, logger)
        }
    }

    /// Asks the host whose environment is known.
    ///
    /// Temporary failures are retried a few times with random pauses. A question ends early when the task is cancelled, and
    /// then is `unavailable`. An answer is not verified: its signed parts must be.
    ///
    /// - Parameters:
    ///   - app: Must have a key.
    ///   - priority: Hand-ins come before checks while the budget is short.
    package func ask<Request: ServerAPIRequest>(
        _ request: Request, app: App, host: ReceiptHost, priority: AskPriority = .check
    ) async -> ServerAPIOutcome<Request.Answer> {
        guard let key = app.serverAPIKey else { preconditionFailure("the app has no key") }
        var retries = 0
        var isFirst = true
        var hasNewToken = false
        while true {
            guard !tokens.isRejected(app.bundleId, host, at: clock.now()) else { return .keyRejected }
            let token: String
            do {
                token = try tokens.token(of: app.bundleId, key, at: clock.now(), clock.date())
            } catch {
                return .keyRejected
            }
            let call = await call(request, app.bundleId, host, token, CallRank(priority, isFirst: isFirst))
            isFirst = false
            switch call {
            case .answered(let answer): return .answered(answer)
            case .notMade(let reason, let retryAfter):
                return .unavailable(reason.rawValue, retryAfter: retryAfter)
            case .failed(.cancelled): return .unavailable(Unavailability.cancelled.rawValue, retryAfter: .zero)
            case .failed(.tooLong):
                return .unavailable(Unavailability.tooLong.rawValue, retryAfter: Limits.pauseMax)
            case .refused(let refusal, let retryAfter):
                switch refusal.kind {
                case .unauthorised where !hasNewToken:
                    hasNewToken = true
                    tokens.drop(token, of: app.bundleId)
                    continue
                case .unauthorised:
                    tokens.reject(app.bundleId, host, at: clock.now())
                    keyAlarm.note(app.bundleId, at: clock.now())
                    return .keyRejected
                case .rateLimited:
                    let wait = RetryAfter.wait(retryAfter, at: clock.date())
                    park(Lane(app: app.bundleId, host: host, endpoint: request.endpoint), for: wait)
                    return .unavailable(Unavailability.budget.rawValue, retryAfter: wait)
                case .pageLost, .notFound, .final: return .refused(refusal)
                case .temporary: break
                }
            case .failed, .unreadable: break
            }
            guard retries < Limits.retriesMax, request.isRepeatable || call.isRefused else { return call.outcome }
            retries += 1
            do {
                try await clock.sleep(clock.now() + BackOff.pause(before: retries, part: random()))
            } catch {
                return .unavailable(Unavailability.cancelled.rawValue, retryAfter: .zero)
            }
        }
    }

    /// Asks about an id of unknown environment: production first, and the sandbox only if production does not know the
    /// transaction.
    ///
    /// - Returns: The outcome, and the host that it is of.
    package func find<Request: ServerAPIRequest>(
        _ request: Request, app: App, priority: AskPriority
    ) async -> (host: ReceiptHost, outcome: ServerAPIOutcome<Request.Answer>) {
        let first = await ask(request, app: app, host: .production, priority: priority)
        guard case .refused(let refusal) = first, refusal.kind == .notFound else { return (.production, first) }
        return (.sandbox, await ask(request, app: app, host: .sandbox, priority: priority))
    }

    // MARK: Calls

    private func call<Request: ServerAPIRequest>(
        _ request: Request, _ app: String, _ host: ReceiptHost, _ token: String, _ rank: CallRank
    ) async -> Call<Request.Answer> {
        let breaker = breakers.breaker(of: app, host)
        if let pause = breaker.rejection(at: clock.now()) { return .notMade(.breakerOpen, retryAfter: pause) }
        let lane = lane(Lane(app: app, host: host, endpoint: request.endpoint))
        if let end = lane.parkedUntil, clock.now() < end {
            return .notMade(.budget, retryAfter: end - clock.now())
        }
        switch await lane.gate.enter(rank) {
        case .admitted: break
        case .refused(let wait): return .notMade(.budget, retryAfter: wait)
        case .cancelled: return .notMade(.cancelled, retryAfter: .zero)
        }
        let start = clock.now()
        // It may have opened while the call waited.
        guard case .call(let permit) = breaker.begin(at: start) else {
            lane.gate.leave(rank, isUnused: true)
            return .notMade(.breakerOpen, retryAfter: breaker.rejection(at: start) ?? Limits.probePause)
        }
        let call = await send(request, to: host, token)
        let end = clock.now()
        breaker.end(permit, call.breakerResult, at: end)
        metrics.note(call.label, request.endpoint, host, duration: end - start)
        lane.gate.leave(rank)
        return call
    }

    private func send<Request: ServerAPIRequest>(
        _ request: Request, to host: ReceiptHost, _ token: String
    ) async -> Call<Request.Answer> {
        let response: StoreResponse
        do throws(TransportFailure) {
            response = try await transport.send(
                StoreRequest(request.method, addresses[host] + request.path, token: token, body: request.body),
                timeout: Limits.apiCallWaitMax, bytesMax: Limits.apiAnswerBytesMax)
        } catch {
            return .failed(Unavailability(error))
        }
        guard response.body.count <= Limits.apiAnswerBytesMax else { return .failed(.tooLong) }
        guard (200...206).contains(response.status) else {
            return .refused(
                ServerAPIRefusal(httpStatus: response.status, body: response.body), retryAfter: response.retryAfter)
        }
        do throws(UnreadableServerAnswer) {
            return .answered(try request.answer(decoding: response.body))
        } catch {
            return .unreadable(error.label)
        }
    }

    private func lane(_ lane: Lane) -> LaneState {
        lanes.withLock { lanes in
            if let known = lanes[lane] { return known }
            let state = LaneState(gate: CallGate(budget(lane.endpoint, lane.host), clock: clock) {})
            lanes[lane] = state
            return state
        }
    }

    private func park(_ lane: Lane, for wait: Duration) {
        let end = clock.now() + wait
        lanes.withLock { $0[lane]?.parkedUntil = end }
    }

    private static func log(_ state: BreakerState, of app: String, _ host: ReceiptHost, _ logger: Logger) {
        let metadata: Logger.Metadata = ["store.host": "\(host.rawValue)", "stream.app": "\(app)"]
        switch state {
        case .closed: logger.notice("App Store Server API answers again", metadata: metadata)
        case .halfOpen: logger.debug("trying the App Store Server API", metadata: metadata)
        case .open: logger.warning("calls to the App Store Server API stopped", metadata: metadata)
        }
    }
}

extension ServerAPIClient.Call {
    fileprivate var isRefused: Bool {
        if case .refused = self { true } else { false }
    }

    /// The outcome of a question that ends with this call.
    fileprivate var outcome: ServerAPIOutcome<Answer> {
        switch self {
        case .answered(let answer): .answered(answer)
        case .unreadable(let label): .unreadable(label)
        case .failed(let reason): .unavailable(reason.rawValue, retryAfter: Limits.unavailablePause)
        case .refused(let refusal, _):
            refusal.kind == .temporary
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
        case .failed, .unreadable: .failed
        }
    }

    fileprivate var label: ServerAPIMetrics.Result {
        switch self {
        case .answered: .answered
        case .unreadable: .unreadable
        case .failed, .notMade: .noAnswer
        case .refused(let refusal, _):
            switch refusal.kind {
            case .unauthorised: .unauthorised
            case .rateLimited: .rateLimited
            case .temporary: .temporary
            case .notFound: .notFound
            case .pageLost, .final: .refused
            }
        }
    }
}
