import Encoding

/// The payload of a signed transaction, with Apple's field names. Nil fields are omitted.
package struct V2Transaction: Sendable, Hashable {
    package var transactionId: String?
    package var originalTransactionId: String?
    package var webOrderLineItemId: String?
    package var bundleId: String?
    package var productId: String?
    package var subscriptionGroupIdentifier: String?
    package var purchaseDate: Instant?
    package var originalPurchaseDate: Instant?
    package var expiresDate: Instant?
    package var quantity: Int?
    package var type: String?
    package var appAccountToken: String?
    package var inAppOwnershipType: String?
    package var signedDate: Instant?
    package var revocationReason: Int?
    package var revocationDate: Instant?
    package var revocationType: String?
    /// In thousandths of a percent.
    package var revocationPercentage: Int?
    package var isUpgraded: Bool?
    package var offerType: Int?
    package var offerIdentifier: String?
    package var offerDiscountType: String?
    package var offerPeriod: String?
    package var environment: String?
    package var storefront: String?
    package var storefrontId: String?
    package var transactionReason: String?
    /// In thousandths of the currency's unit.
    package var price: Int64?
    package var currency: String?
    package var appTransactionId: String?
    package var billingPlanType: String?
    package var commitment: Commitment?
    package var seats: Seats?
    /// Rows of members do not have the number of refunded seats.
    package var showsRevokedSeats = true

    package init() {}

    /// The JSON text to sign.
    package var json: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writeIdentity(to: &writer)
            writer.milliseconds("purchaseDate", purchaseDate)
            writer.milliseconds("originalPurchaseDate", originalPurchaseDate)
            writer.milliseconds("expiresDate", expiresDate)
            writer.member("quantity", quantity)
            writer.member("type", type)
            writer.member("appAccountToken", appAccountToken)
            writer.member("inAppOwnershipType", inAppOwnershipType)
            writer.milliseconds("signedDate", signedDate)
            writer.member("revocationReason", revocationReason)
            writer.milliseconds("revocationDate", revocationDate)
            writer.member("revocationType", revocationType)
            writer.member("revocationPercentage", revocationPercentage)
            writer.member("isUpgraded", isUpgraded)
            writeTerms(to: &writer)
        }
        return writer.bytes
    }

    private func writeIdentity(to writer: inout JSONWriter) {
        writer.member("transactionId", transactionId)
        writer.member("originalTransactionId", originalTransactionId)
        writer.member("webOrderLineItemId", webOrderLineItemId)
        writer.member("bundleId", bundleId)
        writer.member("productId", productId)
        writer.member("subscriptionGroupIdentifier", subscriptionGroupIdentifier)
    }

    private func writeTerms(to writer: inout JSONWriter) {
        writer.member("offerType", offerType)
        writer.member("offerIdentifier", offerIdentifier)
        writer.member("offerDiscountType", offerDiscountType)
        writer.member("offerPeriod", offerPeriod)
        writer.member("environment", environment)
        writer.member("storefront", storefront)
        writer.member("storefrontId", storefrontId)
        writer.member("transactionReason", transactionReason)
        writer.member("price", price)
        writer.member("currency", currency)
        writer.member("appTransactionId", appTransactionId)
        writer.member("billingPlanType", billingPlanType)
        if let seats { writeSeats(seats, to: &writer) }
        guard let commitment else { return }
        writer.key("commitmentInfo")
        writer.object { writer in
            writer.member("billingPeriodNumber", commitment.billingPeriodNumber)
            writer.member("totalBillingPeriods", commitment.totalBillingPeriods)
            writer.milliseconds("commitmentExpiresDate", commitment.expiresDate)
            writer.member("commitmentPrice", commitment.price)
        }
    }
}

extension V2Transaction {
    private func writeSeats(_ seats: Seats, to writer: inout JSONWriter) {
        if seats.isOneOfSeveral { writer.member("additionalTransactionReason", "SEAT_ADDITION") }
        writer.key("multiSeatInfo")
        writer.object { writer in
            writer.member("invitationManagement", seats.invitations.rawValue)
            writer.tiers("priceTiers", seats)
            if showsRevokedSeats, seats.revoked > 0 { writer.member("revokedSeatQuantity", seats.revoked) }
        }
    }
}

extension JSONWriter {
    /// Writes the prices of seats, in no particular order.
    mutating func tiers(_ key: StaticString, _ seats: Seats) {
        self.key(key)
        array(seats.tiers.reversed()) { writer, tier in
            writer.object { writer in
                writer.member("price", tier.price)
                writer.member("quantity", tier.quantity)
            }
        }
    }

    /// Writes an instant as Apple's signed texts do: a number of epoch milliseconds.
    mutating func milliseconds(_ key: StaticString, _ instant: Instant?) {
        member(key, instant?.milliseconds)
    }
}
