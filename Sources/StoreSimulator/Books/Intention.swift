import Subscriptions

/// What is to happen at the next renewal, as the store's books have it.
package struct Intention: Sendable, Hashable {
    /// Why a line ended, in Apple's numbers.
    package enum Expiration: Int, Sendable {
        case switchedOff = 1
        case billing, price, notForSale, other
    }

    package var product: Product
    package var nextProduct: Product
    package var isOn = true
    /// When `isOn` was last switched.
    package var switchedAt: Instant?
    package var expiration: Expiration?
    package var isInBillingRetry = false
    package var graceEnd: Instant?
    /// 0 asked, 1 agreed; nil when no increase was announced.
    package var priceConsent: Int?
    /// Of the next renewal.
    package var offer: Offer?
    /// When the next renewal is due.
    package var renewalDate: Instant
    /// In thousandths of the currency's unit.
    package var price: Int64
    /// Since when the line runs, short gaps passed over.
    package var streakStart: Instant
}
