import Encoding
import EventLog
import Logging
import PlayStore
import Subscriptions

/// Asks Google Play about single purchases, stores what it answers, acknowledges new purchases, and records the outcome.
struct PurchaseAsker: Sendable {
    let client: GoogleClient
    let queue: PurchaseQueue
    let appender: Appender
    let news: NewsAppender
    let links: PurchaseLinks
    let clock: StoreClock
    /// Returns numbers from 0 up to but excluding 1, for the pauses after failures.
    let random: @Sendable () -> Double
    let metrics: PurchaseMetrics
    let logger: Logger

    /// What came of a question.
    struct Outcome: Sendable {
        /// Nil if the purchase stays as due as it was: the question was not sent.
        let record: PurchaseRecord?
        /// What Google answered about the purchase, whether it was new or not; nil if it did not answer.
        var statement: PlayStatement?
        var snapshot: PurchaseSnapshot?
        /// By backend's customer: of those who handed the purchase in, whether they are linked to it.
        var links: [String: PurchaseLinks.Outcome] = [:]
        /// How long other questions about the app should wait.
        var pause = Duration.zero
    }

    /// Asks about a claimed purchase, stores the answer, and ends the claim. Safe to repeat.
    ///
    /// If the task is cancelled, the question is abandoned, or its answer is stored to the end.
    ///
    /// - Parameters:
    ///   - source: `googleDevice` for a purchase that a backend hands in.
    ///   - isProven: Whether Google signed the purchase that is handed in.
    /// - Throws: ``ReadError``, ``AppendError``. Then the purchase is due again when the claim ends.
    func ask(
        _ claim: ClaimedPurchase, of app: GoogleApp, priority: AskPriority = .check,
        source: EventSource = .googleAPI, isProven: Bool = false, withOrders: Bool = false
    ) async throws -> Outcome {
        guard let token = PurchaseToken(claim.purchaseToken) else {
            return try await end(claim, PurchaseRecord(askedAt: clock.date(), result: .refused))
        }
        let pending = try await queue.pendingNotifications(of: claim)
        let notices = try await notices(of: pending, claim, app)
        let subject = PlayStatement.Subject(
            packageName: app.packageName, purchaseToken: token, environment: claim.environment, notices: notices)
        let isStranger = !isProven && isStranger(claim, pending, app, source)
        let rank: AskPriority = isStranger ? (priority == .handIn ? .stranger : .strangerLater) : priority
        let (resource, outcome) = await question(token, claim, app, rank)
        if case .unavailable(.cancelled, _) = outcome {
            try await queue.release(claim)
            return Outcome(record: nil)
        }
        // A separate task: this one may be cancelled, and an answer that is there is stored nevertheless.
        return try await Task {
            try await settle(
                outcome, resource,
                Question(
                    claim: claim, app: app, token: token, subject: subject, isStranger: isStranger,
                    withOrders: withOrders, isHandIn: source == .googleDevice), pending, source)
        }.value
    }

    /// A question about a purchase.
    struct Question: Sendable {
        let claim: ClaimedPurchase
        let app: GoogleApp
        let token: PurchaseToken
        let subject: PlayStatement.Subject
        let isStranger: Bool
        /// Whether the orders that the answer names are asked about in any case: Google says nothing of a refund by amount.
        let withOrders: Bool
        /// Whether a customer waits for the answer about the purchase.
        let isHandIn: Bool
    }

    /// The notification of the log; nil if it says nothing about a purchase.
    static func notification(_ stored: PurchaseQueue.StoredNotification) -> DeveloperNotification? {
        guard let message = try? PushMessage(decoding: stored.body), !message.isAmbiguous else { return nil }
        return message.notification
    }

    /// Whether nothing proves that the purchase exists: Google has not answered about it, and no genuine push named it. Anyone
    /// can hand such purchases in.
    private func isStranger(
        _ claim: ClaimedPurchase, _ pending: [PurchaseQueue.StoredNotification], _ app: GoogleApp,
        _ source: EventSource
    ) -> Bool {
        guard claim.answerPosition == nil, claim.environment == nil else { return false }
        if app.play.pushAuthentication == .none { return true }
        let isNamed = claim.notification != nil || !pending.isEmpty
        return !isNamed && (source == .googleDevice || !claim.customerIds.isEmpty)
    }

