import Encoding

extension SubscriptionLife {
    /// Begins with a copy of another subscription's current purchase, as a restore on another device sometimes does:
    /// the same period and `web_order_line_item_id`, a new transaction id and a new original transaction id. The store
    /// sends no notification. Later events belong to this subscription.
    package mutating func restore(_ other: SubscriptionLife, at instant: Instant) {
        precondition(purchases.isEmpty, "the subscription already exists")
        let copy = other.current.copy(transactionId: identifiers.transactionId())
        purchases.append(copy)
        renewalPreference = other.renewalPreference
        access.pay(copy.transactionId, for: copy.product, from: copy.purchaseDate, to: copy.expiresDate)
        isRestored = true
        record(at: instant, isNotified: false)
    }
}

extension Purchase {
    /// The same purchase under another transaction id, as a restore makes it.
    func copy(transactionId: String) -> Purchase {
        Purchase(
            transactionId: transactionId, webOrderLineItemId: webOrderLineItemId, product: product,
            purchaseDate: purchaseDate, expiresDate: expiresDate, reason: reason, offer: offer, price: price,
            quantity: quantity, billingPlan: billingPlan, commitment: commitment, seats: seats, upgradedAt: upgradedAt,
            revocation: revocation, appAccountToken: appAccountToken, isRestored: true)
    }
}
