/// What is to happen at the next renewal of a line, as stated at one time. Never decides access by itself.
package struct RenewalInfo: Sendable, Hashable {
    package var originalTransactionId: String
    /// The current product.
    package var productId: String?
    /// The product of the next renewal.
    package var autoRenewProductId: String?
    /// Since when `autoRenewProductId` holds, where that is not the time of the statement. V1 only: a chosen product has
    /// no date of its own there and counts from its receipt.
    package var autoRenewProductChangeDate: Instant?
    package var autoRenewStatus: Bool?
    /// When `autoRenewStatus` was last switched. V1 only.
    package var autoRenewStatusChangeDate: Instant?
    /// 1 customer switched off, 2 billing error, 3 price increase not agreed, 4 product not for sale, 5 other.
    package var expirationIntent: Int?
    package var isInBillingRetryPeriod: Bool?
    package var gracePeriodExpiresDate: Instant?
    /// 0 asked and not answered, 1 agreed.
    package var priceIncreaseStatus: Int?
    package var promotionalOfferId: String?
    package var offerCodeRefName: String?
    /// Of the next renewal, as are the other offer fields and the price.
    package var offerType: Int?
    package var offerIdentifier: String?
    package var offerDiscountType: String?
    package var offerPeriod: String?
    /// Start of the latest streak. Gaps of up to 60 days do not end one.
    package var recentSubscriptionStartDate: Instant?
    /// When the next renewal will be tried.
    package var renewalDate: Instant?
    /// Thousandths of the currency's unit.
    package var renewalPrice: Int64?
    package var currency: String?
    package var eligibleWinBackOfferIds: [String]
    package var appAccountToken: String?
    package var appTransactionId: String?
    package var renewalBillingPlanType: String?
    /// All other fields, the App Store's newest among them.
    package var additional: CanonicalJSON?
    /// When Apple signed this statement; nil for unsigned ones. The time of a statement, and no part of it.
    package var signedDate: Instant?

    package init(originalTransactionId: String) {
        self.originalTransactionId = originalTransactionId
        self.eligibleWinBackOfferIds = []
    }
}
