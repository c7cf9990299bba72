import Crypto
import Encoding
import Subscriptions

/// The answer to a receipt of one transaction, in the style of iOS 6: flat objects about the receipt's transaction and
/// the newest one of its subscription.
struct TransactionReceiptAnswer {
    let account: SimulatedAccount
    let app: SimulatedApp
    let seal: ReceiptSeal
    let createdAt: Instant
    let instant: Instant

    /// Nil if the receipt was made before its transaction.
    var answer: VerifyReceipt.Answer? {
        guard let subscription = account.subscriptions.first,
            let row = account.receipt(at: createdAt).rows.first,
            let entry = subscription.books(at: instant), let newest = account.receipt(at: instant).rows.first
        else { return nil }
        let isExpired = newest.isExpired(at: instant)
        let status = isExpired ? 21006 : 0
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("receipt")
            write(row, to: &writer)
            if isExpired {
                writer.key("latest_expired_receipt_info")
                write(newest, to: &writer)
            } else {
                writer.key("latest_receipt_info")
                write(newest, to: &writer)
                writer.member(
                    "latest_receipt",
                    Base64.text(
                        seal.receipt(of: account.key, style: .transaction, app: app, createdAt: instant)))
            }
            if let preference = entry.shownPreference(at: instant) { write(preference, to: &writer) }
            writer.member("status", status)
        }
        return VerifyReceipt.Answer(status: status, body: writer.bytes, account: account.key)
    }

    private func write(_ row: V1Receipt.Row, to writer: inout JSONWriter) {
        let purchase = row.purchase
        writer.object { writer in
            writer.member("bid", app.bundleId)
            writer.member("bvrs", app.bundleVersion)
            writer.member("item_id", "1500000001")
            // As long as the device ids of that time.
            let device = Insecure.SHA1.hash(data: Array(row.original.transactionId.utf8))
            writer.member("unique_identifier", Hex.text(Array(device)))
            writer.member("quantity", String(purchase.quantity))
            writer.member("product_id", purchase.product.id)
            writer.member("transaction_id", purchase.transactionId)
            writer.member("original_transaction_id", row.original.transactionId)
            writer.dates("purchase_date", "purchase_date_ms", "purchase_date_pst", purchase.purchaseDate)
            writer.dates(
                "original_purchase_date", "original_purchase_date_ms", "original_purchase_date_pst",
                row.original.purchaseDate)
            if let end = purchase.expiresDate {
                writer.member("expires_date", String(end.milliseconds))
                writer.member("expires_date_formatted", V1Date.gmt(end))
                writer.member("expires_date_formatted_pst", V1Date.pacific(end))
            }
            row.writeTerms(to: &writer)
        }
    }

    private func write(_ preference: RenewalPreference, to writer: inout JSONWriter) {
        writer.member("auto_renew_status", preference.isOn ? 1 : 0)
        writer.member("auto_renew_product_id", preference.nextProduct.id)
        writer.member("expiration_intent", preference.expiration.map { String($0.rawValue) })
        writer.member("is_in_billing_retry_period", preference.billingRetryText)
    }
}

extension V1Receipt.Row {
    fileprivate func isExpired(at instant: Instant) -> Bool {
        purchase.revocation != nil || (purchase.expiresDate.map { $0 <= instant } ?? false)
    }
}
