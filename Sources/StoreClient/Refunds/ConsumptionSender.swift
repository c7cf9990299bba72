import AppStore
import Encoding
import EventLog
import Logging
import Metrics
import PlayStore
import Subscriptions
import Synchronization

/// Tells the stores about purchases for which refunds are requested: what backends answer, or the policies of products.
///
/// Nothing is kept in memory, so a server that starts continues where another one ended. Any number of processes may run
/// one: one of them sends.
package final class ConsumptionSender: Sendable {
    private let client: ServerAPIClient
    private let google: GoogleClient?
    private let places: [(stream: StreamKey, place: Place)]
    private let log: ConsumptionLog
    private let writes: WriteLog
    private let leadership: StreamLeadership
    private let clock: StoreClock
    private let random: @Sendable () -> Double
    private let metrics: ConsumptionMetrics
    /// The streams with requests that cannot be read. Each is logged once.
    private let failed = Mutex<Set<StreamKey>>([])
    private let logger: Logger

    /// - Parameters:
    ///   - apps: Those without a key are left out.
    ///   - google: Apps without credentials are left out.
    ///   - log: With the rights of `subledger_poller`.
    ///   - writes: Records what is sent, and what the stores say to it.
    ///   - leadership: For refunds.
    ///   - random: Returns numbers from 0 up to but excluding 1, for the pauses after failures.
    package init(
        client: ServerAPIClient, apps: [App], google: (client: GoogleClient, apps: [GoogleApp])? = nil,
        log: ConsumptionLog, writes: WriteLog, leadership: StreamLeadership, clock: StoreClock,
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) },
        metrics factory: any MetricsFactory = MetricsSystem.factory, logger: Logger
    ) {
        self.client = client
        self.google = google?.client
        let googleApps = google?.apps.filter { $0.credentials != nil } ?? []
        places =
            apps.filter { $0.serverAPIKey != nil }.flatMap { app in
                ReceiptHost.allCases.filter { app.environments.contains($0.environment) }.map { host in
                    (StreamKey(app: app.bundleId, environment: host.environment), .apple(app, host))
                }
            } + googleApps.map { (StreamKey(app: $0.packageName, environment: .unknown), .google($0)) }
        self.log = log
        self.writes = writes
        self.leadership = leadership
        self.clock = clock
        self.random = random
        self.logger = logger
        let names = Set(apps.map(\.bundleId) + (google?.apps.map(\.packageName) ?? []))
        metrics = ConsumptionMetrics(apps: names.sorted(), factory: factory)
    }

    /// Whom to answer.
    private enum Place: Sendable {
        case apple(App, ReceiptHost)
        case google(GoogleApp)
    }

    /// An answer in flight is abandoned at the end, and sent again later.
    package var rounds: LedRounds.Round {
        LedRounds.Round("refund requests not read", leadership, every: Limits.refundsPause) {
            _ = try await self.round(at: self.clock.date())
        }
    }

    /// Applies the policies and sends the answers that are due at an instant, if no other process does. A stream or a request
    /// that cannot be read keeps no other from it.
    ///
    /// - Returns: The number of answers that were sent, whatever came of them.
    package func round(at now: Instant) async throws(ReadError) -> Int {
        guard !places.isEmpty, try await leadership.leads() else { return 0 }
        var sent = 0
        for (stream, place) in places {
            do throws(ReadError) {
                sent += try await round(stream, place, now)
            } catch {
                guard error != .unavailable else { throw error }
                note(unreadable: 1, in: stream)
            }
        }
        return sent
    }

    private func round(
        _ stream: StreamKey, _ place: Place, _ now: Instant
    ) async throws(ReadError) -> Int {
        _ = try await log.applyPolicies(in: stream, at: now)
        let late = try await log.giveUpLate(in: stream, at: now)
        if late > 0 {
            metrics.note(.late, of: stream.app, count: late)
            logger.warning("answers to refund requests too late", metadata: stream.metadata(["count": "\(late)"]))
        }
        let (due, unreadable) = try await log.due(in: stream, at: now, limit: Limits.consumptionAnswersMax)
        note(unreadable: unreadable, in: stream)
        let failure = await withTaskGroup(of: ReadError?.self) { group in
            var failure: ReadError?
            for (number, request) in due.enumerated() {
                if number >= Limits.consumptionConcurrency { failure = await group.next() ?? failure }
                group.addTask {
                    do throws(ReadError) {
                        try await self.answer(request, place)
                        return nil
                    } catch {
                        return error
                    }
                }
            }
            for await result in group { failure = result ?? failure }
            return failure
        }
        if let failure { throw failure }
        return due.count
    }

    private func note(unreadable count: Int, in stream: StreamKey) {
        metrics.note(unreadable: count, in: stream)
        let isNew = failed.withLock { failed in
            guard count > 0 else {
                failed.remove(stream)
                return false
            }
            return failed.insert(stream).inserted
        }
        guard isNew else { return }
        logger.warning(
            "refund requests cannot be read; the others are answered",
            metadata: stream.metadata(["count": "\(count)"]))
    }

    // MARK: One answer

    private func answer(_ request: RefundRequest, _ place: Place) async throws(ReadError) {
        guard let answer = request.answer else { return }
        guard let content = answer.content else {
            // It would be due for ever, before others.
            try await record(.refused, "the answer has no content", request, answer)
            return
        }
        switch place {
        case .apple(let app, let host):
            let call: ConsumptionRequest
            do throws(ConsumptionAnswer.Malformed) {
                call = try ConsumptionRequest(content, about: request.purchase)
            } catch {
                try await record(.refused, "contradicts the purchase: \(error.field)", request, answer)
                return
            }
            let write = try await noted(request, answer)
            try await record(await client.ask(call, app: app, host: host, priority: .handIn), request, answer, write)
        case .google(let app):
            guard let google else { return }
            guard let token = request.pendingRefundToken else {
                try await record(.refused, "the notification has no pendingRefundToken", request, answer)
                return
            }
            let call = PlayRequest.reviewRefund(
                of: request.purchase.transactionId, token: token, content, of: app.packageName)
            let write = try await noted(request, answer)
            try await record(await google.ask(call, app: app, priority: .handIn), request, answer, write)
        }
    }

    /// The answer as the log has it before it is sent.
    private func noted(
        _ request: RefundRequest, _ answer: RefundRequest.Answer
    ) async throws(ReadError) -> StoreWrite? {
        guard let write = request.write else { return nil }
        do {
            return try await writes.noted(
                write, isFirst: answer.attempts == 0, in: request.answerStream, receivedAt: clock.date())
        } catch let error as ReadError {
            throw error
        } catch {
            throw .unavailable
        }
    }

    private func record<Value, Refusal: CustomStringConvertible>(
        _ outcome: StoreOutcome<Value, Refusal>, _ request: RefundRequest, _ answer: RefundRequest.Answer,
        _ write: StoreWrite?
    ) async throws(ReadError) {
        switch outcome {
        case .answered:
            try await finish(write, StoreWrite.Answer(.accepted), request)
            try await record(.accepted, nil, request, answer)
        case .refused(let refusal):
            try await finish(write, StoreWrite.Answer(.refused, problem: refusal.description), request)
            try await record(.refused, refusal.description, request, answer)
        case .rejected:
            try await record(.pending, "key_rejected", request, answer, pause: Limits.keyRejectedPause)
        case .unreadable(let label): try await record(.pending, label, request, answer)
        case .unavailable(.cancelled, _): break
        case .unavailable(let reason, let retryAfter):
            try await record(.pending, reason.rawValue, request, answer, pause: retryAfter)
        }
    }

    /// Appends what the store said. If that fails, the answer is sent again, which the stores ignore.
    private func finish(
        _ write: StoreWrite?, _ said: StoreWrite.Answer, _ request: RefundRequest
    ) async throws(ReadError) {
        guard let write else { return }
        let appended = await writes.finish(write.answered(said), in: request.answerStream, receivedAt: clock.date())
        guard case .success = appended else { throw .unavailable }
    }

    /// - Parameter pause: Shortest pause before the next attempt, if the answer is still pending.
    private func record(
        _ state: RefundRequest.Answer.State, _ problem: String?, _ request: RefundRequest,
        _ answer: RefundRequest.Answer, pause: Duration = .zero
    ) async throws(ReadError) {
        let askedAt = clock.date()
        var nextAt: Instant?
        if state == .pending {
            let usual = RepeatPause.consumption.pause(after: Int(answer.attempts) + 1, part: random())
            let next = askedAt.advanced(by: max(pause, usual))
            let last = request.deadline.advanced(by: .zero - Limits.consumptionLastTry)
            nextAt = askedAt < last ? min(next, last) : next
        }
        try await log.record(
            state, problem: problem, of: request, statedAt: answer.statedAt, askedAt: askedAt, nextAt: nextAt)
        metrics.note(state, of: request.stream.app)
        logger.log(
            level: state == .refused ? .warning : .info, state.logMessage,
            metadata: request.stream.metadata(problem.map { ["problem": "\($0)"] } ?? [:]))
    }
}

extension RefundRequest.Answer.State {
    fileprivate var logMessage: Logger.Message {
        switch self {
        case .accepted: "answer to refund request accepted"
        case .refused: "answer to refund request refused"
        case .pending: "answer to refund request not sent"
        case .late, .noConsent: "answer to refund request recorded"
        }
    }
}
