import Encoding
import Subscriptions

// Cancellations that a notification reports outside its receipt.

extension V1Normaliser {
    /// Marks the transaction that the body names as cancelled.
    ///
    /// Adds a defect if the notification is about a cancellation but no transaction is cancelled.
    mutating func applyCancellation(
        at date: Instant?, type: String?, subscription: String?, to transactions: inout [Transaction]
    ) {
        if type == "REFUND", let subscription {
            applyRefund(of: subscription, at: date, to: &transactions)
        } else {
            applyTopCancellation(date, to: &transactions) { type != "REFUND" || !$0.isOfSubscription }
        }
        if ["CANCEL", "REFUND", "REVOKE"].contains(type), !transactions.contains(where: { $0.revocationDate != nil }) {
            noteCancellationWithoutPurchase()
        }
    }

    /// REFUND names a purchase of any kind except an auto-renewable subscription, whose refund is CANCEL. The id of the
    /// purchase is also its `original_transaction_id`; other rows with that id are restored copies. The receipt may not
    /// contain the purchase, since it omits finished consumables and all rows but the 100 newest. In that case a
    /// transaction is added for the refund.
    private mutating func applyRefund(of purchase: String, at date: Instant?, to transactions: inout [Transaction]) {
        let rows = transactions.indices.filter {
            transactions[$0].originalTransactionId == purchase || transactions[$0].transactionId == purchase
        }
        guard !rows.contains(where: { transactions[$0].isOfSubscription }) else {
            return applyTopCancellation(date, to: &transactions) { !$0.isOfSubscription }
        }
        guard let date else {
            if !rows.contains(where: { transactions[$0].revocationDate != nil }) { noteCancellationWithoutPurchase() }
            return
        }
        for row in rows where transactions[row].revocationDate == nil {
            transactions[row].revocationDate = date
            stateReason(of: &transactions[row])
        }
        guard rows.isEmpty else { return }
        var refunded = Transaction(transactionId: purchase, originalTransactionId: purchase)
        refunded.productId = body.text("product_id")
        refunded.revocationDate = date
        stateReason(of: &refunded)
        transactions.append(refunded)
    }

    /// Old CANCEL bodies contain the cancellation at the top level, for the purchase that `web_order_line_item_id`
    /// names.
    private mutating func applyTopCancellation(
        _ date: Instant?, to transactions: inout [Transaction], where isPossible: (Transaction) -> Bool
    ) {
        guard let date else { return }
        let purchase = body.identifier("web_order_line_item_id")
        let target = transactions.firstIndex { row in
            guard isPossible(row) else { return false }
            return purchase == nil || row.webOrderLineItemId == nil
                ? transactions.count == 1 : row.webOrderLineItemId == purchase
        }
        guard let target else {
            if !transactions.contains(where: { $0.revocationDate == date }) {
                noteCancellationWithoutPurchase()
            }
            return
        }
        transactions[target].revocationDate = transactions[target].revocationDate ?? date
        stateReason(of: &transactions[target])
    }

    /// Sets the reason of the cancellation to that of the body, unless the row has one.
    private mutating func stateReason(of row: inout Transaction) {
        guard row.revocationReason == nil, row.revocationType == nil else { return }
        row.revocationReason = body.integer("cancellation_reason")
        if body.unreadableKeys.contains("cancellation_reason") { row.revocationType = Transaction.unreadable }
        body.note(row.unknownValues, named: \.receiptName)
    }

    /// Inserts the defect first, because the last ones are dropped if there are too many.
    private mutating func noteCancellationWithoutPurchase() {
        receipts.defects.insert(.cancellationWithoutPurchase, at: 0)
    }
}

extension Transaction {
    var isOfSubscription: Bool { expiresDate != nil || webOrderLineItemId != nil }
}
