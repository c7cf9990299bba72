import Encoding

/// The life of one subscription, driven by explicit actions. Each action updates the store's books, the notifications
/// that the store sends, and an independent record of access.
///
/// Call actions in the order of their instants. The caller ensures their preconditions (a running period, a failed
/// renewal); an impossible action is a bug in the story and traps.
package struct SubscriptionLife: Sendable {
    /// The Apple Account, with the app user who buys next.
    package internal(set) var customer: Customer
    /// Oldest first.
    package internal(set) var purchases: [Purchase] = []
    /// Nil before the first purchase.
    package internal(set) var renewalPreference: RenewalPreference?
    package internal(set) var access = AccessBook()
    /// Begins with a copy of another subscription's purchase.
    package internal(set) var isRestored = false
    /// Oldest first.
    package internal(set) var failures: [FailedRenewal] = []
    /// By transaction id. A purchase without an entry ends for a reason that the store does not report.
    package internal(set) var endings: [String: Ending] = [:]
    /// Ordered by signing time, at least one second apart.
    package private(set) var notifications: [StoreNotification] = []
    /// The books after each event, in the order of the events.
    package private(set) var history: [BookEntry] = []
    /// The plan of the purchases from now on; nil if the product is sold with one billing plan.
    package var billingPlan: BillingPlan?
    var identifiers: Identifiers
    /// The delay between an event and the signing of its notification. A change of auto-renewal has no delay because
    /// its time is in no other field.
    private let signingLagMilliseconds: Int64

    package init(customer: Customer, identifiers: Identifiers, signingLagMilliseconds: Int64 = 0) {
        self.customer = customer
        self.identifiers = identifiers
        self.signingLagMilliseconds = signingLagMilliseconds
    }

    package var originalTransactionId: String { purchases.first?.transactionId ?? "" }

    package var current: Purchase {
        guard let last = purchases.last else { preconditionFailure("the subscription has no purchase") }
        return last
    }

    /// Another user of the app buys from now on, with the same Apple Account.
    package mutating func handOver(to appAccountToken: String) {
        customer.appAccountToken = appAccountToken
    }

    /// The app's server sets the token of the Apple Account's user. The current and later purchases have it; the store
    /// sends no notification.
    package mutating func setAccountToken(_ appAccountToken: String) {
        customer.appAccountToken = appAccountToken
        change(current.transactionId) { $0.appAccountToken = appAccountToken }
    }

    /// The end of the current period.
    package var expiry: Instant {
        guard let date = current.expiresDate else { preconditionFailure("the purchase does not expire") }
        return date
    }
}

// MARK: - The books

extension SubscriptionLife {
    static let secondMilliseconds: Int64 = 1000

    /// Changes the renewal preference. It exists from the first purchase on.
    mutating func updatePreference(_ change: (inout RenewalPreference) -> Void) {
        guard var changed = renewalPreference else { preconditionFailure("the subscription has no purchase") }
        change(&changed)
        renewalPreference = changed
    }

    /// The renewal preference. It exists from the first purchase on.
    var currentPreference: RenewalPreference {
        guard let renewalPreference else { preconditionFailure("the subscription has no purchase") }
        return renewalPreference
    }

    mutating func change(_ transactionId: String, _ change: (inout Purchase) -> Void) {
        guard let index = purchases.firstIndex(where: { $0.transactionId == transactionId }) else {
            preconditionFailure("unknown purchase")
        }
        change(&purchases[index])
    }

