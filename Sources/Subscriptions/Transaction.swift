/// A purchase or renewal as the App Store states it: one charge, one period of access.
///
/// Field names are those of Apple's signed transactions; V1's names are translated into them (`cancellation_date`
/// is `revocationDate`).
package struct Transaction: Sendable, Hashable {
    package var transactionId: String
    /// The subscription line that the transaction belongs to; survives renewals, cancelling and resubscribing.
    package var originalTransactionId: String
    /// The same for one period on every device; a restored row has a new `transactionId` and this id unchanged.
    package var webOrderLineItemId: String?
    package var productId: String?
    package var subscriptionGroupIdentifier: String?
    package var quantity: Int?
    package var purchaseDate: Instant?
    package var originalPurchaseDate: Instant?
    /// Auto-renewable subscriptions only.
    package var expiresDate: Instant?
    /// Refunded, revoked or replaced by an upgrade at this time.
    package var revocationDate: Instant?
    /// 1 an issue in the app, 0 any other reason.
    package var revocationReason: Int?
    package var isUpgraded: Bool
    /// Whether leaving out revocation and upgrade says that there is none. True of signed transactions and of unified
    /// receipts; rows of the older receipts carry them only in the notification about the cancellation itself.
    package var statesRevocation: Bool
    package var isTrialPeriod: Bool?
    package var isInIntroOfferPeriod: Bool?
    /// `PURCHASED` or `FAMILY_SHARED`.
    package var inAppOwnershipType: String?
    package var promotionalOfferId: String?
    package var offerCodeRefName: String?
    package var appAccountToken: String?

    package init(transactionId: String, originalTransactionId: String) {
        self.transactionId = transactionId
        self.originalTransactionId = originalTransactionId
        self.isUpgraded = false
        self.statesRevocation = true
    }

    package var isFamilyShared: Bool { inAppOwnershipType == "FAMILY_SHARED" }
}

extension Transaction {
    /// This statement, with what it leaves open taken from an earlier one about the same transaction.
    ///
    /// What describes the purchase stays known once it was said. Revocation and upgrade are taken from this
    /// statement as they stand, absent included if it states them: a refund that was reversed is stated by its
    /// absence.
    package func completed(by earlier: Transaction) -> Transaction {
        var result = self
        if !statesRevocation {
            result.revocationDate = revocationDate ?? earlier.revocationDate
            result.revocationReason = revocationReason ?? earlier.revocationReason
            result.isUpgraded = isUpgraded || earlier.isUpgraded
        }
        result.statesRevocation = statesRevocation || earlier.statesRevocation
        result.webOrderLineItemId = webOrderLineItemId ?? earlier.webOrderLineItemId
        result.productId = productId ?? earlier.productId
        result.subscriptionGroupIdentifier = subscriptionGroupIdentifier ?? earlier.subscriptionGroupIdentifier
        result.quantity = quantity ?? earlier.quantity
        result.purchaseDate = purchaseDate ?? earlier.purchaseDate
        result.originalPurchaseDate = originalPurchaseDate ?? earlier.originalPurchaseDate
        result.expiresDate = expiresDate ?? earlier.expiresDate
        result.isTrialPeriod = isTrialPeriod ?? earlier.isTrialPeriod
        result.isInIntroOfferPeriod = isInIntroOfferPeriod ?? earlier.isInIntroOfferPeriod
        result.inAppOwnershipType = inAppOwnershipType ?? earlier.inAppOwnershipType
        result.promotionalOfferId = promotionalOfferId ?? earlier.promotionalOfferId
        result.offerCodeRefName = offerCodeRefName ?? earlier.offerCodeRefName
        result.appAccountToken = appAccountToken ?? earlier.appAccountToken
        return result
    }
}