    /// What the notifications say and the answer does not.
    ///
    /// Nothing, if anyone may have sent them: then only the answer and the list of voided purchases count, and the list is
    /// asked for soon after a void.
    private func notices(
        of pending: [PurchaseQueue.StoredNotification], _ claim: ClaimedPurchase, _ app: GoogleApp
    ) async throws -> [PurchaseFact] {
        guard app.play.pushAuthentication != .none else {
            let isVoided = pending.contains { stored in
                if case .voidedPurchase? = Self.notification(stored)?.content { true } else { false }
            }
            if isVoided { try await queue.requestVoids(of: app.packageName, at: clock.date()) }
            return []
        }
        let appended = try await appendVoids(pending, claim, app)
        return pending.filter { stored in !appended.contains { $0.position == stored.position } }
            .flatMap { Self.notification($0)?.facts ?? [] }
    }

    /// Appends what notifications say about voids of a purchase whose stream is known: it counts without an answer.
    ///
    /// - Returns: The notifications that events state now.
    private func appendVoids(
        _ pending: [PurchaseQueue.StoredNotification], _ claim: ClaimedPurchase, _ app: GoogleApp
    ) async throws -> [PurchaseQueue.StoredNotification] {
        guard let environment = claim.environment else { return [] }
        var appended: [PurchaseQueue.StoredNotification] = []
        for stored in pending {
            guard let notification = Self.notification(stored), case .voidedPurchase = notification.content,
                let statement = try? PlayStatement.voided(
                    by: notification, packageName: app.packageName, environment: environment,
                    answeredAt: stored.receivedAt)
            else { continue }
            // With the time of the notification, so that a repetition is a duplicate.
            _ = try await appender.append(PreparedEvent(statement, receivedAt: stored.receivedAt))
            appended.append(stored)
        }
        try await queue.remove(appended, of: claim)
        return appended
    }

    /// Asks the resource of the purchase. If it is not known which one that is, both are tried.
    private func question(
        _ token: PurchaseToken, _ claim: ClaimedPurchase, _ app: GoogleApp, _ priority: AskPriority
    ) async -> (PurchaseResource, GoogleOutcome) {
        func ask(_ resource: PurchaseResource) async -> GoogleOutcome {
            let request: PlayRequest =
                switch resource {
                case .subscription: .subscription(token, of: app.packageName)
                case .oneTime: .product(token, of: app.packageName)
                }
            return await client.ask(request, app: app, priority: priority, isScheduled: claim.rank == .scheduled)
        }
        let first = claim.resource ?? .subscription
        let outcome = await ask(first)
        guard claim.resource == nil, case .refused = outcome else { return (first, outcome) }
        let other = await ask(.oneTime)
        // The first refusal says more about a purchase that neither resource knows.
        if case .refused = other { return (first, outcome) }
        return (.oneTime, other)
    }

    // MARK: Outcomes

    private func settle(
        _ outcome: GoogleOutcome, _ resource: PurchaseResource, _ question: Question,
        _ pending: [PurchaseQueue.StoredNotification], _ source: EventSource
    ) async throws -> Outcome {
        let claim = question.claim
        switch outcome {
        case .answered(let answer): return try await keep(answer, resource, question, pending, source)
        case .refused(let refusal): return try await settle(refusal, question, pending)
        case .rejected(.credentials): return try await stop(.credentialsRejected, claim, Limits.keyRejectedPause)
        // Google may forbid a single purchase: then others go on.
        case .rejected(.permission): return try await stop(.forbidden, claim, client.isHeld(question.app) ?? .zero)
        case .unreadable: return try await end(claim, failure(.unreadable, claim))
        case .unavailable(let reason, let retryAfter):
            if reason == .budget || reason == .breakerOpen {
                // The share of strangers is used up, and others go on.
                if question.isStranger {
                    return try await end(claim, failure(.unavailable, claim, shortestPause: retryAfter))
                }
                // Not a failure of this purchase, which stays due.
                try await queue.release(claim)
                return Outcome(record: nil, pause: max(retryAfter, Limits.roundPauseMin))
            }
            return try await end(claim, failure(.unavailable, claim, shortestPause: retryAfter))
        }
    }

