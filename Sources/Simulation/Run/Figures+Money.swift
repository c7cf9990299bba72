import Encoding

extension Figures {
    /// Adds what was paid and what was given back, by product, country and currency.
    mutating func addRevenue(_ subscription: CountedSubscription) {
        let storefront = subscription.storefront
        for purchase in subscription.purchases where purchase.isPayment {
            let place = "\(purchase.product.id) \(storefront.country) \(storefront.currency)"
            let month = Self.month(purchase.purchaseDate)
            add(1, "revenue", month, place, "payments")
            add(purchase.paid, "revenue", month, place, "gross")
            let euros = Self.euros(storefront.currency)
            add(purchase.paid * euros, "revenue_in", month, storefront.country, "gross")
            for refund in purchase.paidBack {
                add(refund.amount, "revenue", month, place, "refunded")
                add(refund.amount, "revenue", Self.month(refund.at), place, "refunded_here")
                add(refund.amount * euros, "revenue_in", month, storefront.country, "refunded")
                add(refund.amount * euros, "revenue_in", Self.month(refund.at), storefront.country, "refunded_here")
            }
        }
    }

    /// Adds the next renewal of a subscription with access.
    mutating func addOutlook(_ subscription: CountedSubscription) {
        guard let renewal = subscription.renewal, let (purchase, isGrace) = subscription.holder(at: asOf),
            let end = subscription.access.unbrokenEnd(at: asOf)
        else { return }
        let state = isGrace ? "grace" : purchase.isTrial ? "trial" : "paying"
        let place = "\(purchase.product.id) \(subscription.storefront.country) \(subscription.storefront.currency)"
        let key = "\(Self.month(end)) \(place) \(state) \(renewal.isOn ? "on" : "off")"
        add(1, "renewal_outlook", key, "subscriptions")
        add(renewal.price, "renewal_outlook", key, "amount")
    }

    /// Adds each use of an offer, with what was paid until the next one.
    mutating func addOffers(_ subscription: CountedSubscription) {
        let purchases = subscription.purchases.filter { !$0.isRestored && $0.isOfRenewing && !$0.isAddOn }
        var use: [Purchase] = []
        for (index, purchase) in purchases.enumerated() {
            if purchase.offer != nil, index == 0 || purchase.isOtherOffer(than: purchases[index - 1]) {
                addOffer(use, subscription)
                use = [purchase]
            } else if !use.isEmpty {
                use.append(purchase)
            }
        }
        addOffer(use, subscription)
    }

    /// - Parameter use: The purchases with the offer, then those at the standard price.
    private mutating func addOffer(_ use: [Purchase], _ subscription: CountedSubscription) {
        guard let first = use.first, let offer = first.offer else { return }
        let storefront = subscription.storefront
        let name = offer.identifier.map { " \($0)" } ?? ""
        let key =
            "\(Self.month(first.purchaseDate)) \(first.product.id) \(storefront.country) \(storefront.currency) "
            + "\(offer.kind.rawValue)\(name)"
        let discounted = use.filter { $0.offer != nil }
        let standard = use.filter { $0.offer == nil }
        let kept = standard.filter { $0.revocation?.kind != .full }
        let isRunning = discounted.contains { $0.expiresDate.map { $0 > asOf } ?? false }
        add(1, "offers", key, "redeemed")
        let outcome =
            discounted.allSatisfy { $0.revocation?.kind == .full }
            ? "refunded" : !kept.isEmpty ? "converted" : isRunning ? "undecided" : "lost"
        add(1, "offers", key, outcome)
        add(Int64(max(kept.count - 1, 0)), "offers", key, "renewals")
        add(discounted.map { $0.paid - $0.refunded }.reduce(0, +), "offers", key, "offer_revenue")
        add(standard.map { $0.paid - $0.refunded }.reduce(0, +), "offers", key, "revenue")
    }
}

extension Purchase {
    /// Whether something was paid for it. A copy that a restore made is no payment.
    var isPayment: Bool { !isTrial && !isRestored && paid != 0 }

    /// Whether its offer is another use than that of the purchase before.
    fileprivate func isOtherOffer(than previous: Purchase) -> Bool {
        previous.offer?.kind != offer?.kind || previous.offer?.identifier != offer?.identifier
            || previous.expiresDate.map { $0 < purchaseDate } ?? false
    }
}
