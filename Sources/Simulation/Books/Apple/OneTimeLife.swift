import Encoding

/// The life of a one-time purchase. See ``SubscriptionLife`` for subscriptions.
package struct OneTimeLife: Sendable {
    package let customer: Customer
    package private(set) var purchase: Purchase
    package private(set) var access = AccessBook()
    package private(set) var notifications: [StoreNotification] = []
    /// The books after each event, in the order of the events.
    package private(set) var history: [BookEntry] = []
    /// Of the purchase, and of those after it that share them.
    private(set) var identifiers: Identifiers
    private let signingLagMilliseconds: Int64

    /// Buys the product at the instant. A non-consumable gives access from then on; a consumable gives none.
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
            quantity: quantity, appAccountToken: customer.appAccountToken)
        if product.kind == .nonConsumable { access.pay(id, for: product, from: instant, to: nil) }
        send("ONE_TIME_CHARGE", at: instant)
    }

    package mutating func refund(at instant: Instant) {
        purchase.revocation = Revocation(date: instant, kind: .full, reason: 0, percentage: 100_000)
        access.takeBack(purchase.transactionId, at: instant)
        send("REFUND", version1: "REFUND", at: instant)
    }

    /// Refunds a fraction of a consumable. Version 1 has no prorated refunds.
    ///
    /// - Parameter percentage: In thousandths of a percent.
    package mutating func refundPart(percentage: Int, at instant: Instant) {
        precondition(purchase.product.kind == .consumable, "only a consumable can be refunded in part")
        purchase.revocation = Revocation(date: instant, kind: .prorated, reason: 0, percentage: percentage)
        send("REFUND", at: instant)
    }

    /// The number of units of a consumable that the customer has paid for at the instant. It is 0 before the purchase
    /// and after a full refund. From a prorated refund on, it counts the units that are not refunded completely.
    package func units(at instant: Instant) -> Int {
        guard purchase.product.kind == .consumable, instant >= purchase.purchaseDate else { return 0 }
        guard let revocation = purchase.revocation else { return purchase.quantity }
        guard revocation.kind == .prorated else { return 0 }
        guard instant >= revocation.date else { return purchase.quantity }
        let refunded = purchase.quantity * (revocation.percentage ?? 0)
        return (1...purchase.quantity).count { $0 * 100_000 > refunded }
    }

    private mutating func send(_ type: String, version1: String? = nil, at instant: Instant) {
        notifications.append(
            StoreNotification(
                notificationUUID: identifiers.uuid(),
                signedDate: instant.advanced(byMilliseconds: signingLagMilliseconds),
                version2: StoreNotification.Name(type), version1: version1, subject: purchase, purchases: [purchase],
                renewalPreference: nil, status: nil, consumptionRequestReason: nil))
        history.append(BookEntry(at: instant, purchases: [purchase], renewalPreference: nil, access: access))
    }
}
