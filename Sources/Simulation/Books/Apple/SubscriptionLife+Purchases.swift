import Encoding

// MARK: - Purchases

extension SubscriptionLife {
    /// Makes the first purchase, or begins the access of a member.
    ///
    /// - Parameter end: The end of a seat that is assigned within a period; nil for a whole period.
    package mutating func subscribe(
        to product: Product, at instant: Instant, until end: Instant? = nil, offer: Offer? = nil, seats: Seats? = nil
    ) {
        precondition(purchases.isEmpty, "the subscription already exists")
        let end = end ?? self.end(of: product, from: instant, offer)
        charge(product, from: instant, to: end, .purchase, offer: offer, seats: seats)
        send(StoreNotification.Name("SUBSCRIBED", "INITIAL_BUY"), version1: "INITIAL_BUY", at: instant, .active)
    }

    /// Buys again after expiry. There is no access between the two.
    package mutating func resubscribe(to product: Product, at instant: Instant, offer: Offer? = nil) {
        let isSame = product == current.product
        setRenewal(true, at: instant)
        updatePreference { $0.streakStart = instant }
        charge(product, from: instant, to: end(of: product, from: instant, offer), .purchase, offer: offer)
        let name = StoreNotification.Name("SUBSCRIBED", "RESUBSCRIBE")
        // Version 1 reports a new purchase of the same product as a status change.
        send(name, version1: isSame ? "DID_CHANGE_RENEWAL_STATUS" : "INTERACTIVE_RENEWAL", at: instant, .active)
        if !isSame { sendVersion1("DID_CHANGE_RENEWAL_STATUS", at: instant, .active) }
    }

    /// Renews at the end of the current period, with the product and offer chosen for the renewal.
    ///
    /// - Parameter charged: When the renewal is charged, up to a day before the end of the period; nil for at the end.
    package mutating func renew(charged: Instant? = nil) {
        precondition(
            currentPreference.isOn && !currentPreference.isInBillingRetry, "auto-renewal is off or in billing retry")
        let start = expiry
        let product = currentPreference.nextProduct
        let offer = currentPreference.offer
        charge(product, from: start, to: end(of: product, from: start, offer), .renewal, offer: offer)
        send(StoreNotification.Name("DID_RENEW"), version1: "DID_RENEW", at: min(charged ?? start, start), .active)
    }
}

// MARK: - Plan changes

extension SubscriptionLife {
    /// Changes to a product of a higher level, or of the same level and duration. It takes effect at once and ends the
    /// current period.
    ///
    /// Version 2 reports the new purchase only. The replaced one is not sent again.
    package mutating func upgrade(to product: Product, at instant: Instant, offer: Offer? = nil) {
        let old = current
        change(old.transactionId) { $0.upgradedAt = instant }
        access.cut(old.transactionId, at: instant, .upgraded)
        setRenewal(true, at: instant)
        charge(product, from: instant, to: end(of: product, from: instant, offer), .purchase, offer: offer)
        let name = StoreNotification.Name(offer == nil ? "DID_CHANGE_RENEWAL_PREF" : "OFFER_REDEEMED", "UPGRADE")
        send(name, version1: "INTERACTIVE_RENEWAL", at: instant, .active)
        sendVersion1("DID_CHANGE_RENEWAL_STATUS", at: instant, .active)
    }

    /// Chooses the product of the next renewal: one of a lower level, or of the same level and another duration.
    /// Choosing the current product cancels an earlier choice.
    package mutating func chooseNext(_ product: Product, at instant: Instant) {
        let price = customer.storefront.price(product)
        updatePreference {
            $0.nextProduct = product
            $0.price = price
        }
        send(
            StoreNotification.Name("DID_CHANGE_RENEWAL_PREF", product == current.product ? nil : "DOWNGRADE"),
            version1: "DID_CHANGE_RENEWAL_PREF", at: instant, .active)
    }

    /// Redeems an offer for the current product. It applies from the next renewal on.
    package mutating func redeem(_ offer: Offer, at instant: Instant) {
        setRenewal(true, at: instant)
        updatePreference { $0.offer = offer }
        send(StoreNotification.Name("OFFER_REDEEMED"), version1: "DID_CHANGE_RENEWAL_PREF", at: instant, .active)
    }
}

// MARK: - Extensions

extension SubscriptionLife {
    /// Extends the current period by free days. Version 1 sends no notification.
    package mutating func extend(byDays days: Int, at instant: Instant) {
        let id = current.transactionId
        let end = expiry.advanced(byMilliseconds: Int64(days) * 86_400_000)
        change(id) { $0.extend(to: end) }
        updatePreference { $0.renewalDate = end }
        access.extend(id, to: end)
        send(StoreNotification.Name("RENEWAL_EXTENDED"), version1: nil, at: instant, .active)
    }
}
