import Encoding

/// The state of the next renewal, as Apple's renewal info reports it.
package struct RenewalPreference: Sendable, Hashable {
    /// Why a subscription expired, as Apple's `expirationIntent`.
    package enum Expiration: Int, Sendable {
        case switchedOff = 1
        case billing, price, notForSale, other
    }

    package var product: Product
    package var nextProduct: Product
    package var isOn = true
    /// When `isOn` last changed.
    package var switchedAt: Instant?
    package var expiration: Expiration?
    package var isInBillingRetry = false
    package var graceEnd: Instant?
    /// 0 if consent is pending, 1 if given; nil if no price increase was announced.
    package var priceConsent: Int?
    /// The offer that applies to the next renewal.
    package var offer: Offer?
    /// The seats of the next renewal; nil if it is for one person.
    package var seats: Seats?
    /// Of a plan with a commitment: whether it renews when the commitment is over. `isOn` stays true until then.
    package var isCommitmentOn = true
    /// When the next renewal is due.
    package var renewalDate: Instant
    /// In thousandths of the currency's unit.
    package var price: Int64
    /// Apple's `recentSubscriptionStartDate`: the start of the current run of periods, ignoring short gaps.
    package var streakStart: Instant
}
