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
    /// A ``ProductType``, or another text that is newer than this version.
    package var type: String?
    /// `REFUND_FULL`, `REFUND_PRORATED` or `FAMILY_REVOKE`.
    package var revocationType: String?
    /// Thousandths of a percent: 50000 is one half.
    package var revocationPercentage: Int?
    /// 1 introductory, 2 promotional, 3 offer code, 4 win-back.
    package var offerType: Int?
    package var offerIdentifier: String?
    /// `FREE_TRIAL`, `PAY_AS_YOU_GO`, `PAY_UP_FRONT` or `ONE_TIME`.
    package var offerDiscountType: String?
    /// ISO 8601 duration.
    package var offerPeriod: String?
    /// ISO 3166-1 alpha-3.
    package var storefront: String?
    package var storefrontId: String?
    /// `PURCHASE` or `RENEWAL`.
    package var transactionReason: String?
    /// Thousandths of the currency's unit: 10990 is 10.99.
    package var price: Int64?
    /// ISO 4217.
    package var currency: String?
    /// One per Apple Account and app.
    package var appTransactionId: String?
    /// The line that this one was migrated from.
    package var previousOriginalTransactionId: String?
    /// `BILLED_UPFRONT` or `MONTHLY`.
    package var billingPlanType: String?
    /// All other fields, the App Store's newest among them.
    package var additional: CanonicalJSON?
    /// When Apple signed this statement; nil for unsigned ones. The time of a statement, and no part of it.
    package var signedDate: Instant?

    package init(transactionId: String, originalTransactionId: String) {
        self.transactionId = transactionId
        self.originalTransactionId = originalTransactionId
        self.isUpgraded = false
        self.statesRevocation = true
    }

    /// As Apple spells them.
    package enum ProductType: String, Sendable, CaseIterable {
        case autoRenewable = "Auto-Renewable Subscription"
        case nonRenewing = "Non-Renewing Subscription"
        case consumable = "Consumable"
        case nonConsumable = "Non-Consumable"
    }

    package var isFamilyShared: Bool { inAppOwnershipType == "FAMILY_SHARED" }

    /// Taken back from a family member, who never paid for it.
    package var isFamilyRevoked: Bool {
        revocationDate != nil && (isFamilyShared || revocationType == "FAMILY_REVOKE")
    }

    /// Taken back as if it had never been made. V1 writes the date of an upgrade where that of a refund would stand.
    package var isRefunded: Bool {
        revocationDate != nil && !isFamilyRevoked && !isRefundedInPart
            && (!isUpgraded || revocationType == "REFUND_FULL")
    }

    /// Refunded for the rest of its period alone.
    package var isRefundedInPart: Bool {
        revocationDate != nil && !isFamilyRevoked && revocationType == "REFUND_PRORATED"
    }

    /// ``revocationPercentage`` of what was refunded as a whole.
    private static let wholePercentage = 100_000

    /// How many of a consumable are left of the quantity at an instant after the purchase.
    ///
    /// A refund takes all of them back, as if they had never been bought. A refund in part takes its share of them back
    /// from its date on, in whole units: one that was paid for in part stays. Without a share, it takes all back.
    package func unitsLeft(at instant: Instant) -> Int {
        let bought = quantity ?? 1
        guard let revocationDate else { return bought }
        guard isRefundedInPart else { return 0 }
        if instant < revocationDate { return bought }
        let share = min(max(revocationPercentage ?? Self.wholePercentage, 0), Self.wholePercentage)
        // The same as the product divided by the whole, without its overflow.
        let (wholes, rest) = bought.quotientAndRemainder(dividingBy: Self.wholePercentage)
        return bought - wholes * share - rest * share / Self.wholePercentage
    }
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
            result.revocationType = revocationType ?? earlier.revocationType
            result.revocationPercentage = revocationPercentage ?? earlier.revocationPercentage
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
        result.type = type ?? earlier.type
        result.offerType = offerType ?? earlier.offerType
        result.offerIdentifier = offerIdentifier ?? earlier.offerIdentifier
        result.offerDiscountType = offerDiscountType ?? earlier.offerDiscountType
        result.offerPeriod = offerPeriod ?? earlier.offerPeriod
        result.storefront = storefront ?? earlier.storefront
        result.storefrontId = storefrontId ?? earlier.storefrontId
        result.transactionReason = transactionReason ?? earlier.transactionReason
        result.price = price ?? earlier.price
        result.currency = currency ?? earlier.currency
        result.appTransactionId = appTransactionId ?? earlier.appTransactionId
        result.previousOriginalTransactionId = previousOriginalTransactionId ?? earlier.previousOriginalTransactionId
        result.billingPlanType = billingPlanType ?? earlier.billingPlanType
        result.additional = additional ?? earlier.additional
        return result
    }
}
