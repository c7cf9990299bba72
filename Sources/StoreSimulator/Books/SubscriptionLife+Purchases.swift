import Subscriptions

// MARK: - Buying

extension SubscriptionLife {
    /// The first purchase, or the first access through the family.
    package mutating func subscribe(to product: Product, at instant: Instant, offer: Offer? = nil) {
        precondition(purchases.isEmpty, "the line exists already")
        charge(product, from: instant, to: Self.end(of: product, from: instant, offer), .purchase, offer: offer)
        tell(Telling.Name("SUBSCRIBED", "INITIAL_BUY"), version1: "INITIAL_BUY", at: instant, .active)
    }

    /// Buys again after the end; the time between stays without access.
    package mutating func resubscribe(to product: Product, at instant: Instant, offer: Offer? = nil) {
        let isSame = product == current.product
        setRenewal(true, at: instant)
        intend { $0.streakStart = instant }
        charge(product, from: instant, to: Self.end(of: product, from: instant, offer), .purchase, offer: offer)
        let name = Telling.Name("SUBSCRIBED", "RESUBSCRIBE")
        // Version 1 hides the purchase of the same product in a status change.
        tell(name, version1: isSame ? "DID_CHANGE_RENEWAL_STATUS" : "INTERACTIVE_RENEWAL", at: instant, .active)
        if !isSame { tellVersion1("DID_CHANGE_RENEWAL_STATUS", at: instant, .active) }
    }

    /// The renewal at the end of the current period, with the product and offer that were chosen for it.
    ///
    /// - Parameter charged: When it was charged, up to a day before the end. Nil for at the end.
    package mutating func renew(charged: Instant? = nil) {
        precondition(intended.isOn && !intended.isInBillingRetry, "renewal is off, or failed already")
        let start = expiry
        let product = intended.nextProduct
        let offer = intended.offer
        charge(product, from: start, to: Self.end(of: product, from: start, offer), .renewal, offer: offer)
        tell(Telling.Name("DID_RENEW"), version1: "DID_RENEW", at: min(charged ?? start, start), .active)
    }
}

// MARK: - Changing plans

extension SubscriptionLife {
    /// Goes to a better product, or to an equal one of equal length: at once, and the current period ends.
    ///
    /// Version 2 tells of the new purchase alone; the replaced one is not shown again.
    package mutating func upgrade(to product: Product, at instant: Instant, offer: Offer? = nil) {
        let old = current
        change(old.transactionId) { $0.upgradedAt = instant }
        access.cut(old.transactionId, at: instant)
        setRenewal(true, at: instant)
        charge(product, from: instant, to: Self.end(of: product, from: instant, offer), .purchase, offer: offer)
        let name = Telling.Name(offer == nil ? "DID_CHANGE_RENEWAL_PREF" : "OFFER_REDEEMED", "UPGRADE")
        tell(name, version1: "INTERACTIVE_RENEWAL", at: instant, .active)
        tellVersion1("DID_CHANGE_RENEWAL_STATUS", at: instant, .active)
    }

    /// Goes to a lesser product, or to an equal one of another length: with the next renewal. To the current product:
    /// takes such a choice back.
    package mutating func chooseNext(_ product: Product, at instant: Instant) {
        let price = customer.storefront.price(product)
        intend {
            $0.nextProduct = product
            $0.price = price
        }
        tell(
            Telling.Name("DID_CHANGE_RENEWAL_PREF", product == current.product ? nil : "DOWNGRADE"),
            version1: "DID_CHANGE_RENEWAL_PREF", at: instant, .active)
    }

    /// Redeems an offer for the current product, which counts from the next renewal on.
    package mutating func redeem(_ offer: Offer, at instant: Instant) {
        setRenewal(true, at: instant)
        intend { $0.offer = offer }
        tell(Telling.Name("OFFER_REDEEMED"), version1: "DID_CHANGE_RENEWAL_PREF", at: instant, .active)
    }
}

// MARK: - Longer periods

extension SubscriptionLife {
    /// The developer gives days for free: the current period itself becomes longer. Version 1 does not tell.
    package mutating func extend(byDays days: Int, at instant: Instant) {
        let id = current.transactionId
        let end = expiry.advanced(byMilliseconds: Int64(days) * 86_400_000)
        change(id) { $0.expiresDate = end }
        intend { $0.renewalDate = end }
        access.extend(id, to: end)
        tell(Telling.Name("RENEWAL_EXTENDED"), version1: nil, at: instant, .active)
    }
}
