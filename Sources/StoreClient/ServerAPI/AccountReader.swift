import AppStore
import Encoding
import EventLog
import Readers
import Subscriptions

/// Asks the App Store Server API about an Apple Account, by one of its purchases, and stores what it states: the current
/// state of all subscriptions, and all transactions that have changed since the last time.
struct AccountReader: Sendable {
    let client: ServerAPIClient
    let verifier: NotificationVerifier
    let news: NewsAppender
    let histories: HistoryLog
    let clock: StoreClock

    /// What was stored. All of it is in the log.
    struct Account: Sendable {
        /// The subscriptions of the answer, by `originalTransactionId`, with what was known of them before; nil for those
        /// that were not known.
        var subscriptions: [String: SubscriptionReader.Stored?] = [:]
        /// The events with news, in the order of their positions.
        var appended: [AppendedEvent] = []
    }

    /// Why nothing, or not all, was stored.
    enum Failure: Error, Sendable {
        case notFound
        case keyRejected
        /// Apple refuses the question, or a part of the answer is not verified.
        case refused
        case unreadable
        /// Also how long to wait before asking again.
        case unavailable(Unavailability, retryAfter: Duration)
    }

    /// Asks about the account and stores the news.
    ///
    /// Safe to repeat. After a failure it may have stored a part, and the next call continues.
    ///
    /// - Parameters:
    ///   - id: An `originalTransactionId`, or another id of a purchase.
    ///   - app: Must have a key.
    ///   - stream: Everything must belong to it.
    ///   - includesRefunds: Whether Apple is also asked for the account's refunds.
    /// - Throws: ``ReadError``, ``AppendError``.
    func read(
        _ id: String, of app: App, in stream: StreamKey, priority: AskPriority, includesRefunds: Bool = false
    ) async throws -> Result<Account, Failure> {
        guard let host = ReceiptHost(environment: stream.environment) else { return .failure(.refused) }
        let lines: [StatusesRequest.Line]
        switch Self.answer(await client.ask(StatusesRequest(id: id), app: app, host: host, priority: priority)) {
        case .success(let answer): lines = answer
        case .failure(let failure): return .failure(failure)
        }
        var account = Account()
        for line in lines {
            let kept = try await store(
                line.signedTransaction, line.signedRenewal, of: app.bundleId, in: stream, &account)
            if case .failure(let failure) = kept { return .failure(failure) }
        }
        let failure = try await readHistory(
            id, of: app, in: stream, host, priority, includesRefunds: includesRefunds, &account)
        if let failure { return .failure(failure) }
        return .success(account)
    }

    /// Walks the history from where it was left, and then the refunds.
    ///
    /// - Parameter includesRefunds: Whether Apple is also asked for the refunds, of accounts that may have some which no
    ///   transaction of the history shows: those with a refund, and those with a one-time purchase.
    private func readHistory(
        _ id: String, of app: App, in stream: StreamKey, _ host: ReceiptHost, _ priority: AskPriority,
        includesRefunds: Bool, _ account: inout Account
    ) async throws -> Failure? {
        let known = try await histories.place(of: id, in: stream).revision
        var bought: [String: Instant] = [:]
        let renewable = Transaction.ProductType.autoRenewable.rawValue
        var mayHaveOtherRefunds = false
        let history = try await walk(from: known, of: app, in: stream, host, priority, &account) { revision in
            TransactionHistoryRequest(id: id, revision: revision)
        } noting: { transaction in
            if transaction.revocationDate != nil || transaction.type != renewable { mayHaveOtherRefunds = true }
            guard let date = transaction.purchaseDate else { return }
            let id = transaction.originalTransactionId
            bought[id] = min(bought[id] ?? date, date)
        }
        guard case .success(let end) = history else { return history.failure }
        if includesRefunds, mayHaveOtherRefunds {
            let refunds = try await walk(from: nil, of: app, in: stream, host, priority, &account) { revision in
                RefundHistoryRequest(id: id, revision: revision)
            }
            if let failure = refunds.failure { return failure }
        }
        // Not while a walk from the beginning is unfinished: what it has read so far is not remembered.
        try await histories.record(revision: end.revision, of: id, in: stream)
        if end.begins { try await histories.cover(bought, in: stream) }
        return nil
    }

