import Encoding

/// What the figures count of a subscription or one-time purchase of either store.
struct CountedSubscription {
    enum Store: String {
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
    /// What is known about the next renewal; nil if there is no access.
    let renewal: NextRenewal?

    struct NextRenewal {
        let isOn: Bool
        /// In thousandths of the currency's unit.
        let price: Int64
        /// Nil if it costs as much as before.
        let increase: PriceIncrease?
    }

    /// What the customer says to a higher price. The raw values are columns.
    enum PriceIncrease: String {
        case agreed = "increase_agreed"
        case silent = "increase_silent"
    }
}

extension CountedSubscription {
    /// - Parameter asOf: The next renewal is that after the instant.
    init(_ subscription: SimulatedSubscription, asOf: Instant) {
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
        let preference = access.isActive(at: asOf) ? subscription.books(at: asOf)?.shownPreference(at: asOf) : nil
        // The months of a commitment that is not renewed are charged until it ends.
        let isCommitted =
            subscription.books(at: asOf)?.purchases.last.map {
                ($0.commitment?.expiresDate ?? .earliest) > ($0.expiresDate ?? .latest)
            } ?? false
        renewal = preference.map {
            NextRenewal(
                isOn: $0.isOn && ($0.isCommitmentOn || isCommitted), price: $0.seats?.paid ?? $0.price,
                increase: $0.priceConsent.map { $0 == 1 ? .agreed : .silent })
        }
    }

    init(_ life: PlayLife, asOf: Instant) {
        store = .google
        storefront = life.customer.storefront
        isOfMember = false
        access = life.key.access
        let refunds = life.orders.flatMap { order in
            order.items.map { (PlayLife.period(order.orderId, $0.productId), order.paidBack(of: $0)) }
        }
        let byPurchase = Dictionary(refunds) { first, _ in first }
        let shares = life.orders.flatMap { order in
            order.items.map { (PlayLife.period(order.orderId, $0.productId), order.shares(of: $0)) }
        }
        let sharesByPurchase = Dictionary(shares) { first, _ in first }
        purchases = life.charges.map { charge in
            var charge = charge
            charge.orderRefunds = byPurchase[charge.transactionId] ?? []
            charge.orderShares = sharesByPurchase[charge.transactionId] ?? nil
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
        let book = access.isActive(at: asOf) ? life.purchases.last { $0.history[0].at <= asOf }?.book(at: asOf) : nil
        let renewing = book?.items.filter(\.isAutoRenewing) ?? []
        renewal = book.map { book in
            NextRenewal(
                isOn: !renewing.isEmpty
                    && renewing.allSatisfy { item in
                        item.installments.map { !$0.isCancellationPending || $0.remaining > 0 } ?? true
                    },
                price: (renewing.isEmpty ? book.items : renewing).map(\.nextPrice).reduce(0, +),
                increase: book.items.lazy.compactMap(\.increase).first)
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
                purchase.orderShares = order.shares(of: item)
                return purchase
            }
        }
        failures = []
        endings = [:]
        refundRequests = []
        renewal = nil
    }
}

extension PlayOrder {
    /// What the order states about one of its products: of the proceeds, as much as of the price. Those of all products add
    /// up.
    fileprivate func shares(of item: Item) -> OrderShares? {
        guard statesShares, total > 0, let index = items.firstIndex(of: item) else { return nil }
        let before = items[..<index].map(\.price).reduce(0, +)
        func proceeds(of paid: Int64) -> Int64 { self.proceeds() * paid / total }
        return OrderShares(tax: item.tax, proceeds: proceeds(of: before + item.price) - proceeds(of: before))
    }
}

extension PlayItem {
    /// The price of the next period, in thousandths of the currency's unit.
    fileprivate var nextPrice: Int64 {
        guard let priceChange, priceChange.state != .applied else { return price }
        return priceChange.newPrice
    }

    fileprivate var increase: CountedSubscription.PriceIncrease? {
        switch priceChange?.state {
        case .outstanding: .silent
        case .confirmed: .agreed
        case .applied, nil: nil
        }
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

    /// What was bought beside a purchase, in the same order.
    func addOns(of purchase: Purchase) -> [Purchase] {
        purchases.filter { $0.isAddOn && !purchase.isAddOn && $0.purchaseDate == purchase.purchaseDate }
    }

    /// The price of a month at the instant, in thousandths of the currency's unit, in grace too. Money ignores what was
    /// refunded in full.
    func monthlyValue(at instant: Instant) -> Int64 {
        guard access.isActive(at: instant), let purchase = holder(at: instant)?.purchase, purchase.isOfRenewing,
            !purchase.isTrial
        else { return 0 }
        // What was bought within the period adds to its price, which is rounded once.
        let paid = payments(ofPeriodOf: purchase, at: instant).reduce(0) { $0 + $1.paid }
        return Figures.monthly(purchase, paid: paid)
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
