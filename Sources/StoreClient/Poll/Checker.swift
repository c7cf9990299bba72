import AppStore
import Encoding
import EventLog
import Logging
import Metrics
import Readers
import Subscriptions

/// Asks the App Store about single subscriptions, stores what it answers, and records the checks. An app with a key is
/// asked about by the App Store Server API, any other with receipts.
package struct Checker: Sendable {
    private let client: ReceiptClient
    private let queue: CheckQueue
    private let finder: ReceiptFinder
    private let handIns: HandInLog
    private let answers: AnswerStore
    /// Nil if no app has a key.
    private let accounts: AccountReader?
    private let subscriptions: SubscriptionReader
    private let clock: StoreClock
    private let random: @Sendable () -> Double
    private let metrics: CheckMetrics
    private let logger: Logger

    /// A subscription to ask about, with all that the question needs.
    struct Question: Sendable {
        let app: App
        let stream: CheckQueue.PolledStream
        let subscription: SubscriptionReader.Stored
        /// The scheduled check that this is; nil if it is not scheduled.
        let scheduled: StoreCheck?
        /// The time at which other subscriptions of the same Apple Account must be due to share the answer.
        let now: Instant
        /// The receipt to ask with; nil if there is none, or if it is not needed.
        let known: KnownReceipt?

        var id: String { subscription.facts.originalTransactionId }

        /// Whether an answer probably is about another subscription, too. One about a receipt names the subscriptions, and
        /// one of the App Store Server API is about all of the Apple Account.
        func covers(_ id: String, _ other: SubscriptionReader.Stored?) -> Bool {
            if let known { return known.subscriptions.contains(id) }
            guard let other else { return false }
            return !Self.accounts(of: subscription).isDisjoint(with: Self.accounts(of: other))
        }

        private static func accounts(of subscription: SubscriptionReader.Stored) -> Set<String> {
            Set(subscription.facts.transactions.keys.compactMap(\.fact.appTransactionId))
        }
    }

    /// What came of a question.
    struct Outcome: Sendable {
        /// That of the subscription in question first, then those of others that the answer covers. Empty if the
        /// question was cancelled, or if the budget holds a scheduled one back.
        let records: [CheckRecord]
        let wasAsked: Bool
        /// The subscriptions that the answer is about. Those that have a new schedule already are not in the records.
        var answered: Set<String> = []
        /// How long other questions about the stream should wait.
        var pause = Duration.zero
    }

    /// - Parameters:
    ///   - api: What asks the App Store Server API and verifies its answers; nil if no app has a key.
    ///   - log: With the rights of `subledger_poller`, as well as `queue`, `histories`, `handIns` and `subscriptions`.
    ///   - random: Returns numbers from 0 up to but excluding 1, for the pauses after failures.
    package init(
        client: ReceiptClient, api: (client: ServerAPIClient, verifier: NotificationVerifier)? = nil, apps: [App],
        queue: CheckQueue, log: LogReader, histories: HistoryLog, handIns: HandInLog,
        subscriptions: SubscriptionReader, appender: Appender, clock: StoreClock,
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) },
        metrics factory: any MetricsFactory = MetricsSystem.factory, logger: Logger
    ) {
        self.client = client
        self.queue = queue
        self.handIns = handIns
        self.subscriptions = subscriptions
        self.clock = clock
        self.random = random
        self.logger = logger
        finder = ReceiptFinder(log: log, handIns: handIns)
        answers = AnswerStore(apps: Apps(apps), log: log, subscriptions: subscriptions, appender: appender)
        accounts = api.map { api in
            AccountReader(
                client: api.client, verifier: api.verifier,
                news: NewsAppender(log: log, subscriptions: subscriptions, appender: appender), histories: histories,
                clock: clock)
        }
        metrics = CheckMetrics(apps: apps.filter(\.isPolled).map(\.bundleId), factory: factory)
    }

    /// A check outside of the schedule, and when the next scheduled one follows.
    package struct Checked: Sendable {
        package let record: CheckRecord
        /// Nil if none is scheduled, or if the answer became an event: its fold schedules the next one.
        package let nextAt: Instant?
    }

    /// Asks about a subscription now. Safe to repeat.
    ///
    /// - Returns: Nil if the subscription is not known, or the task was cancelled.
    /// - Throws: ``ReadError``, ``AppendError``.
    package func checkNow(
        _ originalTransactionId: String, of app: App, in environment: Environment
    ) async throws -> Checked? {
        let streams = try await queue.streams(
            of: [app.bundleId], withKey: app.serverAPIKey == nil ? [] : [app.bundleId])
        guard let stream = streams.first(where: { $0.key.environment == environment }),
            let known = try await subscriptions([originalTransactionId], in: stream)[originalTransactionId]
        else { return nil }
        let question = try await question(known, of: app, in: stream, scheduled: nil, at: clock.date())
        guard let record = try await ask(question).records.first else { return nil }
        guard record.result.position == nil else { return Checked(record: record, nextAt: nil) }
        return Checked(record: record, nextAt: try await queue.nextAt(of: originalTransactionId, in: stream))
    }

    /// What is known of some subscriptions. Unknown ones are left out.
    func subscriptions(
        _ ids: [String], in stream: CheckQueue.PolledStream
    ) async throws(ReadError) -> [String: SubscriptionReader.Stored] {
        let found = try await subscriptions.subscriptions(ids, in: stream.key)
        return Dictionary(found.map { ($0.facts.originalTransactionId, $0) }) { $1 }
    }

    /// Reads what a question needs besides.
    func question(
        _ subscription: SubscriptionReader.Stored, of app: App, in stream: CheckQueue.PolledStream,
        scheduled: StoreCheck?, at now: Instant
    ) async throws(ReadError) -> Question {
        Question(
            app: app, stream: stream, subscription: subscription, scheduled: scheduled, now: now,
            known: stream.asksWithoutReceipt ? nil : try await finder.latest(of: subscription.facts, in: stream.key))
    }

    /// Asks Apple, stores the answer, and records the checks. Safe to repeat.
    ///
    /// If the task is cancelled, the question is abandoned, or its answer is stored to the end.
    ///
    /// - Throws: ``ReadError``, ``AppendError``. Then the check is still due.
    func ask(_ question: Question) async throws -> Outcome {
        if question.app.serverAPIKey != nil, let accounts {
            return try await settle(question, accounts)
        }
        guard let known = question.known else {
            let record = record(.noReceipt, nil, question, at: askedAt(question), nextAt: nil)
            return Outcome(records: try await keep([record], question), wasAsked: false)
        }
        let outcome = await client.ask(known.receipt, app: question.app, priority: .check)
        if case .unavailable(.cancelled, _) = outcome {
            return Outcome(records: [], wasAsked: false)
        }
        // A separate task: this one may be cancelled, and an answer that is there is stored nevertheless.
        return try await Task { try await settle(outcome, question, known) }.value
    }

    // MARK: Outcomes

    /// Asks the App Store Server API.
    private func settle(_ question: Question, _ accounts: AccountReader) async throws -> Outcome {
        let read = try await accounts.read(
            question.id, of: question.app, in: question.stream.key, priority: .check)
        switch read {
        case .success(let account):
            guard account.subscriptions[question.id] != nil else { return try await missing(question) }
            return Outcome(
                records: try await keep(
                    records(account.subscriptions, account.appended, status: nil, question), question),
                wasAsked: true, answered: Set(account.subscriptions.keys))
        case .failure(.notFound): return try await missing(question)
        case .failure(.keyRejected):
            var outcome = try await fail(.keyRejected, question)
            // The next question would fail without a call.
            outcome.pause = Limits.keyRejectedPause
            return outcome
        case .failure(.refused): return try await fail(.refused, question)
        case .failure(.unreadable): return try await fail(.unreadable, question)
        case .failure(.unavailable(.cancelled, _)):
            return Outcome(records: [], wasAsked: false)
        case .failure(.unavailable(let reason, let retryAfter)):
            return try await unavailable(reason, retryAfter, question)
        }
    }

    /// Records that Apple does not know the subscription. It rarely happens to ids that once worked, and not for long.
    private func missing(_ question: Question) async throws -> Outcome {
        let failures = try await queue.failuresInRow(of: question.id, in: question.stream.id)
        if failures + 1 == Limits.missingAlarm {
            logger.error("subscription not known to the App Store", metadata: question.stream.key.metadata())
        }
        return try await fail(.notFound, question, shortestPause: Limits.missingPause)
    }

    private func unavailable(
        _ reason: Unavailability, _ retryAfter: Duration, _ question: Question
    ) async throws -> Outcome {
        // Not a failure of the check, which stays due.
        if reason == .budget, question.scheduled != nil {
            return Outcome(records: [], wasAsked: false, pause: max(retryAfter, Limits.roundPauseMin))
        }
        var outcome = try await fail(.unavailable, question, shortestPause: retryAfter)
        // The next question would fail in the same way.
        if reason == .breakerOpen || reason == .budget {
            outcome.pause = retryAfter
        }
        return outcome
    }

    private func settle(
        _ outcome: ReceiptOutcome, _ question: Question, _ known: KnownReceipt
    ) async throws -> Outcome {
        switch outcome {
        case .answered(let answer):
            let (records, answered) = try await store(answer, question, known)
            return Outcome(records: try await keep(records, question), wasAsked: true, answered: answered)
        case .refused(let status):
            return try await fail(.refused, question, status: status)
        case .rejected:
            return try await fail(.secretRejected, question, status: ReceiptStatus(number: 21004))
        case .unreadable:
            return try await fail(.unreadable, question)
        case .unavailable(let reason, let retryAfter):
            return try await unavailable(reason, retryAfter, question)
        }
    }

    /// Stores an answer, and returns the records of all checks that it makes, and the subscriptions that it is about.
    private func store(
        _ answer: AnswerFromApple, _ question: Question, _ known: KnownReceipt
    ) async throws -> (records: [CheckRecord], answered: Set<String>) {
        // For a deleted account, whose answer names nothing.
        var ids = known.subscriptions.union([question.id])
        ids.formUnion(try await handIns.subscriptions(ofReceipt: known.receipt.digest, app: question.app.bundleId))
        let stored = try await answers.store(
            answer, of: question.app.bundleId, known: ids.sorted(), in: question.stream.key)
        guard case .success(let kept) = stored else {
            return ([try await failure(.refused, question, status: answer.answer.status)], [])
        }
        let before = Dictionary(kept.ids.map { id in (id, kept.before.first { $0.facts.originalTransactionId == id }) })
        {
            $1
        }
        let appended = kept.position.map { position in
            AppendedEvent(event: kept.verified.event, receivedAt: kept.verified.receivedAt, position: position)
        }
        let made = try await records(
            before, [appended].compactMap(\.self), status: Int32(clamping: kept.verified.status.number), question)
        return (made, Set(kept.ids))
    }

    /// The records of all checks that an answer makes.
    ///
    /// - Parameter subscriptions: Those of the answer, with what was known of them before.
    private func records(
        _ subscriptions: [String: SubscriptionReader.Stored?], _ appended: [AppendedEvent], status: Int32?,
        _ question: Question
    ) async throws -> [CheckRecord] {
        let askedAt = askedAt(question)
        func record(_ id: String, _ known: SubscriptionReader.Stored, _ scheduled: StoreCheck?) -> CheckRecord {
            let position = appended.last { $0.concerns(id) }?.position
            let next = nextAt(known, appended.filter { $0.concerns(id) }, question.app, after: askedAt)
            return CheckRecord(
                originalTransactionId: id, askedAt: askedAt, scheduled: scheduled,
                result: position.map { .appended(position: $0) } ?? .unchanged, status: status,
                // Without a scheduled check, the schedule stays as it is.
                nextAt: scheduled == nil ? nil : next)
        }
        let others = try await queue.due(
            among: subscriptions.keys.filter { $0 != question.id }.sorted(), in: question.stream, at: question.now)
        let own = subscriptions[question.id].flatMap(\.self) ?? question.subscription
        return [record(question.id, own, question.scheduled)]
            + others.compactMap { other in
                guard let known = subscriptions[other.originalTransactionId].flatMap(\.self) else { return nil }
                return record(other.originalTransactionId, known, other.scheduled)
            }
    }

    /// When to ask again after an answer. If it became events, the projector computes the same from its facts.
    private func nextAt(
        _ subscription: SubscriptionReader.Stored, _ appended: [AppendedEvent], _ app: App, after askedAt: Instant
    ) -> Instant? {
        var facts = subscription.facts
        for stored in appended {
            let stated = stored.event.facts
            facts.fold(
                stated, occurredAt: stored.event.occurredAt, receivedAt: stored.receivedAt,
                position: stored.position, companion: stated.companion)
        }
        let known = Subscription(facts, products: subscription.products)
        let last = max(askedAt, known.reports.latestAt ?? askedAt)
        return known.nextCheck(after: last, policy: app.checks)?.dueAt
    }

    private func fail(
        _ result: CheckResult, _ question: Question, status: ReceiptStatus? = nil, shortestPause: Duration = .zero
    ) async throws(ReadError) -> Outcome {
        let record = try await failure(result, question, status: status, shortestPause: shortestPause)
        return Outcome(records: try await keep([record], question), wasAsked: true)
    }

    private func failure(
        _ result: CheckResult, _ question: Question, status: ReceiptStatus?, shortestPause: Duration = .zero
    ) async throws(ReadError) -> CheckRecord {
        let askedAt = askedAt(question)
        var nextAt: Instant?
        if let scheduled = question.scheduled, scheduled.dueAt.duration(to: askedAt) < Limits.failedCheckAgeMax {
            let failures = try await queue.failuresInRow(of: question.id, in: question.stream.id)
            let pause = RepeatPause.check.pause(after: failures + 1, part: random())
            nextAt = askedAt.advanced(by: max(shortestPause, pause))
        }
        return record(result, status.map { Int32(clamping: $0.number) }, question, at: askedAt, nextAt: nextAt)
    }

    // MARK: Records

    /// Not before the time at which the check was due, so that the next time is later than that.
    private func askedAt(_ question: Question) -> Instant { max(clock.date(), question.now) }

    private func record(
        _ result: CheckResult, _ status: Int32?, _ question: Question, at askedAt: Instant, nextAt: Instant?
    ) -> CheckRecord {
        // Without a scheduled check, the schedule stays as it is.
        CheckRecord(
            originalTransactionId: question.id, askedAt: askedAt, scheduled: question.scheduled, result: result,
            status: status, nextAt: question.scheduled == nil ? nil : nextAt)
    }

    private func keep(_ records: [CheckRecord], _ question: Question) async throws(ReadError) -> [CheckRecord] {
        for record in records {
            try await queue.record(record, in: question.stream.id)
            metrics.note(record.result, of: question.app.bundleId)
            log(record, question)
        }
        return records
    }

    /// Publishes the number of due checks.
    func note(_ backlog: PollBacklog) {
        metrics.note(backlog)
    }

    private func log(_ record: CheckRecord, _ question: Question) {
        var metadata = question.stream.key.metadata(["check.result": "\(record.result.label)"])
        if let status = record.status { metadata["check.status"] = "\(status)" }
        if let position = record.result.position { metadata["event.position"] = "\(position)" }
        let level: Logger.Level =
            switch record.result {
            case .unchanged: .debug
            case .appended, .unavailable, .noReceipt: .info
            case .secretRejected, .keyRejected, .notFound, .refused, .unreadable: .notice
            }
        logger.log(level: level, "subscription checked", metadata: metadata)
    }
}
