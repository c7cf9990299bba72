import Subscriptions

/// Something bought once, through its life: as ``SubscriptionLife``, for products without an end.
package struct OneTimeLife: Sendable {
    package let customer: Customer
    package private(set) var purchase: Purchase
    package private(set) var access = AccessBook()
    package private(set) var tellings: [Telling] = []
    private var identifiers: Identifiers
    private let signingLagMilliseconds: Int64

    /// Buys the product at the instant. A non-consumable is owned from then on; a consumable gives no access.
    package init(
        buying product: Product, quantity: Int = 1, at instant: Instant, customer: Customer,
        identifiers: Identifiers, signingLagMilliseconds: Int64 = 0
    ) {
        self.customer = customer
        self.identifiers = identifiers
        self.signingLagMilliseconds = signingLagMilliseconds
        let id = self.identifiers.transactionId()
        purchase = Purchase(
            transactionId: id, webOrderLineItemId: nil, product: product, purchaseDate: instant, expiresDate: nil,
            reason: .purchase, offer: nil, price: customer.storefront.price(product) * Int64(quantity),
            quantity: quantity)
        if product.kind == .nonConsumable { access.pay(id, for: product, from: instant, to: nil) }
        tell("ONE_TIME_CHARGE", at: instant)
    }

    package mutating func refund(at instant: Instant) {
        purchase.revocation = Revocation(date: instant, kind: .full, reason: 0, percentage: 100_000)
        access.takeBack(purchase.transactionId, at: instant)
        tell("REFUND", version1: "REFUND", at: instant)
    }

    /// Pays a share of a consumable back, in thousandths of a percent. Version 1 has no such thing.
    package mutating func refundPart(percentage: Int, at instant: Instant) {
        precondition(purchase.product.kind == .consumable, "only a consumable has parts")
        purchase.revocation = Revocation(date: instant, kind: .prorated, reason: 0, percentage: percentage)
        tell("REFUND", at: instant)
    }

    /// How many of a consumable the customer has paid for at the instant: none before the purchase or if it was refunded,
    /// and from a refund in part on those that were not paid back as a whole.
    package func units(at instant: Instant) -> Int {
        guard purchase.product.kind == .consumable, instant >= purchase.purchaseDate else { return 0 }
        guard let revocation = purchase.revocation else { return purchase.quantity }
        guard revocation.kind == .prorated else { return 0 }
        guard instant >= revocation.date else { return purchase.quantity }
        let paidBack = purchase.quantity * (revocation.percentage ?? 0)
        return (1...purchase.quantity).count { $0 * 100_000 > paidBack }
    }

    private mutating func tell(_ type: String, version1: String? = nil, at instant: Instant) {
        tellings.append(
            Telling(
                notificationUUID: identifiers.uuid(),
                signedDate: instant.advanced(byMilliseconds: signingLagMilliseconds),
                version2: Telling.Name(type), version1: version1, subject: purchase, purchases: [purchase],
                intention: nil, status: nil, consumptionRequestReason: nil))
    }
}
