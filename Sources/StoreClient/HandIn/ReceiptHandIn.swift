import AppStore
import Encoding
import EventLog
import Logging
import Metrics
import Readers
import Subscriptions

/// Receipts: the App Store is asked about each, until it answers.
package struct ReceiptHandIn: HandInSource {
    private let client: ReceiptClient
    private let apps: [String: App]
    private let configuration: Apps
    private let handIns: HandInLog
    private let ledger: HandInLedger
    /// By app: ids of receipts.
    private let claims: Claims<String>
    private let clock: StoreClock
    private let random: @Sendable () -> Double
    private let roots: RootCertificates
    private let metrics: HandInMetrics
    private let logger: Logger

    /// - Parameters:
    ///   - handIns: With the rights of `subledger_receiver`.
    ///   - log: With the rights of `subledger_reader`, as well as `subscriptions`.
    ///   - roots: Accepted besides Apple's, for the signatures of receipts.
    ///   - random: Returns numbers from 0 up to but excluding 1, for the pauses between questions.
    package init(
        client: ReceiptClient, apps: [App], handIns: HandInLog, log: LogReader, subscriptions: SubscriptionReader,
        appender: Appender, links: LinkService, clock: StoreClock, roots: RootCertificates = .apple,
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) },
        metrics factory: any MetricsFactory = MetricsSystem.factory, logger: Logger
    ) {
        self.client = client
        self.apps = Dictionary(apps.map { ($0.bundleId, $0) }) { $1 }
        configuration = Apps(apps)
        self.handIns = handIns
        self.clock = clock
        self.random = random
        self.roots = roots
        self.logger = logger
        ledger = HandInLedger(
            news: NewsAppender(log: log, subscriptions: subscriptions, appender: appender),
            links: PurchaseLinks(log: log, links: links, clock: clock))
        metrics = HandInMetrics(factory: factory)
        claims = Claims(lasting: Limits.claimMax, clock) { ids, _, end in
            for id in ids {
                do {
                    try await handIns.renew(id, until: end)
                } catch {
                    // At worst, another server asks as well. Its answer states nothing new then.
                    logger.debug("claim not renewed", metadata: ["receipt.id": "\(id)", "error": "\(error)"])
                }
            }
        }
    }

    package func accepts(_ app: String) -> Bool { apps[app] != nil }

    /// A receipt that is still pending is asked about again by ``ReceiptQueue``. The same receipt of the same customer has one
    /// id.
    package func handIn(_ request: HandInRequest) async throws -> HandInResult {
        let receipt = try Self.receipt(request)
        let (app, customer) = (request.app, try request.customer("appAccountToken"))
        guard let configured = apps[app] else { preconditionFailure("the app is not configured") }
        try await request.admitMove(try await handIns.subscriptions(ofReceipt: receipt.digest, app: app))
        let now = clock.date()
        let priority = priority(of: receipt, app)
        let claim = try await handIns.claim(
            receipt.bytes, digest: receipt.digest, app: app, isSigned: priority == .handIn, customerId: customer?.id,
            accountId: customer?.accountId, at: now, until: claims.end(at: now),
            askedBefore: now.advanced(by: .zero - Limits.verdictAgeMax))
        switch claim {
        case .claimed(let claimed):
            claims.note([claimed.id], of: claimed.app)
            defer { claims.forget([claimed.id], of: claimed.app) }
            guard let priority else { return try await refuseOfOtherApp(claimed) }
            return try await settle(
                claimed, await ask(receipt, configured, priority, within: Limits.handInWaitMax))
        case .known(let known):
            let latest = try await waitWhileAsked(known)
            return try await linked(HandInResult(latest, lastPosition: latest.findings.position), customer)
        }
    }

    private static func receipt(_ request: HandInRequest) throws(HandInRefusal) -> Receipt {
        guard let text = try request.text("receipt") else {
            throw HandInRefusal(.malformed, "receipt must be a string", field: "receipt")
        }
        do throws(ReceiptProblem) {
            return try Receipt(base64: text)
        } catch {
            throw HandInRefusal(error == .tooLong ? .tooLong : .malformed, error.description, field: "receipt")
        }
    }

    /// An answer of Apple's that is not old, which proves the purchases of the customer as it did then. Which account ids they
    /// carry is in the log only: if that decided then that they are not the customer's, it does so now.
    private func linked(_ known: HandInResult, _ customer: HandInCustomer?) async throws -> HandInResult {
        guard case .answered(var answer) = known, let customer else { return known }
        if customer.accountId != nil, answer.isLinked == false { return known }
        answer.note(try await ledger.links.link(answer.subscriptions, to: customer.id, in: answer.stream))
        return .answered(answer)
    }

    /// Asks about a receipt that is pending, and stores the answer.
    ///
    /// - Throws: ``ReadError``, ``AppendError``. The receipt is asked about again when the claim ends.
    func askAgain(_ claim: ClaimedReceipt) async throws {
        guard let app = apps[claim.app] else {
            // It was removed from the configuration, and may come back.
            _ = try await record(.pending, HandIn.Findings(problem: "app_unknown"), claim, pause: Limits.handInPauseMax)
            return
        }
        claims.note([claim.id], of: claim.app)
        defer { claims.forget([claim.id], of: claim.app) }
        let receipt = Receipt(stored: claim.bytes)
        if let priority = priority(of: receipt, claim.app) {
            _ = try await settle(claim, await client.ask(receipt, app: app, priority: priority))
        } else {
            _ = try await refuseOfOtherApp(claim)
        }
    }

    /// Claims pending receipts that are due.
    ///
    /// - Parameter isSigned: Only those that Apple signed for their apps, or only others.
    func claimDue(isSigned: Bool, limit: Int) async throws(ReadError) -> [ClaimedReceipt] {
        let now = clock.date()
        return try await handIns.claimDue(
            isSigned: isSigned, at: now, until: claims.end(at: now), limit: Int64(limit))
    }

    /// Keeps the claims of all questions, those of requests too, until the task is cancelled.
    func keepClaims() async {
        while !Task.isCancelled {
            try? await claims.keep()
            try? await clock.sleep(clock.now() + Limits.claimInterval)
        }
    }

    /// With which priority Apple is asked: a receipt that Apple did not sign for the app may be invented, and has the share of
    /// strangers. Nil if it names another app: Apple need not be asked.
    private func priority(of receipt: Receipt, _ app: String) -> AskPriority? {
        guard let container = ReceiptContainer(receipt, roots: roots), let bundleId = container.bundleId else {
            return .stranger
        }
        guard bundleId == app else { return nil }
        return container.isSignedByApple ? .handIn : .stranger
    }

    private func refuseOfOtherApp(_ claim: ClaimedReceipt) async throws -> HandInResult {
        try await record(.refused, HandIn.Findings(problem: ReceiptRefusal.otherApp.label), claim)
    }

    private func waitWhileAsked(_ known: HandIn) async throws -> HandIn {
        let end = clock.now() + Limits.handInWaitMax
        var latest = known
        while latest.state == .pending, latest.askingUntil != nil, clock.now() < end {
            try await clock.sleep(clock.now() + Limits.handInLookInterval)
            latest = try await handIns.handIn(id: known.id) ?? latest
        }
        return latest
    }

    private func ask(
        _ receipt: Receipt, _ app: App, _ priority: AskPriority, within limit: Duration
    ) async -> ReceiptOutcome {
        await withTaskGroup(of: ReceiptOutcome?.self) { group in
            group.addTask { await client.ask(receipt, app: app, priority: priority) }
            group.addTask {
                try? await clock.sleep(clock.now() + limit)
                return nil
            }
            let first: ReceiptOutcome? = await group.next() ?? nil
            group.cancelAll()
            return first ?? .unavailable(.timeout, retryAfter: .zero)
        }
    }

    // MARK: Outcomes

    private func settle(_ claim: ClaimedReceipt, _ outcome: ReceiptOutcome) async throws -> HandInResult {
        // A separate task: the caller may have been cancelled, and what came of the question is stored nevertheless.
        try await Task { try await store(outcome, claim) }.value
    }

    private func store(_ outcome: ReceiptOutcome, _ claim: ClaimedReceipt) async throws -> HandInResult {
        let age = claim.receivedAt.duration(to: clock.date())
        switch outcome {
        case .answered(let answer): return try await store(answer, claim)
        case .refused(let status):
            // Apple calls its own receipts malformed when it is ill.
            guard status.isPerhapsTemporary, age < Limits.malformedWaitMax,
                priority(of: Receipt(stored: claim.bytes), claim.app) == .handIn
            else {
                return try await record(.refused, HandIn.Findings(refusal: .status(status), status: status), claim)
            }
            return try await record(
                .pending,
                HandIn.Findings(
                    problem: Unavailability.temporaryStatus.rawValue, status: Int32(clamping: status.number)), claim)
        case .rejected:
            let status = ReceiptStatus(number: 21004)
            guard age < Limits.secretWaitMax else {
                return try await record(.refused, HandIn.Findings(refusal: .status(status), status: status), claim)
            }
            return try await record(
                .pending,
                HandIn.Findings(problem: HandIn.secretRejected, status: Int32(clamping: status.number)), claim)
        case .unreadable:
            return try await record(.pending, HandIn.Findings(problem: "unreadable"), claim)
        case .unavailable(let reason, let retryAfter):
            return try await record(.pending, HandIn.Findings(problem: reason.rawValue), claim, pause: retryAfter)
        }
    }

    /// Verifies an answer, appends it if it states something new, and links its purchases to the customer.
    private func store(_ answer: AnswerFromApple, _ claim: ClaimedReceipt) async throws -> HandInResult {
        let known = try await handIns.subscriptions(ofReceipt: answer.receipt.digest, app: claim.app)
        let verified: VerifiedReceipt
        do throws(ReceiptRefusal) {
            verified = try configuration.verify(answer, of: claim.app, subscriptions: known)
        } catch {
            let findings = HandIn.Findings(
                refusal: error, status: answer.answer.status, environment: answer.host.environment)
            return try await record(.refused, findings, claim)
        }
        let isDeleted = !verified.event.accountDeletions.isEmpty
        let kept = try await ledger.keep(
            [verified], receivedAt: verified.receivedAt, containsReceipt: true,
            to: isDeleted ? nil : HandInCustomer(claim.customerId, accountId: claim.accountId))
        let findings = HandIn.Findings(
            problem: isDeleted ? ReceiptRefusal.status(verified.status).label : nil,
            status: Int32(clamping: verified.status.number), environment: kept.stream.environment,
            registration: kept.registration, isLinked: kept.isLinked, subscriptions: kept.subscriptions,
            position: kept.position)
        return try await record(isDeleted ? .refused : .answered, findings, claim, lastPosition: kept.lastPosition)
    }

    /// - Parameter pause: Shortest pause before the next question, if the receipt is pending.
    private func record(
        _ state: HandIn.State, _ findings: HandIn.Findings, _ claim: ClaimedReceipt, lastPosition: Int64? = nil,
        pause: Duration = .zero
    ) async throws(ReadError) -> HandInResult {
        let askedAt = clock.date()
        let nextAt = askedAt.advanced(
            by: max(pause, RepeatPause.handIn.pause(after: Int(claim.attempts), part: random())))
        try await handIns.record(
            state, findings, of: claim.id, askedAt: askedAt, nextAt: state == .pending ? nextAt : nil)
        metrics.note(state)
        logger.log(
            level: state == .refused ? .notice : .info, state.logMessage, metadata: Self.metadata(claim, findings))
        return HandInResult(
            HandIn(
                id: claim.id, app: claim.app, customerId: claim.customerId, receivedAt: claim.receivedAt, state: state,
                askedAt: askedAt, askingUntil: nil, findings: findings),
            lastPosition: lastPosition)
    }

    private static func metadata(_ claim: ClaimedReceipt, _ findings: HandIn.Findings) -> Logger.Metadata {
        var metadata: Logger.Metadata = ["receipt.id": "\(claim.id)", "stream.app": "\(claim.app)"]
        if let environment = findings.environment { metadata["stream.environment"] = "\(environment.rawValue)" }
        if let position = findings.position { metadata["event.position"] = "\(position)" }
        if let problem = findings.problem { metadata["receipt.problem"] = "\(problem)" }
        if let status = findings.status { metadata["receipt.status"] = "\(status)" }
        return metadata
    }
}

extension HandIn.Findings {
    init(refusal: ReceiptRefusal, status: ReceiptStatus, environment: Environment? = nil) {
        self.init(problem: refusal.label, status: Int32(clamping: status.number), environment: environment)
    }
}

extension HandIn.State {
    fileprivate var logMessage: Logger.Message {
        switch self {
        case .pending: "receipt pending"
        case .answered: "receipt answered"
        case .refused: "receipt refused"
        }
    }
}