    private func keep(
        _ answer: GoogleAnswer, _ resource: PurchaseResource, _ question: Question,
        _ pending: [PurchaseQueue.StoredNotification], _ source: EventSource
    ) async throws -> Outcome {
        let (claim, app) = (question.claim, question.app)
        let asked: PlayResource = resource == .subscription ? .subscriptionV2 : .productV2
        guard
            let statement = try? PlayStatement.answer(
                answer.body, of: asked, about: question.subject, source: source, answeredAt: answer.answeredAt),
            let snapshot = statement.event.purchases.lazy.compactMap(\.snapshot).first
        else { return try await end(claim, failure(.unreadable, claim)) }
        let kept = try await news.append(statement, receivedAt: statement.answeredAt, after: claim.answerPosition)
        let position = kept.position
        var record = PurchaseRecord(askedAt: answer.answeredAt, result: position == nil ? .unchanged : .appended)
        record.position = position
        try await queue.remove(pending, of: claim)
        try await noticePredecessors(of: snapshot, app, at: answer.answeredAt)
        record.environment = statement.stream.environment
        record.resource = resource
        record.productId = snapshot.items.first?.productId
        record.status = Int32(clamping: answer.status)
        record.plannedAt = plannedAt(kept, statement, question.token)
        let again = check(snapshot, claim, at: answer.answeredAt, &record)
        // A customer who cannot be linked now is linked at the next question. Google refunds what is not acknowledged.
        var linked: [String: PurchaseLinks.Outcome] = [:]
        for customerId in claim.customerIds {
            do {
                linked[customerId] = try await links.link(
                    [statement.event], to: HandInCustomer(customerId, accountId: claim.accountIds[customerId]),
                    in: statement.stream)
            } catch {
                logger.warning(
                    "purchase not linked to who handed it in; it is linked at the next question",
                    metadata: ["stream.app": "\(claim.app)", "error": "\(error)"])
            }
        }
        record.settledCustomerIds = claim.customerIds.filter { linked[$0] != nil }
        record.acknowledgement = try await acknowledge(
            snapshot, question, in: statement.stream, at: answer.answeredAt)
        if case .pending = record.acknowledgement { record.failures = claim.failures + 1 }
        record.next = next(record, again)
        let orders = try await askAboutOrders(snapshot, question, in: statement.stream)
        if let position = orders.position {
            record.result = .appended
            record.position = position
        }
        if !orders.areKnown || linked.count < Set(claim.customerIds).count {
            record.failures = claim.failures + 1
            let pause = RepeatPause.purchase.pause(after: Int(record.failures), part: random())
            record.next = PurchaseRecord.Next(at: record.askedAt.advanced(by: pause), rank: .again)
        } else if orders.areForbidden, record.next == nil {
            record.next = PurchaseRecord.Next(
                at: record.askedAt.advanced(by: Limits.forbiddenOrdersPause), rank: .scheduled)
        }
        var outcome = try await end(claim, record)
        outcome.statement = statement
        outcome.snapshot = snapshot
        outcome.links = linked
        return outcome
    }

    /// Asks once about a purchase that another one names and that was never asked about.
    private func noticePredecessors(
        of snapshot: PurchaseSnapshot, _ app: GoogleApp, at now: Instant
    ) async throws(ReadError) {
        // The key of a long token is a digest, which cannot be asked about.
        let named = [snapshot.linkedPurchaseToken, snapshot.expiredPurchaseToken].compactMap(\.self)
            .filter { $0 != snapshot.purchaseToken && PurchaseToken($0)?.isLong == false && !$0.hasPrefix("sha256:") }
        try await queue.noticeUnknown(
            Set(named).sorted().map {
                PurchaseToAsk(
                    purchaseToken: $0, resource: snapshot.kind == .subscription ? .subscription : .oneTime,
                    noticedAt: now)
            }, of: app.packageName)
    }

    /// Whether the answer shows what the notification says. If not, it may be late.
    ///
    /// - Returns: When to ask again; nil if not because of that.
    private func check(
        _ snapshot: PurchaseSnapshot, _ claim: ClaimedPurchase, at now: Instant, _ record: inout PurchaseRecord
    ) -> Instant? {
        guard let notification = claim.notification, !notification.isMet(by: snapshot),
            // Much has happened since, or the notification is a repetition of an old one.
            notification.eventTime.duration(to: now) < Limits.staleAnswerAgeMax
        else {
            record.isMet = true
            return nil
        }
        guard Int(claim.mismatches) < Limits.staleAnswerPauses.count else {
            record.isMet = true
            metrics.noteStale()
            logger.error(
                "answers of Google Play do not show what a notification says",
                metadata: [
                    "stream.app": "\(claim.app)", "google.notification": "\(notification.type)",
                    "google.notification_time": "\(notification.eventTime)",
                    "google.state": "\(snapshot.state?.rawValue ?? "other")",
                ])
            return nil
        }
        record.mismatches = claim.mismatches + 1
        return now.advanced(by: Limits.staleAnswerPauses[Int(claim.mismatches)])
    }

    private func next(_ record: PurchaseRecord, _ again: Instant?) -> PurchaseRecord.Next? {
        if let again { return PurchaseRecord.Next(at: again, rank: .again) }
        if case .pending = record.acknowledgement {
            let pause = RepeatPause.purchase.pause(after: Int(record.failures), part: random())
            return PurchaseRecord.Next(at: record.askedAt.advanced(by: pause), rank: .again)
        }
        return nil
    }

