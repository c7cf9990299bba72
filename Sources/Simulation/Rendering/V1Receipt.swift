import Encoding

/// The rows of a receipt: the purchases and the next renewals of an Apple Account, in the format of version 1.
struct V1Receipt {
    /// One subscription or one-time purchase.
    struct Entry {
        /// Oldest first.
        let purchases: [Purchase]
        let renewalPreference: RenewalPreference?
        let customer: Customer
    }

    struct Row {
        let purchase: Purchase
        /// The first purchase of the subscription.
        let original: Purchase
        let ownership: String
    }

    /// Which list contains the rows.
    enum List {
        case latestReceiptInfo, inApp
    }

    private let entries: [Entry]

    init(_ entries: [Entry]) {
        self.entries = entries
    }

    /// - Parameters:
    ///   - notification: The notification that contains the receipt.
    ///   - companions: The other subscriptions of the account. The receipt contains their state at the time of signing.
    init(_ notification: StoreNotification, _ customer: Customer, companions: [SimulatedSubscription]) {
        let states: [(StoreNotification, Customer)] =
            [(notification, customer)]
            + companions.compactMap { companion in
                companion.notifications.last { $0.signedDate <= notification.signedDate }.map {
                    ($0, companion.customer)
                }
            }
        entries = states.map { notification, customer in
            Entry(
                purchases: notification.purchases, renewalPreference: notification.renewalPreference,
                customer: customer)
        }
    }

    /// The purchases, newest first.
    var rows: [Row] {
        entries.flatMap { entry -> [Row] in
            guard let original = entry.purchases.first else { return [] }
            return entry.purchases.map {
                Row(purchase: $0, original: original, ownership: entry.customer.ownership)
            }
        }
        .sorted {
            ($0.purchase.purchaseDate, $0.purchase.transactionId) > (
                $1.purchase.purchaseDate, $1.purchase.transactionId
            )
        }
    }

    /// The purchases without consumables, newest first: consumables leave the receipt when the app finishes them.
    var lastingRows: [Row] { rows.filter { $0.purchase.product.kind != .consumable } }

    /// Apple sends the latest 100 purchases of an account.
    private static let rowsMax = 100

    /// Writes the purchases of a notification.
    func writeRows(to writer: inout JSONWriter) {
        writer.array(lastingRows.prefix(Self.rowsMax)) { $1.write(in: .latestReceiptInfo, to: &$0) }
    }

    func writePending(to writer: inout JSONWriter) {
        writer.array(entries.filter { $0.renewalPreference != nil }) { $1.writePending(to: &$0) }
    }
}

extension V1Receipt.Row {
    func write(in list: V1Receipt.List, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("quantity", String(purchase.quantity))
            writer.member("product_id", purchase.product.id)
            writer.member("transaction_id", purchase.transactionId)
            writer.member("original_transaction_id", original.transactionId)
            writer.dates("purchase_date", "purchase_date_ms", "purchase_date_pst", purchase.purchaseDate)
            writer.dates(
                "original_purchase_date", "original_purchase_date_ms", "original_purchase_date_pst",
                original.purchaseDate)
            writer.dates("expires_date", "expires_date_ms", "expires_date_pst", purchase.expiresDate)
            writeTerms(to: &writer)
            if list == .latestReceiptInfo {
                writer.member("subscription_group_identifier", purchase.product.subscriptionGroup)
            }
            writer.member("in_app_ownership_type", ownership)
            writer.member("app_account_token", purchase.appAccountToken)
            writer.offer(purchase.offer)
        }
    }

    /// Writes the members that the styles of iOS 6 and iOS 7 have in common.
    func writeTerms(to writer: inout JSONWriter) {
        let cancelled = purchase.revocation?.date ?? purchase.upgradedAt
        let isTrial = purchase.offer.map { $0.kind == .introductory && $0.isFree } ?? false
        let isIntroductory = purchase.offer.map { $0.kind == .introductory && !$0.isFree } ?? false
        writer.dates("cancellation_date", "cancellation_date_ms", "cancellation_date_pst", cancelled)
        if cancelled != nil { writer.member("cancellation_reason", String(purchase.revocation?.reason ?? 0)) }
        if purchase.upgradedAt != nil { writer.member("is_upgraded", "true") }
        writer.member("web_order_line_item_id", purchase.webOrderLineItemId)
        writer.member("is_trial_period", isTrial ? "true" : "false")
        writer.member("is_in_intro_offer_period", isIntroductory ? "true" : "false")
    }
}

extension V1Receipt.Entry {
    fileprivate func writePending(to writer: inout JSONWriter) {
        guard let renewalPreference else { return }
        writer.object { writer in
            writer.member("auto_renew_product_id", renewalPreference.nextProduct.id)
            writer.member("original_transaction_id", purchases.first?.transactionId)
            writer.member("product_id", renewalPreference.product.id)
            writer.member("auto_renew_status", renewalPreference.isOn ? "1" : "0")
            writer.member("expiration_intent", renewalPreference.expiration.map { String($0.rawValue) })
            writer.member("is_in_billing_retry_period", renewalPreference.billingRetryText)
            writer.dates(
                "grace_period_expires_date", "grace_period_expires_date_ms", "grace_period_expires_date_pst",
                renewalPreference.graceEnd)
            writer.member("price_consent_status", renewalPreference.priceConsent.map { String($0) })
            writer.offer(renewalPreference.offer)
        }
    }
}

extension RenewalPreference {
    /// `is_in_billing_retry_period`; nil if the renewal was never tried.
    var billingRetryText: String? {
        if isInBillingRetry { return "1" }
        return switch expiration {
        case .billing, .price, .notForSale: "0"
        case .switchedOff, .other, nil: nil
        }
    }
}

extension JSONWriter {
    /// Writes an instant in Apple's three formats. Readers use the milliseconds.
    mutating func dates(
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
