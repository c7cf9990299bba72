import Encoding
import EventLog
import Logging
import Metrics
import PlayStore
import Readers
import Subscriptions

/// Asks Google Play about purchases that backends hand in, stores what it answers, and links them to customers.
package struct PurchaseHandIn: Sendable {
    private let apps: [String: GoogleApp]
    private let asker: PurchaseAsker
    private let queue: PurchaseQueue
    private let purchases: PurchaseLinks
    private let log: LogReader
    private let clock: StoreClock

    /// A purchase as an app has it.
    package enum Handed: Sendable {
        case token(PurchaseToken, productId: String?)
        /// The text that Google Play signed, exactly as the app got it, and the base64 of the signature.
        case signed([UInt8], signature: String)
    }

    package enum Verdict: Sendable {
        case answered(Answer)
        /// The purchase is stored and asked about until there is an answer.
        case pending
        case refused(Refusal)
        /// The account may not ask Google. An operator must look; the purchase stays due.
        case accountRejected
    }

    /// Why a purchase is not one of the app.
    package enum Refusal: Sendable, Hashable, CustomStringConvertible {
        case signature(SignedPurchaseRefusal)
        /// The app has no license key, so signed purchases cannot be checked.
        case noLicenseKey
        case notFound
        case gone
        case wrong

        package var description: String {
            switch self {
            case .signature(let refusal): refusal.description
            case .noLicenseKey: "signed purchases of this app cannot be checked: it has no licenseKey"
            case .notFound: "Google Play does not know the purchase"
            case .gone: "Google Play no longer answers about the purchase"
            case .wrong: "the purchase is not one of this app"
            }
        }
    }

    /// What Google Play answered, which is in the log.
    package struct Answer: Sendable {
        package let stream: StreamKey
        package let registration: HandIn.Registration
        /// Whether the customer was linked to the purchase; nil without a customer.
        package let isLinked: Bool?
        /// Google's word for its state.
        package let state: String
        package let subscriptions: [String]
        /// The position of the event that the answer became; nil if it stated nothing new.
        package let position: Int64?
        /// The last position that readers should have seen.
        package let lastPosition: Int64?
    }

    /// - Parameters:
    ///   - apps: Those without credentials are left out.
    ///   - queue: With the rights of `subledger_receiver`.
    ///   - log: With the rights of `subledger_reader`, as well as `subscriptions`.
    package init(
        client: GoogleClient, apps: [GoogleApp], queue: PurchaseQueue, log: LogReader,
        subscriptions: SubscriptionReader, appender: Appender, links: LinkService, clock: StoreClock,
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) },
        metrics factory: any MetricsFactory = MetricsSystem.factory, logger: Logger
    ) {
        let asked = apps.filter { $0.credentials != nil }
        self.apps = Dictionary(asked.map { ($0.packageName, $0) }) { $1 }
        self.queue = queue
        self.log = log
        self.clock = clock
        purchases = PurchaseLinks(log: log, links: links, clock: clock)
        asker = PurchaseAsker(
            client: client, queue: queue, appender: appender,
            news: NewsAppender(log: log, subscriptions: subscriptions, appender: appender), links: purchases,
            clock: clock, random: random,
            metrics: PurchaseMetrics(apps: asked.map(\.packageName), factory: factory), logger: logger)
    }

    /// Whether purchases of the app can be handed in.
    package func accepts(_ app: String) -> Bool { apps[app] != nil }

    /// Stores a purchase, asks Google Play about it, and stores the answer.
    ///
    /// Durable when this returns, also if there is no answer yet: then the customer is linked after a later one. Safe to
    /// repeat.
    ///
    /// - Parameters:
    ///   - app: Must be accepted, see ``accepts(_:)``.
    ///   - customerId: The backend's customer to link the purchase to; nil if there is none.
    /// - Throws: ``ReadError``, ``AppendError``. The purchase may be stored.
    package func handIn(_ handed: Handed, app: String, customerId: String?) async throws -> Verdict {
        guard let app = apps[app] else { preconditionFailure("the app is not configured") }
        let purchase: (token: PurchaseToken, productId: String?)
        var isProven = false
        switch handed {
        case .token(let token, let productId): purchase = (token, productId)
        case .signed(let text, let signature):
            guard let key = app.licenseKey.flatMap({ try? PlayLicenseKey(base64: $0) }) else {
                return .refused(.noLicenseKey)
            }
            do throws(SignedPurchaseRefusal) {
                let signed = try key.verify(text, signature: signature, packageName: app.packageName)
                purchase = (signed.purchaseToken, signed.productId)
                isProven = true
            } catch {
                return .refused(.signature(error))
            }
        }
        try await queue.notice(
            [
                PurchaseToAsk(
                    purchaseToken: purchase.token.text, productId: purchase.productId, customerId: customerId,
                    noticedAt: clock.date())
            ], of: app.packageName)
        let token = purchase.token
        let outcome = try await withThrowingTaskGroup(of: Asked?.self) { group in
            group.addTask { [isProven] in try await ask(token, app, isProven: isProven) }
            group.addTask {
                try? await clock.sleep(clock.now() + Limits.handInWaitMax)
                return nil
            }
            defer { group.cancelAll() }
            return try await group.next() ?? nil
        }
        guard let outcome else { return .pending }
        // A separate task: the caller may have been cancelled, and a purchase that was stored is linked nevertheless.
        return try await Task { try await settle(outcome, token, app, customerId: customerId) }.value
    }

    /// Waits for a limited time until a stream is folded up to a position; returns whether it is.
    package func isFolded(_ stream: StreamKey, through position: Int64) async throws -> Bool {
        try await log.isFolded(stream, through: position, waits: true, clock: clock)
    }

    private struct Asked: Sendable {
        let wasKnown: Bool
        let outcome: PurchaseAsker.Outcome
    }

    /// Asks about a purchase, once no other process does.
    private func ask(_ token: PurchaseToken, _ app: GoogleApp, isProven: Bool) async throws -> Asked {
        while true {
            try Task.checkCancellation()
            let now = clock.date()
            let claim = try await queue.claim(
                token.text, of: app.packageName, at: now, until: now.advanced(by: Limits.purchaseClaimMax))
            if let claim {
                let outcome = try await asker.ask(
                    claim, of: app, priority: .handIn, source: .googleDevice, isProven: isProven)
                return Asked(wasKnown: claim.answerPosition != nil, outcome: outcome)
            }
            try await clock.sleep(clock.now() + Limits.handInLookInterval)
        }
    }

    private func settle(
        _ asked: Asked, _ token: PurchaseToken, _ app: GoogleApp, customerId: String?
    ) async throws -> Verdict {
        switch asked.outcome.record?.result {
        case .appended, .unchanged: break
        case .notFound: return .refused(.notFound)
        case .gone: return .refused(.gone)
        case .refused: return .refused(.wrong)
        case .credentialsRejected, .forbidden: return .accountRejected
        case .unreadable, .unavailable, nil: return .pending
        }
        guard let statement = asked.outcome.statement, let snapshot = asked.outcome.snapshot else { return .pending }
        var links = PurchaseLinks.Outcome()
        if let customerId {
            // An earlier question may have linked the customer, between the notice and the claim.
            links =
                if let linked = asked.outcome.links[customerId] {
                    linked
                } else {
                    try await purchases.link([statement.event], to: customerId, in: statement.stream)
                }
        }
        let position = asked.outcome.record?.position
        return .answered(
            Answer(
                stream: statement.stream,
                registration: links.isOfOtherCustomer ? .otherCustomer : asked.wasKnown ? .known : .new,
                isLinked: links.isLinked,
                state: snapshot.stateName, subscriptions: [token.key], position: position,
                lastPosition: [position, links.position].compactMap(\.self).max()))
    }
}