    /// Records a purchase, its period of access, and the preference for the next renewal.
    @discardableResult
    mutating func charge(
        _ product: Product, from purchaseDate: Instant, to expiresDate: Instant, _ reason: Purchase.Reason,
        offer: Offer? = nil, seats: Seats? = nil
    ) -> Purchase {
        let id = identifiers.transactionId()
        let agreed = reason == .renewal ? renewalPreference?.price : nil
        let seats = seats ?? renewalPreference?.seats
        let price = seats?.price ?? agreed ?? self.price(of: product)
        var purchase = Purchase(
            transactionId: id, webOrderLineItemId: identifiers.webOrderLineItemId(of: id), product: product,
            purchaseDate: purchaseDate, expiresDate: expiresDate, reason: reason, offer: offer,
            price: offer.map { $0.isFree ? 0 : price / 2 } ?? price, quantity: seats?.quantity ?? 1)
        purchase.seats = seats
        purchase.billingPlan = billingPlan
        purchase.commitment = commitment(from: purchaseDate, price)
        purchase.appAccountToken = customer.appAccountToken
        purchases.append(purchase)
        access.pay(id, for: product, from: purchaseDate, to: expiresDate)
        if renewalPreference == nil {
            renewalPreference = RenewalPreference(
                product: product, nextProduct: product, renewalDate: expiresDate, price: price,
                streakStart: purchaseDate)
        }
        updatePreference {
            $0.product = product
            $0.nextProduct = product
            $0.expiration = nil
            $0.isInBillingRetry = false
            $0.graceEnd = nil
            $0.offer = nil
            $0.priceConsent = nil
            $0.renewalDate = expiresDate
            $0.price = price
            $0.seats = seats
        }
        return purchase
    }

    private func commitment(from purchaseDate: Instant, _ price: Int64) -> Commitment? {
        guard billingPlan == .monthly else { return nil }
        let first = purchases.first?.purchaseDate ?? purchaseDate
        return Commitment(
            billingPeriodNumber: purchases.count % 12 + 1, totalBillingPeriods: 12,
            expiresDate: first.advanced(by: Period.year), price: price * 12)
    }

    private func price(of product: Product) -> Int64 {
        billingPlan == .monthly ? customer.storefront.monthlyPrice(product) : customer.storefront.price(product)
    }

    func end(of product: Product, from start: Instant, _ offer: Offer? = nil) -> Instant {
        if let offer { return start.advanced(by: offer.period) }
        guard let duration = product.duration else { preconditionFailure("\(product.id) is not a subscription") }
        return start.advanced(by: billingPlan == .monthly ? Period.monthly.duration : duration)
    }

    /// Records why access ends with the current purchase.
    mutating func end(by ending: Ending) {
        endings[current.transactionId] = ending
    }

    /// Switches auto-renewal without sending a notification.
    mutating func setRenewal(_ isOn: Bool, at instant: Instant) {
        if !isOn {
            end(by: .voluntary)
        } else if instant < expiry {
            endings[current.transactionId] = nil
        }
        updatePreference {
            guard $0.isOn != isOn else { return }
            $0.isOn = isOn
            $0.switchedAt = instant
        }
    }
}

// MARK: - Notifications

extension SubscriptionLife {
    /// Records the notification of an event at the instant.
    ///
    /// - Parameters:
    ///   - version2: Nil if only version 1 sends a notification.
    ///   - version1: Nil if only version 2 sends a notification.
    ///   - subject: The purchase that the notification is about; nil for the current one.
    ///   - isPrompt: Signed at the instant itself, without delay.
    mutating func send(
        _ version2: StoreNotification.Name?, version1: String?, at instant: Instant,
        _ status: StoreNotification.Status?, about subject: Purchase? = nil, isPrompt: Bool = false,
        consumptionRequestReason: String? = nil, unclaimedSeats: [String] = []
    ) {
        var signedDate = isPrompt ? instant : instant.advanced(byMilliseconds: signingLagMilliseconds)
        if let last = notifications.last {
            let earliest = last.signedDate.advanced(byMilliseconds: Self.secondMilliseconds)
            precondition(!isPrompt || earliest <= instant, "actions are too close to each other")
            signedDate = max(signedDate, earliest)
        }
        notifications.append(
            StoreNotification(
                notificationUUID: identifiers.uuid(), signedDate: signedDate, version2: version2, version1: version1,
                subject: subject ?? current, purchases: purchases, renewalPreference: renewalPreference, status: status,
                consumptionRequestReason: consumptionRequestReason, unclaimedSeats: unclaimedSeats))
        record(at: instant)
    }

    /// Adds the books after an event at the instant to the history.
    mutating func record(at instant: Instant, isNotified: Bool = true) {
        history.append(
            BookEntry(
                at: max(instant, history.last?.at ?? instant), purchases: purchases,
                renewalPreference: renewalPreference, access: access, isNotified: isNotified))
    }

    /// Records a notification that only version 1 sends.
    mutating func sendVersion1(_ type: String, at instant: Instant, _ status: StoreNotification.Status?) {
        send(nil, version1: type, at: instant, status)
    }
}