    /// Reads the pages of a list to its end, and stores what they state.
    ///
    /// - Parameters:
    ///   - revision: Where to go on; nil for the first page.
    ///   - request: The question for the page after a revision.
    ///   - note: Called for each transaction, again after the list begins again.
    /// - Returns: The revision at the end, and whether the first page was read.
    private func walk<Request: ServerAPIRequest>(
        from revision: String?, of app: App, in stream: StreamKey, _ host: ReceiptHost, _ priority: AskPriority,
        _ account: inout Account, _ request: (String?) -> Request, noting note: (Transaction) -> Void = { _ in }
    ) async throws -> Result<(revision: String, begins: Bool), Failure> where Request.Answer == TransactionPage {
        var revision = revision
        var begins = revision == nil
        var hasRestarted = false
        var emptyPages = 0
        while true {
            let outcome = await client.ask(request(revision), app: app, host: host, priority: priority)
            if case .refused(let refusal) = outcome, refusal.kind == .pageLost, !hasRestarted {
                (revision, begins, hasRestarted) = (nil, true, true)
                continue
            }
            let page: TransactionPage
            switch Self.answer(outcome) {
            case .success(let answer): page = answer
            case .failure(let failure): return .failure(failure)
            }
            for text in page.signedTransactions {
                switch try await store(text, nil, of: app.bundleId, in: stream, &account) {
                case .success(let transactions): transactions.forEach(note)
                case .failure(let failure): return .failure(failure)
                }
            }
            emptyPages = page.signedTransactions.isEmpty ? emptyPages + 1 : 0
            guard emptyPages <= Limits.emptyPagesMax else { return .failure(.unreadable) }
            revision = page.revision
            guard page.hasMore else { return .success((page.revision, begins)) }
        }
    }

    /// Verifies a transaction and stores it if it is news.
    private func store(
        _ signedTransaction: [UInt8], _ signedRenewal: [UInt8]?, of app: String, in stream: StreamKey,
        _ account: inout Account
    ) async throws -> Result<[Transaction], Failure> {
        let receivedAt = clock.date()
        let verified: VerifiedStatement
        do throws(StatementRefusal) {
            let statement = try SignedStatement(
                transaction: signedTransaction[...], renewal: signedRenewal?[...], source: .appleAPI)
            verified = try await verifier.verify(statement, of: app, receivedAt: receivedAt)
        } catch {
            if case .unverified(.revocationUnknown) = error.problem {
                return .failure(.unavailable(.temporaryStatus, retryAfter: Limits.unavailablePause))
            }
            return .failure(.refused)
        }
        guard verified.stream == stream else { return .failure(.refused) }
        let transactions = verified.event.transactions
        // What this walk has stored already is not projected yet.
        let isStored = account.appended.contains { stored in
            signedRenewal == nil && transactions.allSatisfy { stored.states($0) }
        }
        guard !isStored else { return .success(transactions) }
        // A separate task: this one may be cancelled, and what was answered is stored nevertheless.
        let kept = try await Task { [news] in
            try await news.append(verified, receivedAt: receivedAt, containsReceipt: false)
        }.value
        for id in kept.ids where account.subscriptions[id] == nil {
            account.subscriptions[id] = .some(kept.before.first { $0.facts.originalTransactionId == id })
        }
        if let position = kept.position {
            account.appended.append(
                AppendedEvent(event: verified.event, receivedAt: receivedAt, position: position))
        }
        return .success(transactions)
    }

    static func answer<Answer>(_ outcome: ServerAPIOutcome<Answer>) -> Result<Answer, Failure> {
        switch outcome {
        case .answered(let answer): .success(answer)
        case .refused(let refusal): .failure(refusal.kind == .notFound ? .notFound : .refused)
        case .rejected: .failure(.keyRejected)
        case .unreadable: .failure(.unreadable)
        case .unavailable(let reason, let retryAfter): .failure(.unavailable(reason, retryAfter: retryAfter))
        }
    }
}

extension Result where Failure == AccountReader.Failure {
    fileprivate var failure: AccountReader.Failure? {
        if case .failure(let failure) = self { failure } else { nil }
    }
}

/// An event that an answer became.
struct AppendedEvent: Sendable {
    let event: Event
    let receivedAt: Instant
    let position: Int64

    /// Whether the event is about a subscription.
    func concerns(_ originalTransactionId: String) -> Bool {
        event.subscriptions.contains(ByteString(originalTransactionId))
    }

    /// Whether the event has the same transaction, however it was signed.
    func states(_ transaction: Transaction) -> Bool {
        event.transactions.contains { stated in
            var unsigned = stated
            unsigned.signedDate = transaction.signedDate
            return unsigned == transaction
        }
    }
}
