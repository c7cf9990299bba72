// A restored transaction is a copy: the same purchase under another transaction id.

extension Subscription {
    /// The property that copies of one purchase share.
    private enum Purchase: Hashable {
        /// A `webOrderLineItemId`: one per period of a subscription.
        case period(String)
        /// A non-consumable, which is bought only once.
        case owned
    }

    /// Gives all copies of one purchase the same revocation: the one in the latest report about any copy, so a reversed
    /// refund restores every copy. Among equally recent reports, one that revokes the purchase takes precedence,
    /// because a receipt may show the cancellation in only one of its rows.
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

    /// The report that determines the revocation of each purchase.
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
                // Compare receipt times instead of positions: rows of one receipt have the same receipt time, but their
                // positions differ if one of them was reported before.
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
            guard let known = decisive[purchase] else {
                decisive[purchase] = (weight, transaction)
                continue
            }
            let (earlier, later) =
                weight.isLess(than: known.weight)
                ? (transaction, known) : (known.transaction, (weight: weight, transaction: transaction))
            decisive[purchase] = (later.weight, later.transaction.withKindOfRevocation(of: earlier))
        }
        return decisive.mapValues(\.transaction)
    }
}

extension Transaction {
    /// Returns this transaction with the revocation of another copy. An upgrade is never undone.
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
