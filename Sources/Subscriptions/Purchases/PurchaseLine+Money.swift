import Encoding

// What the orders of Google say of money beyond the price: tax, what the developer receives, and what was paid back.

extension PurchaseLine {
    /// Sets what an order states of a transaction that it paid for.
    ///
    /// What was paid back takes no access away, so it changes how a transaction ended only if nothing else ended it.
    func state(_ orderId: String, _ productId: String, in row: inout Subscription.ResolvedTransaction) {
        guard let history = histories.first(where: { $0.orders[orderId] != nil }), let order = history.orders[orderId],
            let price = row.transaction.price, order.isPaid
        else { return }
        let item = order.items.first { $0.productId == productId }
        var transaction = row.transaction
        transaction.tax = item?.tax ?? order.share(of: order.tax, productId)
        transaction.developerRevenue = order.share(of: order.developerRevenue, productId)
        let refunds = order.refunds.compactMap { refund in
            order.share(of: refund.amount, productId).map { amount in
                Subscription.ResolvedTransaction.AmountRefund(
                    at: refund.at, amount: amount, position: history.position(of: refund, of: orderId) ?? 0)
            }
        }
        let refunded = refunds.reduce(Int64(0)) { sum, refund in
            let (next, overflow) = sum.addingReportingOverflow(refund.amount)
            return overflow ? price : min(next, price)
        }
        // A void says that all of it was paid back, unless a later answer about the order says how much was.
        let isStated =
            !transaction.isRefunded || history.isRefundedInPart(order, statedAfter: transaction.revocationDate)
        // The last of several refunds can be a void, which takes the purchase back.
        if transaction.isRefunded, refunds.count > 1, refunded == price { row.statedRefunds = refunds }
        if let last = refunds.last, isStated {
            transaction.refundedPrice = refunded
            if !transaction.isRefunded { row.statedRefunds = refunds }
            row.positions = Set(row.positions + refunds.map(\.position)).sorted()
            if transaction.revocationDate == nil, !transaction.isUpgraded {
                row.amountRefunds = refunds
                transaction.state(refunded: refunded, of: price, at: last.at)
                transaction.revocationReason = order.refunds.last?.reason
            }
        }
        row.boxed = Boxed(transaction)
    }
}

extension PurchaseOrder.Refund {
    /// As in ``PurchaseVoid/reason``.
    fileprivate var reason: Int? {
        switch reasonName {
        case "OTHER": 0
        case Self.chargeback: 7
        default: nil
        }
    }
}

extension PurchaseOrder {
    /// The part of an amount for the whole order that is one product's, by what was paid for each. The parts of all
    /// products add up to the amount.
    ///
    /// - Returns: Nil if the amount is not known, or not what was paid for each product.
    package func share(of amount: Int64?, _ productId: String) -> Int64? {
        guard let amount, items.count > 1 else { return amount }
        guard let index = items.firstIndex(where: { $0.productId == productId }) else { return nil }
        var (before, sum): (UInt64, UInt64) = (0, 0)
        for (place, item) in items.enumerated() {
            guard let total = item.total, total >= 0 else { return nil }
            let (next, overflow) = sum.addingReportingOverflow(total.magnitude)
            guard !overflow else { return nil }
            if place == index { before = sum }
            sum = next
        }
        guard sum > 0 else { return nil }
        func part(_ paid: UInt64) -> Int64 {
            let share = sum.dividingFullWidth(amount.magnitude.multipliedFullWidth(by: paid)).quotient
            return amount.signum() * Int64(clamping: share)
        }
        return part(before + (items[index].total?.magnitude ?? 0)) - part(before)
    }
}
