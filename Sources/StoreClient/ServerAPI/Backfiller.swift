import AppStore
import Encoding
import EventLog
import Readers
import Subscriptions

/// Reads the whole history of Apple Accounts from the App Store Server API: states, transactions, refunds, and the
/// notifications that Apple still has.
package struct Backfiller: Sendable {
    private let accounts: AccountReader
    private let client: ServerAPIClient
    private let verifier: NotificationVerifier
    private let histories: HistoryLog
    private let appender: Appender
    private let clock: StoreClock

    /// - Parameter log: With the rights of `subledger_poller`, as well as `histories` and `subscriptions`.
    package init(
        client: ServerAPIClient, verifier: NotificationVerifier, log: LogReader, histories: HistoryLog,
        subscriptions: SubscriptionReader, appender: Appender, clock: StoreClock
    ) {
        self.client = client
        self.verifier = verifier
        self.histories = histories
        self.appender = appender
        self.clock = clock
        accounts = AccountReader(
            client: client, verifier: verifier,
            news: NewsAppender(log: log, subscriptions: subscriptions, appender: appender), histories: histories,
            clock: clock)
    }

    package enum Outcome: Sendable, Hashable {
        /// Read now, with the number of new events.
        case read(events: Int)
        /// Read earlier, perhaps by another purchase of the account.
        case known
        /// No host knows the id.
        case notFound
        /// Apple refuses a question, or an answer is not verified.
        case refused
        case keyRejected
        /// No answer; how long to wait before asking again.
        case unavailable(Duration)
    }

    /// Reads the account of a purchase. Safe to repeat: what was read to its end is not read again.
    ///
    /// - Parameters:
    ///   - id: A `transactionId` or an `originalTransactionId`.
    ///   - app: Must have a key.
    ///   - environment: Nil if it is not known: production is asked first.
    ///   - priority: Of the calls.
    ///   - notificationsBefore: Later notifications are not read; nil to read all.
    /// - Throws: ``ReadError``, ``AppendError``.
    package func read(
        _ id: String, of app: App, in environment: Environment?, priority: AskPriority = .check,
        notificationsBefore: Instant? = nil
    ) async throws -> Outcome {
        let now = clock.date()
        let end = min(notificationsBefore ?? now, now)
        var outcome = Outcome.notFound
        for environment in environment.map({ [$0] }) ?? [.production, .sandbox] where outcome == .notFound {
            let stream = StreamKey(app: app.bundleId, environment: environment)
            outcome = try await read(id, of: app, in: stream, priority, notificationsUntil: end)
        }
        return outcome
    }

    private func read(
        _ id: String, of app: App, in stream: StreamKey, _ priority: AskPriority, notificationsUntil end: Instant
    ) async throws -> Outcome {
        let place = try await histories.place(of: id, in: stream)
        guard place.revision == nil, place.coveredSince == nil else { return .known }
        let notifications = try await readNotifications(id, of: app, in: stream, priority, until: end)
        guard case .success(let appended) = notifications else { return notifications.failure }
        let read = try await accounts.read(id, of: app, in: stream, priority: priority, includesRefunds: true)
        guard case .success(let account) = read else { return read.failure }
        return .read(events: appended + account.appended.count)
    }

    /// Takes in the notifications about the customer that Apple still has, like those that Apple posts.
    ///
    /// - Returns: The number of new ones.
    private func readNotifications(
        _ id: String, of app: App, in stream: StreamKey, _ priority: AskPriority, until end: Instant
    ) async throws -> Result<Int, AccountReader.Failure> {
        guard let host = ReceiptHost(environment: stream.environment) else { return .failure(.refused) }
        let start = clock.date().advanced(by: .zero - NotificationHistoryRequest.age(host))
        guard start < end else { return .success(0) }
        var appended = 0
        let failure = try await NotificationWalk(client: client).read(
            start..<end, of: app, on: host, transactionId: id, priority: priority
        ) { notifications in
            for notification in notifications {
                guard let isNew = try await append(notification.body, in: stream) else { return .refused }
                if isNew { appended += 1 }
            }
            return nil
        }
        if let failure { return .failure(failure) }
        return .success(appended)
    }

    /// Appends a notification unless it is in the log.
    ///
    /// - Returns: Whether it is new; nil if it is not genuine, or of another app or environment.
    private func append(_ body: [UInt8], in stream: StreamKey) async throws -> Bool? {
        let receivedAt = clock.date()
        guard let verified = try? await verifier.verify(fetched: body, receivedAt: receivedAt),
            verified.stream == stream
        else {
            return nil
        }
        return try await appender.append(PreparedEvent(verified, receivedAt: receivedAt)).isNew
    }
}

extension Result where Failure == AccountReader.Failure {
    fileprivate var failure: Backfiller.Outcome {
        switch self {
        case .success, .failure(.refused), .failure(.unreadable): .refused
        case .failure(.notFound): .notFound
        case .failure(.keyRejected): .keyRejected
        case .failure(.unavailable(_, let retryAfter)): .unavailable(retryAfter)
        }
    }
}
