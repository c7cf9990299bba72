import Encoding

extension SubscriptionFacts {
    /// Whether folding an event changes what is known about the subscription: the content of a transaction, its access,
    /// or the renewal info in force. When and by which events it was reported does not count.
    ///
    /// Of an event of Google, all facts must be about purchases of the subscription, or about one that continues it.
    ///
    /// - Parameter receivedAt: Our clock at the receipt of the event.
    package func isChanged(by event: Event, receivedAt: Instant, products: ProductCatalog = .empty) -> Bool {
        let changed = adding(event, receivedAt: receivedAt)
        if changed.succession != succession { return true }
        return Knowledge(self, products) != Knowledge(changed, products)
    }

    /// The facts as they are once the event is folded. See ``isChanged(by:receivedAt:products:)``.
    package func adding(_ event: Event, receivedAt: Instant) -> SubscriptionFacts {
        let facts = event.facts
        var changed = self
        // Any position that is not taken: it decides between unsigned reports of the same time only.
        let position = (positions.max() ?? 0) + 1
        changed.fold(
            facts, occurredAt: event.occurredAt, receivedAt: receivedAt, position: position, companion: facts.companion)
        for purchase in Set(facts.purchases.map(\.purchaseToken)) where purchase != originalTransactionId {
            changed.fold(
                StatedFacts(facts, about: purchase), occurredAt: event.occurredAt, receivedAt: receivedAt,
                position: position)
        }
        return changed
    }
}

/// What is known about a subscription, regardless of when and by which events it was reported.
private struct Knowledge: Equatable {
    struct Period: Equatable {
        let start: Instant
        let end: Instant
        let cause: AccessPeriod.Cause
        let cut: AccessPeriod.Cut?
        let transactionId: String
    }

    /// A purchase of Google, without the time of the answer.
    struct Purchase: Equatable {
        let purchaseToken: String
        let stateName: String
        let startTime: Instant?
        let expiryTime: Instant?
        let autoResumeTime: Instant?
        let isAcknowledged: Bool?
    }

    let transactions: [Transaction]
    let periods: [Period]
    let renewal: RenewalInfo
    /// Of Google, the renewal info does not say it.
    let commitmentEnd: Instant?
    let purchases: [Purchase]
    /// What Google reported besides the answers about purchases: orders, voids, and the times of notifications.
    let reports: Set<PurchaseFact>
    /// See ``StoreBook/hiddenOwners``.
    let owners: Set<CustomerKey>

    init(_ facts: SubscriptionFacts, _ products: ProductCatalog) {
        let subscription = Subscription(facts, products: products)
        transactions = subscription.transactions.map { row in
            var settled = row.settled
            // Decides between reports, and is not a property of the purchase.
            settled.statesRevocation = true
            return settled
        }
        periods = subscription.access.map {
            Period(start: $0.start, end: $0.end, cause: $0.cause, cut: $0.cut, transactionId: $0.transactionId)
        }
        renewal = subscription.renewal(at: .latest)
        commitmentEnd = subscription.renewalStatement(at: .latest)?.commitmentEnd
        purchases = subscription.purchases.map {
            Purchase(
                purchaseToken: $0.purchaseToken, stateName: $0.stateName, startTime: $0.startTime,
                expiryTime: $0.expiryTime, autoResumeTime: $0.autoResumeTime, isAcknowledged: $0.isAcknowledged)
        }
        reports = Set(facts.purchases.keys.compactMap(\.purchase.fact.report))
        owners = facts.book.hiddenOwners
    }
}

extension PurchaseFact {
    /// The fact as it is known, whenever it was reported; nil for an answer about the purchase itself.
    fileprivate var report: PurchaseFact? {
        switch self {
        case .snapshot: return nil
        case .order, .void: return self
        case .notice(var notice):
            // Google says that it does not answer any more to every question.
            if notice.kind == .gone { notice.at = .earliest }
            return .notice(notice)
        }
    }
}
