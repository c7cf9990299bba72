/// What is to happen at the next renewal of a line, as stated at one time. Never decides access by itself.
package struct RenewalInfo: Sendable, Hashable {
    package var originalTransactionId: String
    /// The current product.
    package var productId: String?
    /// The product of the next renewal.
    package var autoRenewProductId: String?
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

    package init(originalTransactionId: String) {
        self.originalTransactionId = originalTransactionId
    }
}
