import AppStore
import Encoding
import EventLog
import Logging
import Metrics
import Readers
import Subscriptions

/// Verifies and stores signed data of devices that backends hand in. Apple is asked only about purchases of which a
/// backend knows no more than an id.
package struct DeviceService: Sendable {
    private let verifier: NotificationVerifier
    private let apps: Set<String>
    private let lookup: TransactionLookup?
    private let news: NewsAppender
    private let purchases: PurchaseLinks
    private let log: LogReader
    private let clock: StoreClock
    private let metrics: DeviceMetrics
    private let logger: Logger

    /// Statements of one app and environment, verified.
    package struct Verified: Sendable {
        package let stream: StreamKey
        /// Not empty.
        package let statements: [VerifiedStatement]
        /// Our clock.
        package let receivedAt: Instant
    }

    /// What came of statements that were stored.
    package struct Outcome: Sendable {
        package let stream: StreamKey
        package let registration: HandIn.Registration
        /// Whether the customer was linked to the purchases; nil without a customer or a purchase.
        package let isLinked: Bool?
        /// `originalTransactionId`s, sorted by bytes.
        package let subscriptions: [String]
        /// The last position of an event with the statements; nil if they stated nothing new.
        package let position: Int64?
        /// The last position that readers should have seen: of an event, or of the customer's links.
        package let lastPosition: Int64?
    }

    /// - Parameters:
    ///   - lookup: Nil if Apple cannot be asked.
    ///   - log: With the rights of `subledger_reader`, as well as `subscriptions`.
    package init(
        verifier: NotificationVerifier, apps: Set<String>, lookup: TransactionLookup? = nil, log: LogReader,
        subscriptions: SubscriptionReader,
        appender: Appender, links: LinkService, clock: StoreClock,
        metrics factory: any MetricsFactory = MetricsSystem.factory, logger: Logger
    ) {
        self.verifier = verifier
        self.apps = apps
        self.lookup = lookup
        self.log = log
        self.clock = clock
        self.logger = logger
        news = NewsAppender(log: log, subscriptions: subscriptions, appender: appender)
        purchases = PurchaseLinks(log: log, links: links, clock: clock)
        metrics = DeviceMetrics(factory: factory)
    }

    /// Whether signed data of the app can be handed in.
    package func accepts(_ app: String) -> Bool { apps.contains(app) }

    /// Asks Apple about a purchase.
    ///
    /// - Parameters:
    ///   - id: A `transactionId` or an `originalTransactionId`.
    ///   - app: Must be accepted, see ``accepts(_:)``.
    /// - Returns: Not empty.
    package func find(
        _ id: String, of app: String
    ) async throws(TransactionLookup.Failure) -> [SignedStatement] {
        guard let lookup else { throw .noKey }
        return try await lookup.find(id, of: app)
    }

    /// Verifies statements; all or none is accepted.
    ///
    /// - Parameters:
    ///   - statements: Not empty.
    ///   - app: Must be accepted, see ``accepts(_:)``.
    package func verify(
        _ statements: [SignedStatement], of app: String
    ) async throws(StatementRefusal) -> Verified {
        precondition(!statements.isEmpty, "there is no statement")
        let receivedAt = clock.date()
        do throws(StatementRefusal) {
            var verified: [VerifiedStatement] = []
            for statement in statements {
                let next = try await verifier.verify(statement, of: app, receivedAt: receivedAt)
                guard next.stream == verified.first?.stream ?? next.stream else {
                    throw statement.refusal(.otherEnvironment)
                }
                verified.append(next)
            }
            return Verified(stream: verified[0].stream, statements: verified, receivedAt: receivedAt)
        } catch {
            note(refusal: error, app)
            throw error
        }
    }

    /// Appends the statements that state something new, and links their purchases to a customer.
    ///
    /// Durable when this returns. Safe to repeat: what was appended before states nothing new.
    ///
    /// - Parameter customerId: The backend's customer to link the purchases to; nil if there is none.
    /// - Throws: ``ReadError``, ``AppendError``. Some of the statements may be stored.
    package func store(_ verified: Verified, customerId: String?) async throws -> Outcome {
        // A separate task: if the caller is cancelled, purchases that were stored are linked nevertheless.
        try await Task { try await settle(verified, customerId: customerId) }.value
    }

    /// Waits for a limited time until a stream is folded up to a position; returns whether it is.
    package func isFolded(_ stream: StreamKey, through position: Int64) async throws -> Bool {
        try await log.isFolded(stream, through: position, waits: true, clock: clock)
    }

    /// Counts and logs a statement that was rejected.
    package func note(refusal: StatementRefusal, _ app: String) {
        metrics.noteRefusal()
        logger.notice(
            "signed data of a device rejected",
            metadata: ["stream.app": "\(app)", "device.problem": "\(refusal.label)"])
    }

    private func settle(_ verified: Verified, customerId: String?) async throws -> Outcome {
        var ids: Set<ByteString> = []
        var position: Int64?
        var isKnown = false
        for statement in verified.statements {
            let kept = try await news.append(statement, receivedAt: verified.receivedAt, containsReceipt: false)
            // What an earlier statement of the request stated may be projected by now.
            let wasKnown = kept.before.contains { !ids.contains(ByteString($0.subscription.originalTransactionId)) }
            ids.formUnion(statement.event.subscriptions)
            position = [position, kept.position].compactMap(\.self).max()
            isKnown = isKnown || wasKnown
            metrics.note(isNews: kept.position != nil)
        }
        var links = PurchaseLinks.Outcome()
        if let customerId {
            let events = verified.statements.map(\.event)
            // What Apple answers about an id is signed, but the sender of the id may have guessed it.
            links = try await purchases.link(
                events, to: customerId, in: verified.stream,
                basis: events.allSatisfy { $0.source == .appleDevice } ? .purchase : .id)
        }
        logger.info("signed data of a device accepted", metadata: Self.metadata(verified, position))
        return Outcome(
            stream: verified.stream,
            registration: links.isOfOtherCustomer ? .otherCustomer : isKnown ? .known : .new,
            isLinked: links.isLinked, subscriptions: ids.sorted().map(\.text), position: position,
            lastPosition: [position, links.position].compactMap(\.self).max())
    }

    private static func metadata(_ verified: Verified, _ position: Int64?) -> Logger.Metadata {
        var metadata: Logger.Metadata = [
            "stream.app": "\(verified.stream.app)",
            "stream.environment": "\(verified.stream.environment.rawValue)",
            "device.statements": "\(verified.statements.count)",
        ]
        if let position { metadata["event.position"] = "\(position)" }
        return metadata
    }
}
