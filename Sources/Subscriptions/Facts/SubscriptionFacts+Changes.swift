import Encoding

extension SubscriptionFacts {
    /// Whether folding an event changes what is known about the subscription: the content of a transaction, its access,
    /// or the renewal info in force. When and by which events it was reported does not count.
    ///
    /// - Parameter receivedAt: Our clock at the receipt of the event.
    package func isChanged(by event: Event, receivedAt: Instant, products: ProductCatalog = .empty) -> Bool {
        let facts = event.facts
        var changed = self
        // Any position that is not taken: it decides between unsigned reports of the same time only.
        changed.fold(
            facts, occurredAt: event.occurredAt, receivedAt: receivedAt, position: (positions.max() ?? 0) + 1,
            companion: facts.companion)
        return Knowledge(self, products) != Knowledge(changed, products)
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

    let transactions: [Transaction]
    let periods: [Period]
    let renewal: RenewalInfo

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
    }
}
