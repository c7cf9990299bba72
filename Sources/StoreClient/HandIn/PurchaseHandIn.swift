import Encoding
import EventLog
import Logging
import Metrics
import PlayStore
import Readers
import Subscriptions

/// Purchases of Google Play, as their tokens or as the texts that Google Play signed for the app: Google is asked about each,
/// until it answers.
package struct PurchaseHandIn: HandInSource {
    private let apps: [String: GoogleApp]
    private let asker: PurchaseAsker
    private let queue: PurchaseQueue
    private let purchases: PurchaseLinks
    private let clock: StoreClock
    private let unanswered: UnansweredPurchases
    private let customers = AskingCustomers()

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
        self.clock = clock
        unanswered = UnansweredPurchases(queue: queue, clock: clock)
        purchases = PurchaseLinks(log: log, links: links, clock: clock)
        asker = PurchaseAsker(
            client: client, queue: queue, appender: appender,
            news: NewsAppender(log: log, subscriptions: subscriptions, appender: appender), links: purchases,
            clock: clock, random: random,
            metrics: PurchaseMetrics(apps: asked.map(\.packageName), factory: factory), logger: logger)
    }

    package func accepts(_ app: String) -> Bool { apps[app] != nil }

    /// If there is no answer yet, the customer is linked after a later one.
    package func handIn(_ request: HandInRequest) async throws -> HandInResult {
        guard let app = apps[request.app] else { preconditionFailure("the app is not configured") }
        let purchase = try request.purchase(of: app)
        let customer = try request.customer("obfuscatedAccountId")
        if !purchase.isProven, try await unanswered.areTooMany(of: app.packageName),
            try await queue.find(purchase.token.text, of: app.packageName) == nil
        {
            throw HandInRefusal(.unavailable, "too many purchases of this app wait for Google's first answer")
        }
        try await request.admitMove([purchase.token.key])
        try await queue.notice(
            [
                PurchaseToAsk(
                    purchaseToken: purchase.token.text, productId: purchase.productId, customerId: customer?.id,
                    accountId: customer?.accountId, noticedAt: clock.date())
            ], of: app.packageName, as: purchase.isProven ? .notice : .again)
        let token = purchase.token
        let asking = purchase.isProven ? nil : AskingCustomers.Key(app: app.packageName, customerId: customer?.id)
        if let asking, !customers.enter(asking, token.text) { return .pending }
        defer { if let asking { customers.leave(asking, token.text) } }
        let outcome = try await clock.within(Limits.handInWaitMax) {
            try await ask(token, app) { claim in
                try await asker.ask(
                    claim, of: app, priority: .handIn, source: .googleDevice, isProven: purchase.isProven)
            }
        }
        guard let outcome else { return .pending }
        // A separate task: the caller may have been cancelled, and a purchase that was stored is linked nevertheless.
        return try await Task { try await settle(outcome, token, app, customer) }.value
    }

    /// What came of ``checkNow(_:of:)``.
    package enum Checked: Sendable {
        case unknown
        /// The app's budget is used up, Google has just failed or answers slowly, or another process is asking: the
        /// purchase stays as due as it was.
        case notAsked
        case asked(PurchaseRecord)
    }

    /// Asks about a known purchase and its latest orders now, whether it is due or not, and waits at most
    /// ``Limits/handInWaitMax``. Safe to repeat.
    ///
    /// - Throws: ``ReadError``, ``AppendError``.
    package func checkNow(_ token: PurchaseToken, of app: GoogleApp) async throws -> Checked {
        guard try await queue.find(token.text, of: app.packageName) != nil else { return .unknown }
        let asked = try await clock.within(Limits.handInWaitMax) {
            try await ask(token, app) { claim in
                try await asker.ask(claim, of: app, isProven: true, withOrders: true)
            }
        }
        return asked?.outcome.record.map(Checked.asked) ?? .notAsked
    }

    private struct Asked: Sendable {
        let wasKnown: Bool
        let outcome: PurchaseAsker.Outcome
    }

    /// Asks about a purchase, once no other process does.
    private func ask(
        _ token: PurchaseToken, _ app: GoogleApp, _ question: (ClaimedPurchase) async throws -> PurchaseAsker.Outcome
    ) async throws -> Asked {
        while true {
            try Task.checkCancellation()
            let now = clock.date()
            let claim = try await queue.claim(
                token.text, of: app.packageName, at: now, until: now.advanced(by: Limits.purchaseClaimMax))
            if let claim {
                return Asked(wasKnown: claim.answerPosition != nil, outcome: try await question(claim))
            }
            try await clock.sleep(clock.now() + Limits.handInLookInterval)
        }
    }

    private func settle(
        _ asked: Asked, _ token: PurchaseToken, _ app: GoogleApp, _ customer: HandInCustomer?
    ) async throws -> HandInResult {
        switch asked.outcome.record?.result {
        case .appended, .unchanged: break
        case .notFound:
            throw HandInRefusal(.refused, "Google Play does not know the purchase", field: "purchaseToken")
        case .gone:
            throw HandInRefusal(.refused, "Google Play no longer answers about the purchase", field: "purchaseToken")
        case .refused: throw HandInRefusal(.refused, "the purchase is not one of this app", field: "purchaseToken")
        case .credentialsRejected, .forbidden:
            // The operator finds the alarm in the log. The purchase stays due.
            throw HandInRefusal(.unavailable, "purchases of this app cannot be checked: see the server log")
        case .unreadable, .unavailable, nil: return .pending
        }
        guard let statement = asked.outcome.statement, let snapshot = asked.outcome.snapshot else { return .pending }
        var answer = HandInAnswer(
            stream: statement.stream, registration: asked.wasKnown ? .known : .new, subscriptions: [token.key],
            position: asked.outcome.record?.position)
        answer.storeState = snapshot.stateName
        if let customer {
            // An earlier question may have linked the customer, between the notice and the claim.
            if let linked = asked.outcome.links[customer.id] {
                answer.note(linked)
            } else {
                answer.note(try await purchases.link([statement.event], to: customer, in: statement.stream))
            }
        }
        return .answered(answer)
    }
}

extension HandInRequest {
    /// A purchase as an app has it, and whether Google signed it.
    fileprivate func purchase(
        of app: GoogleApp
    ) throws(HandInRefusal) -> (token: PurchaseToken, productId: String?, isProven: Bool) {
        let (token, signed) = (try text("purchaseToken"), try text("signedPurchase"))
        switch (token, signed) {
        case (let token?, nil):
            guard let purchaseToken = PurchaseToken(token) else {
                throw HandInRefusal(
                    .malformed, "purchaseToken must be a token of visible ASCII characters", field: "purchaseToken")
            }
            return (purchaseToken, try text("productId"), false)
        case (nil, let signed?):
            guard let signature = try text("signature") else {
                throw HandInRefusal(.malformed, "signature must be a string with base64", field: "signature")
            }
            guard let key = app.licenseKey.flatMap({ try? PlayLicenseKey(base64: $0) }) else {
                throw HandInRefusal(
                    .refused, "signed purchases of this app cannot be checked: it has no licenseKey",
                    field: "signedPurchase")
            }
            do throws(SignedPurchaseRefusal) {
                let purchase = try key.verify(Array(signed.utf8), signature: signature, packageName: app.packageName)
                return (purchase.purchaseToken, purchase.productId, true)
            } catch {
                throw HandInRefusal(
                    .refused, error.description, field: error == .signature ? "signature" : "signedPurchase")
            }
        default:
            throw HandInRefusal(
                .malformed, "purchaseToken must be a string, or signedPurchase and signature must be",
                field: "purchaseToken")
        }
    }
}
