import Subscriptions

extension JSONFields {
    /// Reads a signed transaction (`JWSTransactionDecodedPayload`).
    ///
    /// - Parameter subscription: The subscription that the notification's renewal info names, for a transaction that
    ///   omits its own.
    /// - Returns: Nil, with a defect, if the transaction has no id.
    mutating func signedTransaction(of subscription: String?) -> Transaction? {
        guard let transactionId = identifier("transactionId") else {
            note("transactionId", "is missing, the transaction is passed over")
            return nil
        }
        guard let originalTransactionId = identifier("originalTransactionId") ?? subscription else {
            note("originalTransactionId", "is missing, the transaction is passed over")
            return nil
        }
        var row = Transaction(transactionId: transactionId, originalTransactionId: originalTransactionId)
        row.webOrderLineItemId = identifier("webOrderLineItemId")
        row.productId = text("productId")
        row.subscriptionGroupIdentifier = identifier("subscriptionGroupIdentifier")
        row.quantity = integer("quantity")
        row.purchaseDate = instant("purchaseDate")
        row.originalPurchaseDate = instant("originalPurchaseDate")
        row.expiresDate = instant("expiresDate")
        row.revocationDate = instant("revocationDate")
        row.revocationReason = integer("revocationReason")
        row.revocationType = text("revocationType")
        row.revocationPercentage = integer("revocationPercentage")
        row.isUpgraded = flag("isUpgraded") ?? false
        row.statesRevocation = unreadableKeys.isDisjoint(with: ["revocationDate", "isUpgraded"])
        row.inAppOwnershipType = text("inAppOwnershipType")
        row.appAccountToken = text("appAccountToken")?.lowercased()
        row.type = text("type")
        row.offerType = integer("offerType")
        row.offerIdentifier = text("offerIdentifier")
        row.offerDiscountType = text("offerDiscountType")
        row.offerPeriod = text("offerPeriod")
        row.storefront = text("storefront")
        row.storefrontId = text("storefrontId")
        row.transactionReason = text("transactionReason")
        row.price = integer64("price")
        row.currency = text("currency")
        row.appTransactionId = text("appTransactionId")
        row.previousOriginalTransactionId = identifier("previousOriginalTransactionId")
        row.billingPlanType = text("billingPlanType")
        row.signedDate = instant("signedDate")
        for key: StaticString in ["bundleId", "environment"] { _ = raw(key) }
        return row
    }

    /// Reads signed renewal info (`JWSRenewalInfoDecodedPayload`). Returns nil, with a defect, if it names no
    /// subscription.
    mutating func signedRenewal() -> RenewalInfo? {
        guard let subscription = identifier("originalTransactionId") else {
            note("originalTransactionId", "is missing, the renewal info is passed over")
            return nil
        }
        var renewal = RenewalInfo(originalTransactionId: subscription)
        renewal.productId = text("productId")
        renewal.autoRenewProductId = text("autoRenewProductId")
        renewal.autoRenewStatus = flag("autoRenewStatus")
        renewal.expirationIntent = integer("expirationIntent")
        renewal.isInBillingRetryPeriod = flag("isInBillingRetryPeriod")
        renewal.gracePeriodExpiresDate = instant("gracePeriodExpiresDate")
        renewal.priceIncreaseStatus = integer("priceIncreaseStatus")
        renewal.offerType = integer("offerType")
        renewal.offerIdentifier = text("offerIdentifier")
        renewal.offerDiscountType = text("offerDiscountType")
        renewal.offerPeriod = text("offerPeriod")
        renewal.recentSubscriptionStartDate = instant("recentSubscriptionStartDate")
        renewal.renewalDate = instant("renewalDate")
        renewal.renewalPrice = integer64("renewalPrice")
        renewal.currency = text("currency")
        renewal.eligibleWinBackOfferIds = texts("eligibleWinBackOfferIds")
        renewal.appAccountToken = text("appAccountToken")?.lowercased()
        renewal.appTransactionId = text("appTransactionId")
        renewal.renewalBillingPlanType = text("renewalBillingPlanType")
        renewal.signedDate = instant("signedDate")
        _ = raw("environment")
        return renewal
    }
}
