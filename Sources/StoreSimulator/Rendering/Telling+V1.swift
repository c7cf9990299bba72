import Foundation
import Subscriptions

extension Telling {
    /// The body of version 1: a snapshot of the line. Nil for what version 1 does not tell.
    package func version1Body(app: SimulatedApp, customer: Customer) -> [UInt8]? {
        guard let type = version1 else { return nil }
        let isProduction = app.environment == .production
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("notification_type", type)
            writer.member("environment", isProduction ? "PROD" : "Sandbox")
            writer.member("password", app.sharedSecret)
            writer.member("bid", app.bundleId)
            writer.member("bvrs", app.bundleVersion)
            writeRenewal(to: &writer)
            if type == "REVOKE" { writer.member("original_transaction_id", purchases.first?.transactionId) }
            writer.key("unified_receipt")
            writer.object { writer in
                writer.member("status", 0)
                writer.member("environment", app.environmentName)
                writer.member("latest_receipt", receipt(characters: app.receiptCharacters))
                writer.key("latest_receipt_info")
                writer.array(purchases.reversed().prefix(Self.rowsMax)) { write($1, customer, to: &$0) }
                writer.key("pending_renewal_info")
                writer.array([intention].compactMap(\.self)) { writePending($1, to: &$0) }
            }
            writer.member("deprecation", "2023-06-05")
        }
        return writer.bytes
    }

    /// Apple sends the latest hundred purchases of an account.
    private static let rowsMax = 100

    /// The top-level members about the next renewal.
    private func writeRenewal(to writer: inout JSONWriter) {
        guard let intention else { return }
        writer.member("auto_renew_product_id", intention.nextProduct.id)
        writer.member("auto_renew_adam_id", "1500000000")
        writer.member("auto_renew_status", intention.isOn ? "true" : "false")
        if let date = intention.switchedAt {
            writer.member("auto_renew_status_change_date", V1Date.gmt(date))
            writer.member("auto_renew_status_change_date_ms", String(date.milliseconds))
            writer.member("auto_renew_status_change_date_pst", V1Date.pacific(date))
        }
        writer.member("expiration_intent", intention.expiration?.rawValue)
    }

    private func write(_ purchase: Purchase, _ customer: Customer, to writer: inout JSONWriter) {
        let cancelled = purchase.revocation?.date ?? purchase.upgradedAt
        let isTrial = purchase.offer.map { $0.kind == .introductory && $0.isFree } ?? false
        let isIntroductory = purchase.offer.map { $0.kind == .introductory && !$0.isFree } ?? false
        writer.object { writer in
            writer.member("quantity", String(purchase.quantity))
            writer.member("product_id", purchase.product.id)
            writer.member("transaction_id", purchase.transactionId)
            writer.member("original_transaction_id", purchases.first?.transactionId)
            writer.dates("purchase_date", "purchase_date_ms", "purchase_date_pst", purchase.purchaseDate)
            writer.dates(
                "original_purchase_date", "original_purchase_date_ms", "original_purchase_date_pst",
                purchases.first?.purchaseDate)
            writer.dates("expires_date", "expires_date_ms", "expires_date_pst", purchase.expiresDate)
            writer.dates("cancellation_date", "cancellation_date_ms", "cancellation_date_pst", cancelled)
            if cancelled != nil { writer.member("cancellation_reason", String(purchase.revocation?.reason ?? 0)) }
            if purchase.upgradedAt != nil { writer.member("is_upgraded", "true") }
            writer.member("web_order_line_item_id", purchase.webOrderLineItemId)
            writer.member("is_trial_period", isTrial ? "true" : "false")
            writer.member("is_in_intro_offer_period", isIntroductory ? "true" : "false")
            writer.member("subscription_group_identifier", Self.subscriptionGroup)
            writer.member("in_app_ownership_type", customer.ownership)
            writer.member("app_account_token", customer.appAccountToken)
            writeOffer(purchase.offer, to: &writer)
        }
    }

    private func writePending(_ intention: Intention, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("auto_renew_product_id", intention.nextProduct.id)
            writer.member("original_transaction_id", purchases.first?.transactionId)
            writer.member("product_id", intention.product.id)
            writer.member("auto_renew_status", intention.isOn ? "1" : "0")
            writer.member("expiration_intent", intention.expiration.map { String($0.rawValue) })
            if intention.isInBillingRetry || intention.expiration == .billing {
                writer.member("is_in_billing_retry_period", intention.isInBillingRetry ? "1" : "0")
            }
            writer.dates(
                "grace_period_expires_date", "grace_period_expires_date_ms", "grace_period_expires_date_pst",
                intention.graceEnd)
            writer.member("price_consent_status", intention.priceConsent.map { String($0) })
            writeOffer(intention.offer, to: &writer)
        }
    }

    private func writeOffer(_ offer: Offer?, to writer: inout JSONWriter) {
        switch offer?.kind {
        case .promotional, .winBack: writer.member("promotional_offer_id", offer?.identifier)
        case .code: writer.member("offer_code_ref_name", offer?.identifier)
        case .introductory, nil: break
        }
    }

    /// What stands in for the receipt: base64 of nothing in particular, the same for the same notification.
    private func receipt(characters: Int) -> String {
        var random = SplitMix64(seed: UInt64(signedDate.milliseconds), UInt64(purchases.count))
        var bytes: [UInt8] = []
        while bytes.count < characters / 4 * 3 {
            withUnsafeBytes(of: random.next().littleEndian) { bytes += $0 }
        }
        return Data(bytes.prefix(characters / 4 * 3)).base64EncodedString()
    }
}

extension JSONWriter {
    /// An instant in its three renderings; the digits count.
    fileprivate mutating func dates(
        _ gmt: StaticString, _ milliseconds: StaticString, _ pacific: StaticString, _ instant: Instant?
    ) {
        guard let instant else { return }
        member(gmt, V1Date.gmt(instant))
        member(milliseconds, String(instant.milliseconds))
        member(pacific, V1Date.pacific(instant))
    }
}
