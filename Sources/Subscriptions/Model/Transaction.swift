import Encoding

/// A purchase or renewal as reported by the App Store: one charge, one period of access.
///
/// Field names are those of Apple's signed transactions; V1's names are translated into them (`cancellation_date`
/// is `revocationDate`).
package struct Transaction: Sendable, Hashable {
    package var transactionId: String
    /// The subscription that the transaction belongs to; stable across renewals, cancellation and resubscription.
    package var originalTransactionId: String
    /// Identifies a period across devices: a restored row has a new `transactionId` and the same `webOrderLineItemId`.
    package var webOrderLineItemId: String?
    package var productId: String?
    package var subscriptionGroupIdentifier: String?
    package var quantity: Int?
    package var purchaseDate: Instant?
    package var originalPurchaseDate: Instant?
    /// Auto-renewable subscriptions only.
    package var expiresDate: Instant?
    /// When the transaction was refunded, revoked or replaced by an upgrade.
    package var revocationDate: Instant?
    /// 1: an issue in the app; 0: any other reason.
    package var revocationReason: Int?
    package var isUpgraded: Bool
    /// True if an absent revocation or upgrade means that there is none. True for signed transactions and unified
    /// receipts; rows of older receipts carry them only in the notification of the cancellation itself.
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
    /// In thousandths of a percent: 50000 is one half.
    package var revocationPercentage: Int?
    /// 1: introductory, 2: promotional, 3: offer code, 4: win-back.
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
    /// In thousandths of the currency unit: 10990 is 10.99.
    package var price: Int64?
    /// ISO 4217.
    package var currency: String?
    /// One per Apple Account and app.
    package var appTransactionId: String?
    /// The subscription that this one was migrated from.
    package var previousOriginalTransactionId: String?
    /// `BILLED_UPFRONT` or `MONTHLY`.
    package var billingPlanType: String?
    /// All other fields, including those that the App Store adds in the future.
    package var additional: CanonicalJSON?
    /// When Apple signed this transaction; nil for unsigned ones. Not part of the fact's identity.
    package var signedDate: Instant?

    package init(transactionId: String, originalTransactionId: String) {
        self.transactionId = transactionId
        self.originalTransactionId = originalTransactionId
        self.isUpgraded = false
        self.statesRevocation = true
    }

    /// The raw values are Apple's.
    package enum ProductType: String, Sendable, CaseIterable {
        case autoRenewable = "Auto-Renewable Subscription"
        case nonRenewing = "Non-Renewing Subscription"
        case consumable = "Consumable"
        case nonConsumable = "Non-Consumable"
    }

    package var isFamilyShared: Bool { inAppOwnershipType == "FAMILY_SHARED" }

    /// True if access by Family Sharing was revoked. The member never paid.
    package var isFamilyRevoked: Bool {
        revocationDate != nil && (isFamilyShared || revocationType == "FAMILY_REVOKE")
    }

    /// True if the purchase counts as never made. V1 uses the same field for the date of an upgrade.
    package var isRefunded: Bool {
        revocationDate != nil && !isFamilyRevoked && !isRefundedInPart
            && (!isUpgraded || revocationType == "REFUND_FULL")
    }

    /// True if only the rest of the period was refunded.
    package var isRefundedInPart: Bool {
        revocationDate != nil && !isFamilyRevoked && revocationType == "REFUND_PRORATED"
    }

    /// The ``revocationPercentage`` of a full refund.
    private static let wholePercentage = 100_000

    /// The units of a consumable that remain at an instant after the purchase.
    ///
    /// A full refund removes all units, as if they had never been bought. A partial refund removes its share of them
    /// from its date on, in whole units: a unit that is still partly paid for remains. Without a percentage it removes
    /// all units.
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
    /// Returns this transaction, with missing fields filled in from an earlier report of the same transaction.
    ///
    /// Fields that describe the purchase stay known once reported. Revocation and upgrade are taken from this report,
    /// even if absent, when ``statesRevocation`` is true: the absence of a refund reports its reversal.
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
