import AppStore
import Encoding
import Logging
import Metrics
import Synchronization

/// Asks the App Store about receipts, within each app's ``CallBudget``.
///
/// All questions of a process should share one client: budgets and breakers belong to it.
package final class ReceiptClient: Sendable {
    private let transport: any StoreTransport
    private let addresses: ReceiptAddresses
    private let clock: StoreClock
    private let random: @Sendable () -> Double
    private let metrics: StoreMetrics
    private let secretAlarm: CredentialAlarm
    private let breakers: AppBreakers<ReceiptHost>
    /// By bundle id.
    private let gates = Mutex<[String: CallGate]>([:])

    /// - Parameter random: Returns numbers from 0 up to but excluding 1, for the pauses between calls.
    package init(
        transport: some StoreTransport, addresses: ReceiptAddresses = .apple, clock: StoreClock,
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) },
        metrics factory: any MetricsFactory = MetricsSystem.factory, logger: Logger
    ) {
        let metrics = StoreMetrics(factory: factory)
        self.transport = transport
        self.addresses = addresses
        self.clock = clock
        self.random = random
        self.metrics = metrics
        secretAlarm = CredentialAlarm("shared secret rejected by the App Store", logger: logger)
        breakers = AppBreakers { app, host, state, worst in
            metrics.note(worst, of: host)
            ReceiptClient.log(state, of: app, host, logger)
        }
    }

    /// Asks about a receipt: production first, the sandbox only if production says that the receipt belongs there.
    ///
    /// Safe to repeat: a question changes nothing at Apple. Temporary failures are retried a few times with random
    /// pauses. A question ends early when the task is cancelled, and then is `unavailable`.
    ///
    /// - Parameter app: Its secrets are tried in order. Its budget is that of the first question about it.
    package func ask(_ receipt: Receipt, app: App, priority: AskPriority) async -> ReceiptOutcome {
        let gate = gate(of: app)
        var course = ReceiptCourse(secrets: app.sharedSecrets)
        while true {
            let rank = CallRank(priority, isFirst: course.isFirstCall)
            let call = await call(receipt, app.bundleId, course.host, secret: course.secret, gate, rank)
            switch course.step(after: call) {
            case .call: break
            case .retry(let number, let shortest):
                let pause = max(BackOff.pause(before: number, part: random()), shortest)
                do {
                    try await clock.sleep(clock.now() + pause)
                } catch {
                    return .unavailable(Unavailability.cancelled.rawValue, retryAfter: .zero)
                }
            case .end(let outcome):
                // Apple answers the same about a receipt of another developer's app, which anyone can hand in.
                if case .secretRejected = outcome, priority != .stranger {
                    secretAlarm.note(app.bundleId, at: clock.now())
                }
                return outcome
            }
        }
    }

    /// Whether calls to the host are made for every app. An open breaker lets a call try the host only when the next question
    /// about its app comes.
    package func breakerState(of host: ReceiptHost) -> BreakerState {
        breakers.worst(of: host)
    }

    /// The number of calls about the app that wait for its budget.
    func waiting(of app: App) -> Int { gate(of: app).waiting }

    private func gate(of app: App) -> CallGate {
        gates.withLock { gates in
            if let gate = gates[app.bundleId] { return gate }
            let gate = CallGate(app.callBudget, clock: clock) { [metrics] in metrics.noteBudgetWait() }
            gates[app.bundleId] = gate
            return gate
        }
    }

    // MARK: Calls

    private func call(
        _ receipt: Receipt, _ app: String, _ host: ReceiptHost, secret: String?, _ gate: CallGate, _ rank: CallRank
    ) async -> ReceiptCall {
        let breaker = breakers.breaker(of: app, host)
        if let pause = breaker.rejection(at: clock.now()) { return .notMade(.breakerOpen, retryAfter: pause) }
        switch await gate.enter(rank) {
        case .admitted: break
        case .refused(let wait): return .notMade(.budget, retryAfter: wait)
        case .cancelled: return .notMade(.cancelled, retryAfter: .zero)
        }
        let start = clock.now()
        // It may have opened while the call waited.
        guard case .call(let permit) = breaker.begin(at: start) else {
            gate.leave(rank, isUnused: true)
            return .notMade(.breakerOpen, retryAfter: breaker.rejection(at: start) ?? Limits.probePause)
        }
        let call = await send(receipt, to: host, secret: secret)
        let end = clock.now()
        breaker.end(permit, CircuitBreaker.Result(call), at: end)
        metrics.note(call, to: host, duration: end - start)
        gate.leave(rank)
        return call
    }

    private func send(_ receipt: Receipt, to host: ReceiptHost, secret: String?) async -> ReceiptCall {
        let response: StoreResponse
        do throws(TransportFailure) {
            response = try await transport.send(
                StoreRequest("POST", addresses[host], body: ReceiptRequest.body(receipt, secret: secret)),
                timeout: Limits.callWaitMax, bytesMax: Limits.answerBytesMax)
        } catch {
            return .failed(Unavailability(error), retryAfter: nil)
        }
        guard response.body.count <= Limits.answerBytesMax else { return .failed(.tooLong, retryAfter: nil) }
        let isOK = response.status == 200
        let answer: AnswerFromApple
        do throws(UnreadableAnswer) {
            answer = AnswerFromApple(
                answer: try ReceiptAnswer(decoding: response.body), host: host, receipt: receipt,
                receivedAt: clock.date())
        } catch {
            return isOK
                ? .unreadable(label: error.label) : .failed(.httpStatus, retryAfter: response.secondsToWait)
        }
        switch answer.action {
        // Apple sends facts with HTTP status 200 only, and a proxy's error may have a member "status" too.
        case .accept, .accountDeleted, .retry:
            return isOK ? .answered(answer) : .failed(.httpStatus, retryAfter: response.secondsToWait)
        case .askOtherHost, .retryThenRefuse, .refuse, .alarm: return .answered(answer)
        }
    }

    private static func log(_ state: BreakerState, of app: String, _ host: ReceiptHost, _ logger: Logger) {
        let metadata: Logger.Metadata = ["store.host": "\(host.rawValue)", "stream.app": "\(app)"]
        switch state {
        case .closed: logger.notice("App Store answers again", metadata: metadata)
        case .halfOpen: logger.debug("trying the App Store", metadata: metadata)
        case .open: logger.warning("calls to the App Store stopped", metadata: metadata)
        }
    }
}

extension CircuitBreaker.Result {
    fileprivate init(_ call: ReceiptCall) {
        self =
            switch call {
            // Only 21005 says that the store is down. 21009 and 211xx may concern a single receipt.
            case .answered(let answer): answer.answer.status.number == 21005 ? .failed : .answered
            case .failed(.cancelled, _), .notMade: .abandoned
            // A receipt with a long history. The host works.
            case .failed(.tooLong, _): .answered
            case .failed, .unreadable: .failed
            }
    }
}
