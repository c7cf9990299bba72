// A restored transaction is a copy: the same purchase under another transaction id.

extension Subscription {
    /// What copies of one purchase have in common.
    private enum Purchase: Hashable {
        /// `webOrderLineItemId`: one for each period of a subscription.
        case period(String)
        /// A non-consumable is bought once.
        case owned
    }

    /// Settles what several copies of one purchase say of its revocation: the latest statement about any of them
    /// decides, so a reversed refund gives back every copy. Of statements of one time, one that takes the purchase back
    /// decides: a receipt may show the cancellation in one of its rows alone.
    static func settleCopies(
        _ rows: [ResolvedTransaction], _ facts: SubscriptionFacts, _ products: ProductCatalog
    ) -> [ResolvedTransaction] {
        guard rows.count > 1, rows.contains(where: { $0.transaction.revocationDate != nil }) else { return rows }
        var purchases: [String: Purchase] = [:]
        var revoked: Set<Purchase> = []
        for row in rows {
            guard let purchase = purchase(of: row.transaction, in: facts, products) else { continue }
            purchases[row.transaction.transactionId] = purchase
            if row.transaction.revocationDate != nil { revoked.insert(purchase) }
        }
        let copies = Dictionary(grouping: rows.indices) { purchases[rows[$0].transaction.transactionId] }
            .filter { purchase, copies in copies.count > 1 && purchase.map(revoked.contains) ?? false }
        guard !copies.isEmpty else { return rows }
        let decisive = decisiveStatements(facts, purchases)
        var settled = rows
        for (purchase, copies) in copies {
            guard let statement = purchase.flatMap({ decisive[$0] }) else { continue }
            for index in copies {
                let revoked = rows[index].transaction.revoked(as: statement)
                if revoked != rows[index].transaction { settled[index].settledByCopy = Boxed(revoked) }
            }
        }
        return settled
    }

    private static func purchase(
        of transaction: Transaction, in facts: SubscriptionFacts, _ products: ProductCatalog
    ) -> Purchase? {
        if let orderLine = transaction.webOrderLineItemId { return .period(orderLine) }
        guard transaction.expiresDate == nil, kind(of: transaction, in: facts, products) == .nonConsumable else {
            return nil
        }
        return .owned
    }

    /// The statement about each purchase that decides about its revocation.
    private static func decisiveStatements(
        _ facts: SubscriptionFacts, _ purchases: [String: Purchase]
    ) -> [Purchase: Transaction] {
        struct Weight {
            let statement: SubscriptionFacts.Statement
            let isTakenBack: Bool

            func isLess(than other: Weight) -> Bool {
                let (first, second) = (statement, other.statement)
                if first.statedAt != second.statedAt { return first.statedAt < second.statedAt }
                if first.isSigned != second.isSigned { return second.isSigned }
                // Rows of one receipt are of one time of receipt, and of different positions if one of them is older.
                if !first.isSigned, first.receivedAt != second.receivedAt {
                    return first.receivedAt < second.receivedAt
                }
                return !isTakenBack && other.isTakenBack
            }
        }
        var decisive: [Purchase: (weight: Weight, transaction: Transaction)] = [:]
        for (boxed, statement) in facts.orderedTransactions {
            let transaction = boxed.value
            guard transaction.statesRevocation || transaction.revocationDate != nil,
                let purchase = purchases[transaction.transactionId]
            else { continue }
            let weight = Weight(
                statement: statement, isTakenBack: transaction.revocationDate != nil || transaction.isUpgraded)
            if let known = decisive[purchase], weight.isLess(than: known.weight) { continue }
            decisive[purchase] = (weight, transaction)
        }
        return decisive.mapValues(\.transaction)
    }
}

extension Transaction {
    /// This transaction with the revocation of another copy. An upgrade is never taken back.
    fileprivate func revoked(as copy: Transaction) -> Transaction {
        var result = self
        result.revocationDate = copy.revocationDate
        result.revocationReason = copy.revocationReason
        result.revocationType = copy.revocationType
        result.revocationPercentage = copy.revocationPercentage
        result.isUpgraded = isUpgraded || copy.isUpgraded
        return result
    }
}
