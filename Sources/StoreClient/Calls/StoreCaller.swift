import AppStore
import Encoding
import Logging
import Metrics
import Synchronization

/// Makes the calls to one store, for all questions of a process: within the budget of each lane, with a breaker for each app
/// and host, and with retries after temporary failures.
final class StoreCaller<Host: StoreHost>: Sendable {
    /// What is the same for all calls to a store.
    struct Store: Sendable {
        /// In log lines.
        let name: String
        let callWaitMax: Duration
        let answerBytesMax: Int
        /// Whether an app whose credentials are rejected is not asked about for a while.
        let holdsRejected: Bool
        /// The log lines about apps whose credentials are rejected, or may not ask.
        let credentialsRejected: Logger.Message
        let permissionRejected: Logger.Message
    }

    private struct Place: Sendable, Hashable {
        let app: String
        let host: Host
    }

    private struct State: Sendable {
        var gates: [CallLane: CallGate] = [:]
        /// The store answered that there were too many requests.
        var parkedUntil: [CallLane: ContinuousClock.Instant] = [:]
        var holds: [Place: (rejection: Rejection, until: ContinuousClock.Instant)] = [:]
        /// The requests that were forbidden since the last answer.
        var forbidden: [Place: Set<String>] = [:]
    }

    private let store: Store
    private let transport: any StoreTransport
    private let clock: StoreClock
    private let random: @Sendable () -> Double
    private let metrics: CallMetrics<Host>
    private let credentialAlarm: CredentialAlarm
    private let permissionAlarm: CredentialAlarm
    private let breakers: AppBreakers<Host>
    private let state = Mutex(State())

    /// - Parameter random: Returns numbers from 0 up to but excluding 1, for the pauses between calls.
    init(
        _ store: Store, transport: any StoreTransport, clock: StoreClock, random: @escaping @Sendable () -> Double,
        metrics: CallMetrics<Host>, logger: Logger
    ) {
        self.store = store
        self.transport = transport
        self.clock = clock
        self.random = random
        self.metrics = metrics
        credentialAlarm = CredentialAlarm(store.credentialsRejected, logger: logger)
        permissionAlarm = CredentialAlarm(store.permissionRejected, logger: logger)
        breakers = AppBreakers { app, host, state, worst in
            metrics.note(worst, of: host)
            var metadata: Logger.Metadata = ["stream.app": "\(app)"]
            if Host.allCases.count > 1 { metadata["store.host"] = "\(host.rawValue)" }
            switch state {
            case .closed: logger.notice("\(store.name) answers again", metadata: metadata)
            case .halfOpen: logger.debug("trying the \(store.name)", metadata: metadata)
            case .open: logger.warning("calls to the \(store.name) stopped", metadata: metadata)
            }
        }
    }

    /// Makes the calls of a question.
    ///
    /// Temporary failures are retried a few times with random pauses. A question ends early when the task is cancelled, and
    /// then is `unavailable`.
    func ask<Call: StoreCall>(_ call: Call) async -> StoreOutcome<Call.Answer, Call.Refusal> where Call.Host == Host {
        var steps = CallSteps(call)
        while true {
            let host = steps.host
            let result = await result(of: call, steps)
            switch steps.step(after: result, part: random()) {
            case .call: break
            case .retry(let pause):
                do {
                    try await clock.sleep(clock.now() + pause)
                } catch {
                    return .unavailable(.cancelled, retryAfter: .zero)
                }
            case .end(let outcome):
                if case .rejected(.credentials) = outcome, call.provesRejection {
                    // Not for longer if it is on hold already.
                    if case .refused = result, store.holdsRejected { hold(call.app, host, .credentials) }
                    credentialAlarm.note(call.app, at: clock.now())
                }
                return outcome
            }
        }
    }

    /// Whether calls to the host are made for every app. An open breaker lets a call try the host only when the next question
    /// about its app comes.
    func breakerState(of host: Host) -> BreakerState { breakers.worst(of: host) }

    /// How long calls about an app are held back anyway; nil if they are not.
    func isHeld(_ app: String, _ host: Host) -> Duration? {
        let now = clock.now()
        if let pause = breakers.breaker(of: app, host).rejection(at: now) { return pause }
        guard let hold = state.withLock({ $0.holds[Place(app: app, host: host)] }), now < hold.until else { return nil }
        return hold.until - now
    }

    /// The number of calls that wait for the budget of a lane.
    func waiting(in lane: CallLane) -> Int { state.withLock { $0.gates[lane] }?.waiting ?? 0 }

    // MARK: Calls

