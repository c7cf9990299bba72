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
        tell("REFUND", at: instant)
    }

    private mutating func tell(_ type: String, at instant: Instant) {
        tellings.append(
            Telling(
                notificationUUID: identifiers.uuid(),
                signedDate: instant.advanced(byMilliseconds: signingLagMilliseconds),
                version2: Telling.Name(type), version1: nil, subject: purchase, purchases: [purchase],
                intention: nil, status: nil, consumptionRequestReason: nil))
    }
}