    /// When the purchase is planned to be asked about after this answer; nil if it is not. If the answer became an event, the
    /// projector computes the same from its facts.
    private func plannedAt(
        _ kept: NewsAppender.Kept, _ statement: PlayStatement, _ token: PurchaseToken
    ) -> Instant? {
        let known = kept.before.first { $0.facts.originalTransactionId == token.key } ?? kept.before.first
        let facts = (known?.facts ?? SubscriptionFacts(originalTransactionId: token.key))
            .adding(statement.event, receivedAt: statement.answeredAt)
        let subscription = Subscription(facts, products: known?.products ?? .empty)
        let last = max(statement.answeredAt, subscription.reports.latestAt ?? statement.answeredAt)
        return subscription.nextCheck(after: last, policy: .standard.of(statement.stream.environment))?.dueAt
    }

    private func settle(
        _ refusal: PlayRefusal, _ question: Question, _ pending: [PurchaseQueue.StoredNotification]
    ) async throws -> Outcome {
        let claim = question.claim
        // Unless it is one of these, the token is of another app, or of nothing. It will not become one of the app.
        let result: PurchaseResult = refusal.kind == .notFound ? .notFound : refusal.kind == .gone ? .gone : .refused
        var record = PurchaseRecord(askedAt: clock.date(), result: result)
        record.status = Int32(clamping: refusal.httpStatus)
        guard result != .notFound else {
            record.failures = claim.failures + 1
            if Int(claim.failures) < Limits.unknownPurchasePauses.count {
                let pause = Limits.unknownPurchasePauses[Int(claim.failures)]
                record.next = PurchaseRecord.Next(at: record.askedAt.advanced(by: pause), rank: .again)
            }
            return try await end(claim, record)
        }
        record.isMet = true
        record.acknowledgement = .notNeeded
        record.settledCustomerIds = claim.customerIds
        if result == .gone {
            // Without a known stream there is nothing that it could end.
            if let statement = try? PlayStatement.gone(about: question.subject, answeredAt: record.askedAt) {
                _ = try await news.append(statement, receivedAt: record.askedAt, after: claim.answerPosition)
            }
            try await queue.remove(pending, of: claim)
        }
        return try await end(claim, record)
    }

    /// Records that the account cannot ask: the next question about the app would fail as well.
    /// - Parameter pause: Of the other questions about the app.
    private func stop(
        _ result: PurchaseResult, _ claim: ClaimedPurchase, _ pause: Duration
    ) async throws -> Outcome {
        var record = PurchaseRecord(askedAt: clock.date(), result: result)
        record.failures = claim.failures + 1
        record.next = PurchaseRecord.Next(
            at: record.askedAt.advanced(by: Limits.keyRejectedPause), rank: claim.rank)
        var outcome = try await end(claim, record)
        outcome.pause = pause
        return outcome
    }

    private func failure(
        _ result: PurchaseResult, _ claim: ClaimedPurchase, shortestPause: Duration = .zero
    ) -> PurchaseRecord {
        var record = PurchaseRecord(askedAt: clock.date(), result: result)
        record.failures = claim.failures + 1
        record.mismatches = claim.mismatches
        let pause = RepeatPause.purchase.pause(after: Int(record.failures), part: random())
        record.next = PurchaseRecord.Next(
            at: record.askedAt.advanced(by: max(shortestPause, pause)), rank: max(claim.rank, .again))
        return record
    }

    private func end(_ claim: ClaimedPurchase, _ record: PurchaseRecord) async throws(ReadError) -> Outcome {
        try await queue.record(record, of: claim)
        metrics.note(record.result, of: claim.app)
        var metadata: Logger.Metadata = ["stream.app": "\(claim.app)", "check.result": "\(record.result.rawValue)"]
        if let environment = record.environment { metadata["stream.environment"] = "\(environment.rawValue)" }
        if let position = record.position { metadata["event.position"] = "\(position)" }
        if let status = record.status { metadata["check.status"] = "\(status)" }
        let level: Logger.Level =
            switch record.result {
            case .unchanged, .appended: .debug
            case .unavailable, .notFound, .gone, .refused: .info
            case .credentialsRejected, .forbidden, .unreadable: .notice
            }
        logger.log(level: level, "purchase checked", metadata: metadata)
        return Outcome(record: record)
    }
}

extension PurchaseFact {
    fileprivate var snapshot: PurchaseSnapshot? {
        if case .snapshot(let snapshot) = self { snapshot } else { nil }
    }
}
