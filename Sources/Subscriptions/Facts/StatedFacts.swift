import Encoding

/// The facts of one event about one subscription, each in canonical form with its signing time kept separately.
///
/// Creating it is most of the work of a fold and needs no state of the subscription.
package struct StatedFacts: Sendable {
    struct Stated<Fact: Sendable>: Sendable {
        let fact: SubscriptionFacts.Canonical<Fact>
        let signedDate: Instant?
    }

    private(set) var transactions: [Stated<Transaction>] = []
    private(set) var renewals: [Stated<RenewalInfo>] = []
    private(set) var purchases: [Stated<PurchaseFact>] = []
    /// True if the Apple Account of the subscription was deleted.
    fileprivate(set) var isAccountDeleted = false
    /// True if the data of the person whose subscription it was has been erased.
    fileprivate(set) var isErased = false
    /// What a backend stated about a seat of the subscription.
    fileprivate(set) var seat: SeatStatement?

    /// Selects the facts of one subscription and ignores all others.
    package init(_ facts: Facts, about subscription: String) {
        for transaction in facts.transactions where transaction.originalTransactionId == subscription {
            add(transaction)
        }
        for renewal in facts.renewals where renewal.originalTransactionId == subscription { add(renewal) }
        for purchase in facts.purchases where purchase.purchaseToken == subscription { add(purchase) }
        isAccountDeleted = facts.accountDeletions.contains(subscription)
        isErased = facts.erasure?.subscriptions.contains(subscription) ?? false
        seat = facts.seat.flatMap { $0.originalTransactionId == subscription ? $0 : nil }
    }

    fileprivate init() {}

    /// From when on the facts tell which purchase is current: an expired one, as in a late refund, says nothing about the
    /// time after it, and a renewal that was charged early nothing about the time before it. Nil if no purchase does.
    ///
    /// - Parameter statedAt: The time of the event.
    package func currentPurchaseSince(_ statedAt: Instant) -> Instant? {
        transactions.compactMap { stated -> Instant? in
            let transaction = stated.fact.fact
            if let end = transaction.expiresDate, end <= statedAt { return nil }
            return max(statedAt, transaction.purchaseDate ?? statedAt)
        }.min()
    }

    var isEmpty: Bool {
        transactions.isEmpty && renewals.isEmpty && purchases.isEmpty && !isAccountDeleted && !isErased && seat == nil
    }

    /// True for facts of Google, which are about a purchase and not about a whole subscription.
    package var isOfPurchase: Bool { !purchases.isEmpty }

    /// True if Google took back a purchase or an order.
    package var hasVoids: Bool {
        purchases.contains { stated in
            if case .void = stated.fact.fact { true } else { false }
        }
    }

    /// The purchases that these facts continue, so that both are one subscription. See
    /// ``PurchaseFact/continuedPurchaseToken``.
    package var continuedPurchases: Set<String> {
        Set(purchases.compactMap(\.fact.fact.continuedPurchaseToken))
    }

    /// The ids of the transactions, which may repeat.
    package var transactionIds: [String] { transactions.map(\.fact.fact.transactionId) }

    /// When the facts state each of their transactions.
    ///
    /// - Parameter statedAt: The time of the event.
    package func statements(_ statedAt: Instant) -> [(transactionId: String, statedAt: Instant)] {
        transactions.map { ($0.fact.fact.transactionId, $0.signedDate ?? statedAt) }
    }

    fileprivate mutating func add(_ transaction: consuming Transaction) {
        let signedDate = transaction.signedDate
        transaction.signedDate = nil
        var writer = JSONWriter(bytesExpected: 1024)
        transaction.write(to: &writer)
        transactions.append(
            Stated(fact: .init(transaction, text: Array(writer.bytes)), signedDate: signedDate))
    }

    fileprivate mutating func add(_ renewal: consuming RenewalInfo) {
        let signedDate = renewal.signedDate
        renewal.signedDate = nil
        var writer = JSONWriter(bytesExpected: 1024)
        renewal.write(to: &writer)
        renewals.append(Stated(fact: .init(renewal, text: Array(writer.bytes)), signedDate: signedDate))
    }

    fileprivate mutating func add(_ purchase: PurchaseFact) {
        var writer = JSONWriter(bytesExpected: 1024)
        purchase.write(to: &writer)
        purchases.append(Stated(fact: .init(purchase, text: Array(writer.bytes)), signedDate: nil))
    }
}

/// The stored facts of an event, grouped by subscription.
package struct EventFacts: Sendable {
    package private(set) var bySubscription: [String: StatedFacts] = [:]
    /// See ``Facts/companion``.
    package private(set) var companion: String?
    package private(set) var link: LinkStatement?

    package init(json: JSONValue) throws(FactsError) {
        for element in try json.requiredElements("transactions") {
            let transaction = try Transaction(json: element)
            bySubscription[transaction.originalTransactionId, default: StatedFacts()].add(transaction)
        }
        for element in try json.requiredElements("renewals") {
            let renewal = try RenewalInfo(json: element)
            bySubscription[renewal.originalTransactionId, default: StatedFacts()].add(renewal)
        }
        for id in try json.accountDeletions { bySubscription[id, default: StatedFacts()].isAccountDeleted = true }
        if bySubscription.count > 1 { companion = bySubscription.keys.map(ByteString.init).min()?.text }
        for element in json["purchases"]?.elements ?? [] {
            let purchase = try PurchaseFact(json: element)
            bySubscription[purchase.purchaseToken, default: StatedFacts()].add(purchase)
        }
        if let json = json["link"] { link = try LinkStatement(json: json) }
        if let json = json["erasure"] {
            for id in try ErasureStatement(json: json).subscriptions {
                bySubscription[id, default: StatedFacts()].isErased = true
            }
        }
        if let json = json["seat"] {
            let seat = try SeatStatement(json: json)
            bySubscription[seat.originalTransactionId, default: StatedFacts()].seat = seat
        }
    }
}
