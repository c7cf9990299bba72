import Encoding

/// The renewal preferences and status of a subscription at one time. Never grants access by itself.
package struct RenewalInfo: Sendable, Hashable {
    package var originalTransactionId: String
    /// The current product.
    package var productId: String?
    /// The product of the next renewal.
    package var autoRenewProductId: String?
    /// When `autoRenewProductId` took effect, if that is not the time of the report. V1 only: its notifications contain
    /// no date of the choice, so it takes effect when it is received.
    package var autoRenewProductChangeDate: Instant?
    package var autoRenewStatus: Bool?
    /// When `autoRenewStatus` last changed. V1 only.
    package var autoRenewStatusChangeDate: Instant?
    /// 1: the customer cancelled, 2: billing error, 3: price increase not accepted, 4: product unavailable, 5: other.
    package var expirationIntent: Int?
    package var isInBillingRetryPeriod: Bool?
    package var gracePeriodExpiresDate: Instant?
    /// 0: the customer has not responded, 1: the customer agreed.
    package var priceIncreaseStatus: Int?
    package var promotionalOfferId: String?
    package var offerCodeRefName: String?
    /// Applies to the next renewal, like the other offer fields and the price.
    package var offerType: Int?
    package var offerIdentifier: String?
    package var offerDiscountType: String?
    package var offerPeriod: String?
    /// Start of the most recent streak, which ignores gaps of up to 60 days.
    package var recentSubscriptionStartDate: Instant?
    /// When the App Store will attempt the next renewal.
    package var renewalDate: Instant?
    /// In thousandths of the currency unit.
    package var renewalPrice: Int64?
    package var currency: String?
    package var eligibleWinBackOfferIds: [String]
    package var appAccountToken: String?
    package var appTransactionId: String?
    package var renewalBillingPlanType: String?
    /// All other fields, including those that the App Store adds in the future.
    package var additional: CanonicalJSON?
    /// When Apple signed this renewal info; nil for unsigned ones. Not part of the fact's identity.
    package var signedDate: Instant?

    package init(originalTransactionId: String) {
        self.originalTransactionId = originalTransactionId
        self.eligibleWinBackOfferIds = []
    }
}
