import AppStore
import Encoding
import EventLog
import PlayStore
import Readers
import Subscriptions

/// Asks a store for the purchases of an order whose number a customer has, and stores what it answers.
///
/// Apple answers with signed transactions. Google names the purchase, which is then handed in like one of an app.
package struct OrderLookup: Sendable {
    private let client: ServerAPIClient
    private let google: GoogleClient
    private let verifier: NotificationVerifier?
    private let ledger: HandInLedger
    private let purchases: any HandInSource
    private let apps: [String: App]
    private let googleApps: [String: GoogleApp]
    private let clock: StoreClock

    /// - Parameters:
    ///   - verifier: Nil if no app of the App Store is configured.
    ///   - purchases: Takes the purchases of Google Play.
    ///   - apps: Those without a key are left out, as well as those of `googleApps` without credentials.
    ///   - log: With the rights of `subledger_reader`, as well as `subscriptions`.
    package init(
        client: ServerAPIClient, google: GoogleClient, verifier: NotificationVerifier?, purchases: any HandInSource,
        apps: [App], googleApps: [GoogleApp], log: LogReader, subscriptions: SubscriptionReader, appender: Appender,
        links: LinkService, clock: StoreClock
    ) {
        self.client = client
        self.google = google
        self.verifier = verifier
        self.purchases = purchases
        self.clock = clock
        ledger = HandInLedger(
            news: NewsAppender(log: log, subscriptions: subscriptions, appender: appender),
            links: PurchaseLinks(log: log, links: links, clock: clock))
        self.apps = Dictionary(apps.filter { $0.serverAPIKey != nil }.map { ($0.bundleId, $0) }) { $1 }
        self.googleApps = Dictionary(
            googleApps.filter { $0.credentials != nil }.map { ($0.packageName, $0) }
        ) { $1 }
    }

    /// The apps whose store can be asked about an order, sorted.
    package func apps(for number: OrderNumber) -> [String] {
        switch number.store {
        case .apple: apps.keys.sorted()
        case .google: googleApps.keys.sorted()
        }
    }

    /// Asks about an order of an app, and waits for its store at most ``Limits/handInWaitMax``, twice if the answer names a
    /// purchase. Safe to repeat: what was stored is no news then.
    ///
    /// - Parameter app: One of ``apps(for:)``.
    /// - Throws: ``ReadError``, ``AppendError``.
    package func find(_ number: OrderNumber, of app: String) async throws -> OrderOutcome {
        switch number.store {
        case .apple:
            guard let app = apps[app], let verifier else { preconditionFailure("the app has no key") }
            return try await find(number, of: app, verifier)
        case .google:
            guard let app = googleApps[app] else { preconditionFailure("the app has no credentials") }
            return try await find(number, of: app)
        }
    }

    private func find(
        _ number: OrderNumber, of app: App, _ verifier: NotificationVerifier
    ) async throws -> OrderOutcome {
        let outcome = try await clock.within(Limits.handInWaitMax) {
            await client.ask(
                OrderLookupRequest(orderId: number.text), app: app, host: .production, priority: .handIn)
        }
        let signed: [[UInt8]]
        switch outcome {
        case .answered(.valid(let transactions)): signed = transactions
        case .answered(.invalid): return .notOfApp
        case .refused: return .refused
        case .rejected: return .keyRejected
        case .unreadable, .unavailable, nil: return .unavailable
        }
        let receivedAt = clock.date()
        var verified: [VerifiedStatement] = []
        do throws(StatementRefusal) {
            for text in signed {
                let statement = try SignedStatement(transaction: text[...], source: .appleAPI)
                verified.append(try await verifier.verify(statement, of: app.bundleId, receivedAt: receivedAt))
            }
        } catch {
            if case .unverified(.revocationUnknown) = error.problem { return .unavailable }
            return .unverified
        }
        let stream = StreamKey(app: app.bundleId, environment: .production)
        guard verified.allSatisfy({ $0.stream == stream }) else { return .unverified }
        // A separate task: the caller may have been cancelled, and what was answered is stored nevertheless.
        var answer = try await Task { [ledger, verified] in
            try await ledger.keep(verified, receivedAt: receivedAt, to: nil)
        }.value
        for transaction in verified.flatMap(\.event.transactions) {
            answer.transactionIds[transaction.originalTransactionId, default: []].append(transaction.transactionId)
        }
        return .found(answer)
    }

    private func find(_ number: OrderNumber, of app: GoogleApp) async throws -> OrderOutcome {
        let token: PurchaseToken
        let purchase = try await clock.within(Limits.handInWaitMax) {
            await google.purchase(ofOrder: number.text, of: app, priority: .handIn)
        }
        switch purchase {
        case .purchase(let named): token = named
        case .unnamed: return .noPurchase
        case .unknown: return .notOfApp
        case .refused: return .refused
        case .credentialsRejected: return .keyRejected
        case .unavailable, nil: return .unavailable
        }
        var writer = JSONWriter()
        writer.object { $0.member("purchaseToken", token.text) }
        do {
            let result = try await purchases.handIn(
                HandInRequest(
                    app: app.packageName, customerId: nil, body: try JSONDocument(writer.bytes).root, isOfApp: false
                ) { _, _ in })
            if case .answered(let answer) = result { return .found(answer) }
            return .pending
        } catch let refusal as HandInRefusal {
            return refusal.kind == .unavailable ? .unavailable : .refused
        }
    }
}
