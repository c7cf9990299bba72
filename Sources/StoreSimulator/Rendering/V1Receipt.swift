import Encoding

/// The receipt of an Apple Account: for each subscription the state in its latest notification.
struct V1Receipt {
    struct Entry {
        let notification: StoreNotification
        let customer: Customer
    }

    private let entries: [Entry]

    /// - Parameters:
    ///   - notification: The notification that contains the receipt.
    ///   - companions: The other subscriptions of the account. The receipt contains their state at the time of signing.
    init(_ notification: StoreNotification, _ customer: Customer, companions: [SimulatedSubscription]) {
        entries =
            [Entry(notification: notification, customer: customer)]
            + companions.compactMap { companion in
                companion.notifications.last { $0.signedDate <= notification.signedDate }
                    .map { Entry(notification: $0, customer: companion.customer) }
            }
    }

    /// Apple sends the latest 100 purchases of an account.
    private static let rowsMax = 100

    /// Writes the purchases, newest first. Consumables are omitted: they leave the receipt when the app finishes them.
    func writeRows(to writer: inout JSONWriter) {
        let rows = entries.flatMap { entry in entry.notification.purchases.map { (entry, $0) } }
            .filter { $0.1.product.kind != .consumable }
            .sorted { ($0.1.purchaseDate, $0.1.transactionId) > ($1.1.purchaseDate, $1.1.transactionId) }
        writer.array(rows.prefix(Self.rowsMax)) { $1.0.write($1.1, to: &$0) }
    }

    func writePending(to writer: inout JSONWriter) {
        writer.array(entries.filter { $0.notification.renewalPreference != nil }) { $1.writePending(to: &$0) }
    }
}

extension V1Receipt.Entry {
    fileprivate func write(_ purchase: Purchase, to writer: inout JSONWriter) {
        let cancelled = purchase.revocation?.date ?? purchase.upgradedAt
        let isTrial = purchase.offer.map { $0.kind == .introductory && $0.isFree } ?? false
        let isIntroductory = purchase.offer.map { $0.kind == .introductory && !$0.isFree } ?? false
        writer.object { writer in
            writer.member("quantity", String(purchase.quantity))
            writer.member("product_id", purchase.product.id)
            writer.member("transaction_id", purchase.transactionId)
            writer.member("original_transaction_id", notification.purchases.first?.transactionId)
            writer.dates("purchase_date", "purchase_date_ms", "purchase_date_pst", purchase.purchaseDate)
            writer.dates(
                "original_purchase_date", "original_purchase_date_ms", "original_purchase_date_pst",
                notification.purchases.first?.purchaseDate)
            writer.dates("expires_date", "expires_date_ms", "expires_date_pst", purchase.expiresDate)
            writer.dates("cancellation_date", "cancellation_date_ms", "cancellation_date_pst", cancelled)
            if cancelled != nil { writer.member("cancellation_reason", String(purchase.revocation?.reason ?? 0)) }
            if purchase.upgradedAt != nil { writer.member("is_upgraded", "true") }
            writer.member("web_order_line_item_id", purchase.webOrderLineItemId)
            writer.member("is_trial_period", isTrial ? "true" : "false")
            writer.member("is_in_intro_offer_period", isIntroductory ? "true" : "false")
            writer.member("subscription_group_identifier", purchase.product.subscriptionGroup)
            writer.member("in_app_ownership_type", customer.ownership)
            writer.member("app_account_token", purchase.appAccountToken)
            writer.offer(purchase.offer)
        }
    }

    fileprivate func writePending(to writer: inout JSONWriter) {
        guard let renewalPreference = notification.renewalPreference else { return }
        writer.object { writer in
            writer.member("auto_renew_product_id", renewalPreference.nextProduct.id)
            writer.member("original_transaction_id", notification.purchases.first?.transactionId)
            writer.member("product_id", renewalPreference.product.id)
            writer.member("auto_renew_status", renewalPreference.isOn ? "1" : "0")
            writer.member("expiration_intent", renewalPreference.expiration.map { String($0.rawValue) })
            if renewalPreference.isInBillingRetry || renewalPreference.expiration == .billing {
                writer.member("is_in_billing_retry_period", renewalPreference.isInBillingRetry ? "1" : "0")
            }
            writer.dates(
                "grace_period_expires_date", "grace_period_expires_date_ms", "grace_period_expires_date_pst",
                renewalPreference.graceEnd)
            writer.member("price_consent_status", renewalPreference.priceConsent.map { String($0) })
            writer.offer(renewalPreference.offer)
        }
    }
}

extension JSONWriter {
    /// Writes an instant in Apple's three formats. Readers use the milliseconds.
    fileprivate mutating func dates(
        _ gmt: StaticString, _ milliseconds: StaticString, _ pacific: StaticString, _ instant: Instant?
    ) {
        guard let instant else { return }
        member(gmt, V1Date.gmt(instant))
        member(milliseconds, String(instant.milliseconds))
        member(pacific, V1Date.pacific(instant))
    }

    fileprivate mutating func offer(_ offer: Offer?) {
        switch offer?.kind {
        case .promotional, .winBack: member("promotional_offer_id", offer?.identifier)
        case .code: member("offer_code_ref_name", offer?.identifier)
        case .introductory, nil: break
        }
    }
}