    /// Makes one call, with the credential of its step.
    private func result<Call: StoreCall>(
        of call: Call, _ steps: CallSteps<Host>
    ) async -> CallResult<Call.Answer, Call.Refusal> where Call.Host == Host {
        let now = clock.now()
        let place = Place(app: call.app, host: steps.host)
        if let hold = state.withLock({ $0.holds[place] }), now < hold.until { return .rejected(hold.rejection) }
        let credential: String?
        switch await call.credential(steps.rejections) {
        case .success(let known): credential = known
        case .failure(.rejected): return .rejected(.credentials)
        case .failure(.unavailable(let reason, let retryAfter)): return .notMade(reason, retryAfter: retryAfter)
        }
        let request = call.request(to: steps.host, with: credential)
        let result = await admitted(call, to: steps.host, CallRank(call.priority, isFirst: steps.isFirst)) {
            await self.send(request, call, to: steps.host)
        }
        switch result {
        case .answered: state.withLock { $0.forbidden[place] = nil }
        case .refused(_, .credential): if let credential { call.drop(credential) }
        case .refused(_, .permission): noteForbidden(request.url, place)
        case .refused(_, .rateLimit(let wait)):
            let end = clock.now() + wait
            state.withLock { $0.parkedUntil[call.lane] = end }
        default: break
        }
        return result
    }

    /// Makes a call once the breaker, the budget and the quota allow it.
    private func admitted<Call: StoreCall>(
        _ call: Call, to host: Host, _ rank: CallRank,
        send: () async -> CallResult<Call.Answer, Call.Refusal>
    ) async -> CallResult<Call.Answer, Call.Refusal> where Call.Host == Host {
        let breaker = breakers.breaker(of: call.app, host)
        let now = clock.now()
        if let pause = breaker.rejection(at: now) { return .notMade(.breakerOpen, retryAfter: pause) }
        let (gate, parkedUntil) = lane(of: call)
        if let parkedUntil, now < parkedUntil { return .notMade(.budget, retryAfter: parkedUntil - now) }
        switch await gate.enter(rank) {
        case .admitted: break
        case .refused(let wait): return .notMade(.budget, retryAfter: wait)
        case .cancelled: return .notMade(.cancelled, retryAfter: .zero)
        }
        if let wait = call.takeOfQuota(rank) {
            gate.leave(rank, isUnused: true)
            return .notMade(.budget, retryAfter: wait)
        }
        let start = clock.now()
        // It may have opened while the call waited.
        guard case .call(let permit) = breaker.begin(at: start) else {
            gate.leave(rank, isUnused: true)
            return .notMade(.breakerOpen, retryAfter: breaker.rejection(at: start) ?? Limits.probePause)
        }
        let result = await send()
        let end = clock.now()
        breaker.end(permit, result.breakerResult, at: end)
        metrics.note(call.label(result), of: call.series(of: host), duration: end - start)
        gate.leave(rank)
        return result
    }

    private func send<Call: StoreCall>(
        _ request: StoreRequest, _ call: Call, to host: Host
    ) async -> CallResult<Call.Answer, Call.Refusal> where Call.Host == Host {
        let response: StoreResponse
        do throws(TransportFailure) {
            response = try await transport.send(
                request, timeout: store.callWaitMax, bytesMax: store.answerBytesMax)
        } catch {
            return .failed(Unavailability(error))
        }
        guard response.body.count <= store.answerBytesMax else { return .failed(.tooLong) }
        return call.read(response, from: host, at: clock.date())
    }

    private func lane(of call: some StoreCall) -> (gate: CallGate, parkedUntil: ContinuousClock.Instant?) {
        state.withLock { state in
            let lane = call.lane
            if let known = state.gates[lane] { return (known, state.parkedUntil[lane]) }
            let gate = CallGate(call.budget, clock: clock) { [metrics] in metrics.noteWait() }
            state.gates[lane] = gate
            return (gate, nil)
        }
    }

    /// A store may forbid a single request, which anyone could cause. Several different ones in a row are the app.
    private func noteForbidden(_ request: String, _ place: Place) {
        let count = state.withLock { state in
            let requests = state.forbidden[place, default: []].union([request])
            // After the pause, as many are needed again.
            state.forbidden[place] = requests.count < Limits.forbiddenRequestsMax ? requests : nil
            return requests.count
        }
        guard count >= Limits.forbiddenRequestsMax else { return }
        hold(place.app, place.host, .permission)
        permissionAlarm.note(
            place.app, of: Host.allCases.count > 1 ? place.host.rawValue : nil, at: clock.now())
    }

    private func hold(_ app: String, _ host: Host, _ rejection: Rejection) {
        let end = clock.now() + Limits.keyRejectedPause
        state.withLock { $0.holds[Place(app: app, host: host)] = (rejection, end) }
    }
}
