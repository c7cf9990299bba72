import Encoding
import Subscriptions

extension JSONFields {
    /// Reads a transaction of receipt info of the iOS 6 or iOS 7 style, whose keys do not conflict.
    ///
    /// - Parameters:
    ///   - subscription: The subscription that the body names, for rows that omit theirs.
    ///   - isCurrent: True for receipt info of the time of the body, whose rows contain their cancellation from then on.
    /// - Returns: Nil, with a defect, if the row has no id.
    mutating func transaction(of subscription: String?, isCurrent: Bool) -> Transaction? {
        guard let transactionId = identifier("transaction_id") else {
            note("transaction_id", "is missing, the row is passed over")
            return nil
        }
        guard let originalTransactionId = identifier("original_transaction_id") ?? subscription else {
            note("original_transaction_id", "is missing, the row is passed over")
            return nil
        }
        var row = Transaction(transactionId: transactionId, originalTransactionId: originalTransactionId)
        row.webOrderLineItemId = identifier("web_order_line_item_id")
        row.productId = text("product_id")
        row.subscriptionGroupIdentifier = identifier("subscription_group_identifier")
        row.quantity = integer("quantity")
        row.purchaseDate = instant("purchase_date_ms", "purchase_date", "purchase_date_pst")
        row.originalPurchaseDate = instant(
            "original_purchase_date_ms", "original_purchase_date", "original_purchase_date_pst")
        row.expiresDate = instant(
            "expires_date_ms", "expires_date", "expires_date_formatted", "expires_date_pst",
            "expires_date_formatted_pst")
        row.revocationDate = instant("cancellation_date_ms", "cancellation_date", "cancellation_date_pst")
        row.revocationReason = integer("cancellation_reason")
        row.isUpgraded = flag("is_upgraded") ?? false
        row.statesRevocation =
            isCurrent
            && unreadableKeys.isDisjoint(
                with: ["cancellation_date_ms", "cancellation_date", "cancellation_date_pst", "is_upgraded"])
        row.isTrialPeriod = flag("is_trial_period")
        row.isInIntroOfferPeriod = flag("is_in_intro_offer_period")
        row.inAppOwnershipType = text("in_app_ownership_type")
        row.promotionalOfferId = text("promotional_offer_id")
        row.offerCodeRefName = text("offer_code_ref_name")
        row.appAccountToken = accountToken("app_account_token")
        if unreadableKeys.contains("cancellation_reason") { row.revocationType = Transaction.unreadable }
        if unreadableKeys.contains("in_app_ownership_type") { row.inAppOwnershipType = Transaction.unreadable }
        note(row.allUnknownValues, named: \.receiptName)
        noteDuration(of: row, "expires_date_ms")
        return row
    }

    /// Reads an element of `pending_renewal_info`, or an answer of the iOS 6 style, which has the same keys.
    ///
    /// - Parameter subscription: The subscription that it is about, if it does not name one; nil if that is not known.
    /// - Returns: Nil, with a defect, if no subscription is named.
    mutating func renewal(of subscription: @autoclosure () -> String?) -> RenewalInfo? {
        guard let subscription = identifier("original_transaction_id") ?? subscription() else {
            note("original_transaction_id", "is missing, the element is passed over")
            return nil
        }
        var renewal = RenewalInfo(originalTransactionId: subscription)
        renewal.productId = text("product_id")
        renewal.autoRenewProductId = text("auto_renew_product_id")
        renewal.autoRenewStatus = flag("auto_renew_status")
        renewal.expirationIntent = integer("expiration_intent")
        renewal.isInBillingRetryPeriod = flag("is_in_billing_retry_period")
        renewal.gracePeriodExpiresDate = instant(
            "grace_period_expires_date_ms", "grace_period_expires_date", "grace_period_expires_date_pst")
        renewal.priceIncreaseStatus = integer("price_consent_status") ?? integer("price_increase_status")
        renewal.promotionalOfferId = text("promotional_offer_id")
        renewal.offerCodeRefName = text("offer_code_ref_name")
        note(renewal.unknownValues, named: \.receiptName)
        return renewal
    }
}
