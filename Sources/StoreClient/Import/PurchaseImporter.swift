import AppStore
import Encoding
import EventLog
import PlayStore
import Subscriptions

/// Takes the purchases of a backend's customers from another service: by the links, the hand-ins and the queue of questions
/// that there are for single ones.
///
/// Links and tokens are only stored, so that the stores are asked about them by the server, within their budgets. The others
/// are asked about at once, with the share of hand-ins.
package struct PurchaseImporter: PurchaseImport {
    private let links: LinkService
    private let handIns: (transactions: (any HandInSource)?, receipts: (any HandInSource)?)
    private let queue: PurchaseQueue
    private let client: GoogleClient
    private let appleApps: Set<String>
    private let googleApps: [String: GoogleApp]
    private let clock: StoreClock

    /// - Parameters:
    ///   - links: Of all apps.
    ///   - transactions: Nil if no app of the App Store is configured, as well as `receipts`.
    ///   - queue: With the rights of `subledger_receiver`.
    ///   - googleApps: Those without credentials are left out.
    package init(
        links: LinkService, transactions: (any HandInSource)?, receipts: (any HandInSource)?, queue: PurchaseQueue,
        client: GoogleClient, appleApps: some Sequence<String>, googleApps: [GoogleApp], clock: StoreClock
    ) {
        self.links = links
        handIns = (transactions, receipts)
        self.queue = queue
        self.client = client
        self.appleApps = Set(appleApps)
        self.googleApps = Dictionary(
            googleApps.filter { $0.credentials != nil }.map { ($0.packageName, $0) }
        ) { $1 }
        self.clock = clock
    }

    package func take(
        _ rows: [ImportRow], until end: ContinuousClock.Instant
    ) async throws -> [ImportOutcome] {
        let tokens = try await tokens(ofOrdersIn: rows, until: end)
        var outcomes: [ImportOutcome] = []
        for wave in Self.waves(rows) {
            let new = try await takeUnseen(wave.firsts)
            let taken = try await each(wave.firsts, atOnce: Limits.importRowsAtOnce) { row -> ImportOutcome in
                if new.contains(row) { return .taken }
                return try await take(row, tokens, until: end)
            }
            outcomes += wave.places.map { place in
                let outcome = taken[place.index]
                return place.isRepeat && outcome == .taken ? .known : outcome
            }
        }
        return outcomes
    }

    // MARK: - Order

    /// Rows that can be taken at once: none names the purchase of another one for another customer.
    private struct Wave {
        var firsts: [ImportRow] = []
        /// For each row of the file: that of ``firsts`` with the same content, and whether it repeats it.
        var places: [(index: Int, isRepeat: Bool)] = []
        var indices: [ImportRow: Int] = [:]
        var customers: [ImportRow.Purchase: String] = [:]
    }

    private static func waves(_ rows: [ImportRow]) -> [Wave] {
        var waves = [Wave()]
        for row in rows {
            let purchase = row.purchase
            var wave = waves.removeLast()
            if let customer = wave.customers[purchase], customer != row.customerId {
                waves.append(wave)
                wave = Wave()
            }
            wave.customers[purchase] = row.customerId
            if let index = wave.indices[row] {
                wave.places.append((index, true))
            } else {
                wave.indices[row] = wave.firsts.count
                wave.places.append((wave.firsts.count, false))
                wave.firsts.append(row)
            }
            waves.append(wave)
        }
        return waves
    }

    /// Runs the body for each element, several at once, and returns what it returned in their order.
    private func each<Element: Sendable, Value: Sendable>(
        _ elements: [Element], atOnce: Int, _ body: @escaping @Sendable (Element) async throws -> Value
    ) async throws -> [Value] {
        try await withThrowingTaskGroup(of: (Int, Value).self) { group in
            var values = [Value?](repeating: nil, count: elements.count)
            for (index, element) in elements.enumerated() {
                if index >= atOnce, let (done, value) = try await group.next() { values[done] = value }
                group.addTask { (index, try await body(element)) }
            }
            while let (done, value) = try await group.next() { values[done] = value }
            return values.compactMap(\.self)
        }
    }

    // MARK: - Rows that nothing is known of

    /// Takes those rows together of whose purchases nothing is known: one look for all of them is what makes an import into an
    /// empty server quick.
    ///
    /// - Returns: What was taken. The other rows need a look of their own.
    private func takeUnseen(_ rows: [ImportRow]) async throws -> Set<ImportRow> {
        var linked: [StreamKey: [(row: ImportRow, key: CustomerKey)]] = [:]
        var asked: [String: [(row: ImportRow, token: PurchaseToken)]] = [:]
        for row in rows {
            switch row.proof {
            case .originalTransactionId(let id) where appleApps.contains(row.app):
                linked[StreamKey(app: row.app, environment: row.environment), default: []]
                    .append((row, CustomerKey(.subscription, id)))
            case .purchaseToken(let text) where googleApps[row.app] != nil:
                if let token = PurchaseToken(text) { asked[row.app, default: []].append((row, token)) }
            default: continue
            }
        }
        var taken: Set<ImportRow> = []
        for (stream, purchases) in linked {
            let isStated = try await links.addUnseen(
                purchases.map { ($0.key, $0.row.customerId) }, basis: .statement, in: stream, receivedAt: clock.date())
            for (purchase, isStated) in zip(purchases, isStated) where isStated { taken.insert(purchase.row) }
        }
        for (app, purchases) in asked {
            var unknown = try await queue.unknown(purchases.map(\.token.text), of: app)
            // Of several rows about one purchase, only the first.
            let first = purchases.filter { unknown.remove($0.token.text) != nil }
            try await queue.notice(first.map { toAsk($0.token, $0.row) }, of: app, as: .scheduled)
            taken.formUnion(first.map(\.row))
        }
        return taken
    }

    private func toAsk(_ token: PurchaseToken, _ row: ImportRow) -> PurchaseToAsk {
        PurchaseToAsk(
            purchaseToken: token.text, productId: row.productId, customerId: row.customerId, noticedAt: clock.date())
    }

    // MARK: - Rows

    private typealias Tokens = [ImportRow.Purchase: Result<PurchaseToken, Refused>]

    private struct Refused: Error {
        let outcome: ImportOutcome
    }

    private func take(
        _ row: ImportRow, _ tokens: Tokens, until end: ContinuousClock.Instant
    ) async throws -> ImportOutcome {
        guard row.proof.isOfGooglePlay ? googleApps[row.app] != nil : appleApps.contains(row.app) else {
            return .refused(
                row.proof.isOfGooglePlay
                    ? "app is not configured with credentials for Google Play" : "app is not configured")
        }
        switch row.proof {
        case .originalTransactionId(let id):
            return try await link(id, to: row.customerId, in: StreamKey(app: row.app, environment: row.environment))
        case .purchaseToken(let text):
            guard let token = PurchaseToken(text) else {
                return .refused("purchaseToken must be a token of visible ASCII characters")
            }
            return try await take(token, row)
        case .orderId:
            switch tokens[row.purchase] {
            case .success(let token): return try await take(token, row)
            case .failure(let refused): return refused.outcome
            case nil: return .unavailable("not asked yet")
            }
        case .transactionId(let id):
            return try await handIn("transactionId", id, row, to: handIns.transactions, until: end)
        case .signedTransaction(let text):
            return try await handIn("signedTransaction", text, row, to: handIns.transactions)
        case .receipt(let text): return try await handIn("receipt", text, row, to: handIns.receipts, until: end)
        }
    }

    private func link(_ id: String, to customerId: String, in stream: StreamKey) async throws -> ImportOutcome {
        let outcome = try await links.add(
            [CustomerKey(.subscription, id)], to: customerId, basis: .statement, handingIn: [], in: stream,
            receivedAt: clock.date())
        switch outcome {
        case .stated(_, let isNew): return isNew ? .taken : .known
        case .contested: return .refused(Self.ownedByAnother)
        }
    }

    private static let ownedByAnother = "the purchase belongs to another customer"

    /// A purchase about which Google has answered is linked; any other is asked about by the server, and linked then.
    private func take(_ token: PurchaseToken, _ row: ImportRow) async throws -> ImportOutcome {
        let known = try await queue.find(token.text, of: row.app)
        if let known, known.answerPosition != nil, let environment = known.environment {
            return try await link(
                token.key, to: row.customerId, in: StreamKey(app: row.app, environment: environment))
        }
        if let known, known.customerIds.last == row.customerId { return .known }
        try await queue.notice([toAsk(token, row)], of: row.app, as: .scheduled)
        return .taken
    }

    /// - Parameter end: Nil if no store is asked.
    private func handIn(
        _ field: StaticString, _ text: String, _ row: ImportRow, to source: (any HandInSource)?,
        until end: ContinuousClock.Instant? = nil
    ) async throws -> ImportOutcome {
        guard let source, source.accepts(row.app) else { return .refused("\(field) of this app cannot be handed in") }
        if let end, ContinuousClock.now >= end { return .unavailable("not asked yet") }
        var writer = JSONWriter()
        writer.object { $0.member(field, text) }
        do {
            let result = try await source.handIn(
                HandInRequest(
                    app: row.app, customerId: row.customerId, body: try JSONDocument(writer.bytes).root, isOfApp: false
                ) { stream, _ in
                    guard !stream.environment.isLocal else {
                        throw HandInRefusal(.refused, "the purchase was made in a local environment")
                    }
                })
            switch result {
            case .pending, .receipt: break
            case .answered(let answer):
                if answer.isLinked == false { return .refused(Self.ownedByAnother) }
                return answer.position == nil && answer.registration == .known ? .known : .taken
            }
            if case .receipt(let receipt) = result, receipt.state == .refused {
                return .refused("the receipt is refused: \(receipt.findings.problem ?? "unknown")")
            }
            return .taken
        } catch let refusal as HandInRefusal {
            return refusal.kind == .unavailable
                ? .unavailable(refusal.description) : .refused(refusal.description)
        }
    }

    // MARK: - Orders

    /// Asks Google for the purchases of orders, each once.
    private func tokens(ofOrdersIn rows: [ImportRow], until end: ContinuousClock.Instant) async throws -> Tokens {
        let orders = Set(
            rows.compactMap { row -> ImportRow.Purchase? in
                guard case .orderId = row.proof, googleApps[row.app] != nil else { return nil }
                return row.purchase
            })
        let batches = Dictionary(grouping: orders, by: \.app).values.flatMap { orders in
            stride(from: 0, to: orders.count, by: Limits.importOrdersAtOnce).map { start in
                Array(orders[start..<min(start + Limits.importOrdersAtOnce, orders.count)])
            }
        }
        let asked = try await each(batches, atOnce: Limits.importQuestionsAtOnce) { await tokens(of: $0, until: end) }
        return Dictionary(uniqueKeysWithValues: asked.joined())
    }

    /// Asks for the purchases of orders of one app together, and then for each alone of which the answer says nothing.
    private func tokens(
        of orders: [ImportRow.Purchase], until end: ContinuousClock.Instant
    ) async -> [(ImportRow.Purchase, Result<PurchaseToken, Refused>)] {
        var known: [String: GoogleClient.OrderedPurchase] = [:]
        let ids = Set(orders.compactMap(\.orderId)).sorted()
        if ids.count > 1, let app = googleApps[orders[0].app], ContinuousClock.now < end {
            known = await client.purchases(ofOrders: ids, of: app, priority: .backfill)
        }
        var tokens: [(ImportRow.Purchase, Result<PurchaseToken, Refused>)] = []
        for order in orders {
            if let purchase = order.orderId.flatMap({ known[$0] }) {
                tokens.append((order, Self.token(of: purchase)))
            } else {
                tokens.append((order, await token(of: order, until: end)))
            }
        }
        return tokens
    }

    private func token(
        of order: ImportRow.Purchase, until end: ContinuousClock.Instant
    ) async -> Result<PurchaseToken, Refused> {
        guard let id = order.orderId, let app = googleApps[order.app], ContinuousClock.now < end else {
            return .failure(Refused(outcome: .unavailable("not asked yet")))
        }
        return Self.token(of: await client.purchase(ofOrder: id, of: app, priority: .backfill))
    }

    private static func token(of purchase: GoogleClient.OrderedPurchase) -> Result<PurchaseToken, Refused> {
        switch purchase {
        case .purchase(let token): .success(token)
        case .unnamed: .failure(Refused(outcome: .refused("Google Play states no purchase of this order")))
        case .unknown: .failure(Refused(outcome: .refused("Google Play does not know this order")))
        case .refused: .failure(Refused(outcome: .refused("Google Play refuses this order")))
        case .credentialsRejected:
            .failure(Refused(outcome: .unavailable("Google Play rejects the credentials: see the server log")))
        case .unavailable: .failure(Refused(outcome: .unavailable("Google Play has no usable answer now")))
        }
    }
}

extension ImportRow.Purchase {
    fileprivate var orderId: String? {
        if case .orderId(let id) = proof { id } else { nil }
    }
}
