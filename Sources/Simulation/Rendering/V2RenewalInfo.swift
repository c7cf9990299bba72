import Encoding

/// The payload of a signed renewal info, with Apple's field names. Nil fields are omitted.
package struct V2RenewalInfo: Sendable, Hashable {
    package var originalTransactionId: String?
    package var autoRenewProductId: String?
    package var productId: String?
    /// 0 for off, 1 for on.
    package var autoRenewStatus: Int?
    package var expirationIntent: Int?
    package var isInBillingRetryPeriod: Bool?
    package var gracePeriodExpiresDate: Instant?
    package var priceIncreaseStatus: Int?
    package var offerType: Int?
    package var offerIdentifier: String?
    package var offerDiscountType: String?
    package var offerPeriod: String?
    package var recentSubscriptionStartDate: Instant?
    package var renewalDate: Instant?
    package var currency: String?
    /// In thousandths of the currency's unit.
    package var renewalPrice: Int64?
    package var appAccountToken: String?
    package var appTransactionId: String?
    package var signedDate: Instant?
    package var environment: String?
    package var renewalBillingPlanType: String?
    package var commitment: NextCommitment?
    package var seats: Seats?

    /// What follows a commitment that is billed monthly.
    package struct NextCommitment: Sendable, Hashable {
        package let productId: String
        package let isOn: Bool
        package let billingPlanType: String?
        package let date: Instant
        /// In thousandths of the currency's unit.
        package let price: Int64
    }

    package init() {}

    /// The JSON text to sign.
    package var json: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("originalTransactionId", originalTransactionId)
            writer.member("autoRenewProductId", autoRenewProductId)
            writer.member("productId", productId)
            writer.member("autoRenewStatus", autoRenewStatus)
            writer.member("expirationIntent", expirationIntent)
            writer.member("isInBillingRetryPeriod", isInBillingRetryPeriod)
            writer.milliseconds("gracePeriodExpiresDate", gracePeriodExpiresDate)
            writer.member("priceIncreaseStatus", priceIncreaseStatus)
            writer.member("offerType", offerType)
            writer.member("offerIdentifier", offerIdentifier)
            writer.member("offerDiscountType", offerDiscountType)
            writer.member("offerPeriod", offerPeriod)
            writer.milliseconds("recentSubscriptionStartDate", recentSubscriptionStartDate)
            writer.milliseconds("renewalDate", renewalDate)
            writer.member("currency", currency)
            writer.member("renewalPrice", renewalPrice)
            writer.member("appAccountToken", appAccountToken)
            writer.member("appTransactionId", appTransactionId)
            writer.milliseconds("signedDate", signedDate)
            writer.member("environment", environment)
            writer.member("renewalBillingPlanType", renewalBillingPlanType)
            if let commitment { Self.write(commitment, to: &writer) }
            if let seats { Self.write(seats, to: &writer) }
        }
        return writer.bytes
    }

    private static func write(_ commitment: NextCommitment, to writer: inout JSONWriter) {
        writer.key("commitmentInfo")
        writer.object { writer in
            writer.member("commitmentAutoRenewProductId", commitment.productId)
            writer.member("commitmentAutoRenewStatus", commitment.isOn ? 1 : 0)
            writer.member("commitmentRenewalBillingPlanType", commitment.billingPlanType)
            writer.milliseconds("commitmentRenewalDate", commitment.date)
            writer.member("commitmentRenewalPrice", commitment.price)
        }
    }

    private static func write(_ seats: Seats, to writer: inout JSONWriter) {
        writer.member("renewalQuantity", seats.quantity)
        writer.key("multiSeatInfo")
        writer.object { $0.tiers("renewalPriceTiers", seats) }
    }
}
