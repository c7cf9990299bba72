import Subscriptions

/// One subscription line through its life, by explicit actions: keeps the store's books, notes what the store tells,
/// and keeps its own record of access.
///
/// Actions are to be called in the order of their instants. What an action needs (a period that runs, a renewal that
/// failed) is the caller's to see to; an action that cannot follow stops the program, since a story is then wrong.
package struct SubscriptionLife: Sendable {
    package let customer: Customer
    /// Oldest first.
    package internal(set) var purchases: [Purchase] = []
    /// Nil before the first purchase.
    package internal(set) var intention: Intention?
    package internal(set) var access = AccessBook()
    /// Oldest first.
    package internal(set) var failures: [FailedRenewal] = []
    /// In the order of their signing, at least a second apart.
    package private(set) var tellings: [Telling] = []
    /// The customer promised a year, which is paid by the month.
    package var isCommitted = false
    var identifiers: Identifiers
    /// How long after an event the store signs what it tells of it. Switching renewal is told without delay: its
    /// time is in no other field.
    private let signingLagMilliseconds: Int64

    package init(customer: Customer, identifiers: Identifiers, signingLagMilliseconds: Int64 = 0) {
        self.customer = customer
        self.identifiers = identifiers
        self.signingLagMilliseconds = signingLagMilliseconds
    }

    package var originalTransactionId: String { purchases.first?.transactionId ?? "" }

    package var current: Purchase {
        guard let last = purchases.last else { preconditionFailure("nothing was bought yet") }
        return last
    }

    /// When the current period ends.
    package var expiry: Instant {
        guard let date = current.expiresDate else { preconditionFailure("the purchase does not expire") }
        return date
    }
}

// MARK: - The books

extension SubscriptionLife {
    static let secondMilliseconds: Int64 = 1000

    /// Changes the intention, which every purchase of a subscription leaves behind.
    mutating func intend(_ change: (inout Intention) -> Void) {
        guard var changed = intention else { preconditionFailure("nothing was bought yet") }
        change(&changed)
        intention = changed
    }

    /// The intention as it stands.
    var intended: Intention {
        guard let intention else { preconditionFailure("nothing was bought yet") }
        return intention
    }

    mutating func change(_ transactionId: String, _ change: (inout Purchase) -> Void) {
        guard let index = purchases.firstIndex(where: { $0.transactionId == transactionId }) else {
            preconditionFailure("there is no such purchase")
        }
        change(&purchases[index])
    }

    /// Enters a charge, the access that it pays for, and what is to follow it.
    @discardableResult
    mutating func charge(
        _ product: Product, from purchaseDate: Instant, to expiresDate: Instant, _ reason: Purchase.Reason,
        offer: Offer? = nil
    ) -> Purchase {
        let id = identifiers.transactionId()
        let agreed = reason == .renewal ? intention?.price : nil
        let price = agreed ?? customer.storefront.price(product)
        var purchase = Purchase(
            transactionId: id, webOrderLineItemId: identifiers.webOrderLineItemId(of: id), product: product,
            purchaseDate: purchaseDate, expiresDate: expiresDate, reason: reason, offer: offer,
            price: offer.map { $0.isFree ? 0 : price / 2 } ?? price, quantity: 1)
        purchase.commitment = commitment(from: purchaseDate, price)
        purchases.append(purchase)
        access.pay(id, for: product, from: purchaseDate, to: expiresDate)
        if intention == nil {
            intention = Intention(
                product: product, nextProduct: product, renewalDate: expiresDate, price: price,
                streakStart: purchaseDate)
        }
        intend {
            $0.product = product
            $0.nextProduct = product
            $0.expiration = nil
            $0.isInBillingRetry = false
            $0.graceEnd = nil
            $0.offer = nil
            $0.priceConsent = nil
            $0.renewalDate = expiresDate
            $0.price = price
        }
        return purchase
    }

    private func commitment(from purchaseDate: Instant, _ price: Int64) -> Commitment? {
        guard isCommitted else { return nil }
        let first = purchases.first?.purchaseDate ?? purchaseDate
        return Commitment(
            billingPeriodNumber: purchases.count % 12 + 1, totalBillingPeriods: 12,
            expiresDate: first.advanced(by: Period.year), price: price * 12)
    }

    static func end(of product: Product, from start: Instant, _ offer: Offer? = nil) -> Instant {
        if let offer { return start.advanced(by: offer.period) }
        guard let duration = product.duration else { preconditionFailure("\(product.id) is no subscription") }
        return start.advanced(by: duration)
    }

    /// Switches renewal, without telling.
    mutating func setRenewal(_ isOn: Bool, at instant: Instant) {
        intend {
            guard $0.isOn != isOn else { return }
            $0.isOn = isOn
            $0.switchedAt = instant
        }
    }
}

// MARK: - What is told

extension SubscriptionLife {
    /// Notes that the store tells of something that happened at the instant.
    ///
    /// - Parameter isPrompt: Signed at that very instant.
    mutating func tell(
        _ version2: Telling.Name?, version1: String?, at instant: Instant, _ status: Telling.Status?,
        about subject: Purchase? = nil, isPrompt: Bool = false, consumptionRequestReason: String? = nil
    ) {
        var signedDate = isPrompt ? instant : instant.advanced(byMilliseconds: signingLagMilliseconds)
        if let last = tellings.last {
            let earliest = last.signedDate.advanced(byMilliseconds: Self.secondMilliseconds)
            precondition(!isPrompt || earliest <= instant, "actions are too close to each other")
            signedDate = max(signedDate, earliest)
        }
        tellings.append(
            Telling(
                notificationUUID: identifiers.uuid(), signedDate: signedDate, version2: version2, version1: version1,
                subject: subject ?? current, purchases: purchases, intention: intention, status: status,
                consumptionRequestReason: consumptionRequestReason))
    }

    /// Notes what only version 1 tells beside the notification before.
    mutating func tellVersion1(_ type: String, at instant: Instant, _ status: Telling.Status?) {
        tell(nil, version1: type, at: instant, status)
    }

}
