import Subscriptions

/// What the receipt of an Apple Account holds: each line as the store last told of it.
struct V1Receipt {
    struct Line {
        let telling: Telling
        let customer: Customer
    }

    private let lines: [Line]

    /// - Parameters:
    ///   - telling: Of the line that the notification is about.
    ///   - companions: The other lines of the account. What is told of them later is not in the receipt yet.
    init(_ telling: Telling, _ customer: Customer, companions: [ToldLine]) {
        lines =
            [Line(telling: telling, customer: customer)]
            + companions.compactMap { line in
                line.tellings.last { $0.signedDate <= telling.signedDate }
                    .map { Line(telling: $0, customer: line.customer) }
            }
    }

    /// Apple sends the latest hundred purchases of an account.
    private static let rowsMax = 100

    /// Newest first, without consumables: the app finishes them, and they then leave the receipt.
    func writeRows(to writer: inout JSONWriter) {
        let rows = lines.flatMap { line in line.telling.purchases.map { (line, $0) } }
            .filter { $0.1.product.kind != .consumable }
            .sorted { ($0.1.purchaseDate, $0.1.transactionId) > ($1.1.purchaseDate, $1.1.transactionId) }
        writer.array(rows.prefix(Self.rowsMax)) { $1.0.write($1.1, to: &$0) }
    }

    func writePending(to writer: inout JSONWriter) {
        writer.array(lines.filter { $0.telling.intention != nil }) { $1.writePending(to: &$0) }
    }
}

extension V1Receipt.Line {
    fileprivate func write(_ purchase: Purchase, to writer: inout JSONWriter) {
        let cancelled = purchase.revocation?.date ?? purchase.upgradedAt
        let isTrial = purchase.offer.map { $0.kind == .introductory && $0.isFree } ?? false
        let isIntroductory = purchase.offer.map { $0.kind == .introductory && !$0.isFree } ?? false
        writer.object { writer in
            writer.member("quantity", String(purchase.quantity))
            writer.member("product_id", purchase.product.id)
            writer.member("transaction_id", purchase.transactionId)
            writer.member("original_transaction_id", telling.purchases.first?.transactionId)
            writer.dates("purchase_date", "purchase_date_ms", "purchase_date_pst", purchase.purchaseDate)
            writer.dates(
                "original_purchase_date", "original_purchase_date_ms", "original_purchase_date_pst",
                telling.purchases.first?.purchaseDate)
            writer.dates("expires_date", "expires_date_ms", "expires_date_pst", purchase.expiresDate)
            writer.dates("cancellation_date", "cancellation_date_ms", "cancellation_date_pst", cancelled)
            if cancelled != nil { writer.member("cancellation_reason", String(purchase.revocation?.reason ?? 0)) }
            if purchase.upgradedAt != nil { writer.member("is_upgraded", "true") }
            writer.member("web_order_line_item_id", purchase.webOrderLineItemId)
            writer.member("is_trial_period", isTrial ? "true" : "false")
            writer.member("is_in_intro_offer_period", isIntroductory ? "true" : "false")
            writer.member("subscription_group_identifier", purchase.product.subscriptionGroup)
            writer.member("in_app_ownership_type", customer.ownership)
            writer.member("app_account_token", customer.appAccountToken)
            writer.offer(purchase.offer)
        }
    }

    fileprivate func writePending(to writer: inout JSONWriter) {
        guard let intention = telling.intention else { return }
        writer.object { writer in
            writer.member("auto_renew_product_id", intention.nextProduct.id)
            writer.member("original_transaction_id", telling.purchases.first?.transactionId)
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
            writer.offer(intention.offer)
        }
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

    fileprivate mutating func offer(_ offer: Offer?) {
        switch offer?.kind {
        case .promotional, .winBack: member("promotional_offer_id", offer?.identifier)
        case .code: member("offer_code_ref_name", offer?.identifier)
        case .introductory, nil: break
        }
    }
}
