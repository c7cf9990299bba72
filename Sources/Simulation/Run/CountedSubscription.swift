import Encoding

/// What the figures count of a subscription or one-time purchase of either store.
struct CountedSubscription {
    enum Store {
        case apple, google
    }

    /// A question of the store about a refund, and whether the purchase was refunded.
    struct RefundRequest {
        let at: Instant
        /// Nil if the question names none.
        let productId: String?
        let isGranted: Bool
    }

    let store: Store
    let storefront: Storefront
    /// Somebody else pays for it.
    let isOfMember: Bool
    let access: AccessBook
    /// Oldest first.
    let purchases: [Purchase]
    let failures: [FailedRenewal]
    /// Why access ends with a purchase, by its transaction id.
    let endings: [String: Ending]
    let refundRequests: [RefundRequest]
}

extension CountedSubscription {
    init(_ subscription: SimulatedSubscription) {
        store = .apple
        storefront = subscription.customer.storefront
        isOfMember = subscription.customer.isMember
        access = subscription.access
        purchases = subscription.purchases
        failures = subscription.failures
        endings = subscription.endings
        refundRequests = subscription.notifications.filter { $0.consumptionRequestReason != nil }.map { question in
            let purchase = subscription.purchases.first { $0.transactionId == question.subject.transactionId }
            return RefundRequest(
                at: question.signedDate, productId: question.subject.product.id,
                isGranted: purchase?.revocation != nil)
        }
    }

    init(_ life: PlayLife) {
        store = .google
        storefront = life.customer.storefront
        isOfMember = false
        access = life.key.access
        let refunds = life.orders.flatMap { order in
            order.items.map { (PlayLife.period(order.orderId, $0.productId), order.paidBack(of: $0)) }
        }
        let byPurchase = Dictionary(refunds) { first, _ in first }
        purchases = life.charges.map { charge in
            var charge = charge
            charge.orderRefunds = byPurchase[charge.transactionId] ?? []
            return charge
        }
        failures = life.failures
        endings = life.endings
        // The question names the order.
        refundRequests = life.messages.compactMap { message in
            guard case .refundReview(let orderId, _) = message.content else { return nil }
            return RefundRequest(
                at: message.eventTime, productId: nil, isGranted: life.voids.contains { $0.orderId == orderId })
        }
    }

    init(_ life: PlayOneTimeLife) {
        store = .google
        storefront = life.customer.storefront
        isOfMember = false
        access = life.key.access
        purchases = life.orders.flatMap { order in
            order.items.map { item in
                var purchase = Purchase(
                    transactionId: order.orderId, webOrderLineItemId: nil, product: life.product.onGooglePlay,
                    purchaseDate: order.createTime, expiresDate: nil, reason: .purchase, offer: nil, price: item.price,
                    quantity: life.quantity)
                purchase.orderRefunds = order.paidBack(of: item)
                return purchase
            }
        }
        failures = []
        endings = [:]
        refundRequests = []
    }
}

extension CountedSubscription {
    /// Why access ended with the purchase.
    func reason(endOf purchase: Purchase, at instant: Instant) -> String {
        if purchase.revocation?.date == instant { return "refund" }
        return endings[purchase.transactionId]?.rawValue ?? "unknown"
    }

    /// The payments of the period that the purchase began or belongs to, which seats or other products were added to.
    func payments(ofPeriodOf purchase: Purchase, at instant: Instant) -> [Purchase] {
        guard purchase.seats != nil || purchases.contains(where: \.isAddOn) else { return [purchase] }
        return purchases.filter {
            $0.expiresDate == purchase.expiresDate && $0.purchaseDate <= instant && $0.revocation == nil
        }
    }

    /// The purchase that gave access at the instant, even if it was refunded later. A paid period takes precedence over
    /// grace.
    func holder(at instant: Instant) -> (purchase: Purchase, isGrace: Bool)? {
        for isGrace in [false, true] {
            if let id = access.holderAtTheTime(instant, grace: isGrace),
                let purchase = purchases.first(where: { $0.transactionId == id })
            {
                return (purchase, isGrace)
            }
        }
        return nil
    }
}
