extension SubscriptionLife {
    /// Begins with a copy of another line's current purchase, as a restore on another device at times does: the same
    /// period and web_order_line_item_id, another transaction and another line. The store tells nobody. What follows
    /// happens on this line.
    package mutating func restore(_ other: SubscriptionLife) {
        precondition(purchases.isEmpty, "the line exists already")
        let copy = other.current.copy(transactionId: identifiers.transactionId())
        purchases.append(copy)
        intention = other.intention
        access.pay(copy.transactionId, for: copy.product, from: copy.purchaseDate, to: copy.expiresDate)
    }
}

extension Purchase {
    fileprivate func copy(transactionId: String) -> Purchase {
        Purchase(
            transactionId: transactionId, webOrderLineItemId: webOrderLineItemId, product: product,
            purchaseDate: purchaseDate, expiresDate: expiresDate, reason: reason, offer: offer, price: price,
            quantity: quantity, commitment: commitment, upgradedAt: upgradedAt, revocation: revocation)
    }
}
