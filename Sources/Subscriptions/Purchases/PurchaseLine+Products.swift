import Encoding

// One-time products of Google: each has one transaction, whatever was refunded of it.

extension PurchaseLine {
    /// The purchases of one-time products.
    func products(
        of history: PurchaseHistory, _ used: inout Set<String>
    ) -> [Subscription.ResolvedTransaction] {
        guard history.isProduct, let paid = history.answers.first(where: \.snapshot.wasPaid),
            let last = history.answers.last
        else { return [] }
        return paid.snapshot.items.map { item in
            let now = last.snapshot.items.first { $0.productId == item.productId } ?? item
            var id = now.orderId ?? item.orderId ?? history.purchaseToken
            if paid.snapshot.items.count > 1 { id += ":\(item.productId)" }
            while !used.insert(id).inserted { id += "+" }
            var transaction = Transaction(transactionId: id, originalTransactionId: originalTransactionId)
            transaction.productId = item.productId
            let boughtAt = paid.snapshot.startTime ?? paid.statedAt
            transaction.originalPurchaseDate = boughtAt
            // What is ordered in advance is there from its release on.
            transaction.purchaseDate = max(boughtAt, now.releaseTime ?? item.releaseTime ?? boughtAt)
            if item.isRental || now.isRental { transaction.type = Transaction.ProductType.nonRenewing.rawValue }
            transaction.appAccountToken = history.accountId
            transaction.storefront = last.snapshot.region
            history.setPrice(of: &transaction, orderId: item.orderId, productId: item.productId)
            let voids = history.voids(of: item.orderId, isNewest: true)
            var exactEnd = Subscription.ResolvedTransaction.ExactEnd(positions: voids.map(\.position))
            let bought = max(item.quantity ?? now.quantity ?? 1, 1)
            transaction.quantity = bought
            let voided = voids.reduce(0) { sum, entry in
                let (more, overflow) = sum.addingReportingOverflow(max(entry.void.quantity ?? 0, 0))
                return overflow ? .max : more
            }
            let oneTime = Subscription.ResolvedTransaction.OneTime(
                position: paid.position, isConsumed: now.isConsumed == true,
                purchaseOptionId: item.purchaseOptionId ?? now.purchaseOptionId,
                refunds: history.unitRefunds(of: item.productId, bought: bought, voids))
            if let void = voids.map(\.void).decisive ?? (voided >= bought ? voids.map(\.void).last : nil) {
                transaction.revocationDate = void.voidedAt
                transaction.revocationType = Transaction.fullRefund
                transaction.revocationReason = void.reason
            } else if last.snapshot.state == .cancelled {
                transaction.revocationDate = last.statedAt
                transaction.revocationType = Transaction.fullRefund
                exactEnd.positions = [last.position]
            } else if let refund = oneTime.refunds.last {
                transaction.revocationDate = refund.at
                transaction.revocationType = Transaction.unitRefund
                // To the nearest thousandth of a percent.
                transaction.revocationPercentage = Int(
                    (Double(bought - refund.left) / Double(bought) * 100_000).rounded())
                exactEnd.positions = oneTime.refunds.map(\.position)
            }
            var row = Subscription.ResolvedTransaction(
                boxed: Boxed(transaction), settledByCopy: nil,
                positions: Set([paid.position] + voids.map(\.position) + exactEnd.positions).sorted(), isSigned: false,
                exactEnd: exactEnd, oneTime: oneTime)
            if let orderId = item.orderId { state(orderId, item.productId, in: &row) }
            return row
        }
    }
}

extension PurchaseHistory {
    /// The refunds of units of a one-time product, oldest first: as the voids with a quantity say, and as answers say by
    /// fewer units that can still be refunded. An answer with more of them takes earlier ones back.
    fileprivate func unitRefunds(
        of productId: String, bought: Int, _ voids: [(void: PurchaseVoid, position: Int64)]
    ) -> [Subscription.ResolvedTransaction.UnitRefund] {
        typealias Refund = Subscription.ResolvedTransaction.UnitRefund
        var answered: [Refund] = []
        var lastAnswer = Instant.earliest
        for answer in answers {
            let item = answer.snapshot.items.first { $0.productId == productId }
            guard let left = item?.refundableQuantity.map({ max($0, 0) }) else { continue }
            while let last = answered.last, last.left < left { answered.removeLast() }
            if left < answered.last?.left ?? bought {
                // A notification about it is nearer to the refund than the answer.
                let notice = voids.filter { entry in
                    entry.void.isPartial && lastAnswer < entry.void.voidedAt && entry.void.voidedAt <= answer.statedAt
                }.min { ($0.void.voidedAt, $0.position) < ($1.void.voidedAt, $1.position) }
                answered.append(
                    Refund(
                        at: notice?.void.voidedAt ?? answer.statedAt, left: left,
                        position: notice?.position ?? answer.position))
            }
            lastAnswer = answer.statedAt
        }
        var left = bought
        let listed = voids.filter { $0.void.quantity != nil }
            .sorted { ($0.void.voidedAt, $0.position) < ($1.void.voidedAt, $1.position) }
            .map { entry in
                left = max(left - max(entry.void.quantity ?? 0, 0), 0)
                return Refund(at: entry.void.voidedAt, left: left, position: entry.position)
            }
        var refunds: [Refund] = []
        for refund in (answered + listed).sorted(by: { ($0.at, $1.left, $0.position) < ($1.at, $0.left, $1.position) })
        where refund.left < refunds.last?.left ?? bought {
            refunds.append(refund)
        }
        return refunds
    }
}
