// A restored transaction is a copy: the same purchase under another transaction id.

extension Subscription {
    /// Whether the same purchase was reported before under another id.
    package func isCopy(_ row: ResolvedTransaction) -> Bool {
        func order(_ row: ResolvedTransaction) -> (Int64, String) {
            (row.positions.first ?? 0, row.transaction.transactionId)
        }
        guard let date = row.transaction.purchaseDate else { return false }
        return transactions.contains { other in
            other.transaction.purchaseDate == date && other.transaction.productId == row.transaction.productId
                && order(other) < order(row)
        }
    }

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
        _ rows: [ResolvedTransaction], _ facts: SubscriptionFacts, _ products: ProductCatalog,
        _ rules: inout some RuleCollector
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
        let decisive = decisiveStatements(facts, purchases, &rules)
        var settled = rows
        for (purchase, copies) in copies {
            guard let (copy, statement) = purchase.flatMap({ decisive[$0] }) else { continue }
            for index in copies {
                let revoked = rows[index].transaction.revoked(as: copy)
                guard revoked != rows[index].transaction else { continue }
                settled[index].settledByCopy = Boxed(revoked)
                rules.collect(.settling(rows[index].transaction, as: revoked, by: copy, statement))
            }
        }
        return settled
    }

    private static func purchase(
        of transaction: Transaction, in facts: SubscriptionFacts, _ products: ProductCatalog
    ) -> Purchase? {
        // Each of the transactions for the seats of a period can be refunded by itself.
        if transaction.isForAddedSeats { return nil }
        if let orderLine = transaction.webOrderLineItemId { return .period(orderLine) }
        guard transaction.expiresDate == nil, kind(of: transaction, in: facts, products) == .nonConsumable else {
            return nil
        }
        return .owned
    }

    /// Decides which of two reports about copies of a purchase counts.
    private struct Weight {
        let statement: SubscriptionFacts.Statement
        let isTakenBack: Bool

        /// - Returns: Also whether only taking the purchase back decides.
        func isLess(than other: Weight) -> (Bool, isTie: Bool) {
            let (first, second) = (statement, other.statement)
            if first.statedAt != second.statedAt { return (first.statedAt < second.statedAt, false) }
            if first.isSigned != second.isSigned { return (second.isSigned, false) }
            // Compare receipt times instead of positions: rows of one receipt have the same receipt time, but their
            // positions differ if one of them was reported before.
            if !first.isSigned, first.receivedAt != second.receivedAt {
                return (first.receivedAt < second.receivedAt, false)
            }
            return (!isTakenBack && other.isTakenBack, isTakenBack != other.isTakenBack)
        }
    }

    /// The report that determines the revocation of each purchase.
    private static func decisiveStatements(
        _ facts: SubscriptionFacts, _ purchases: [String: Purchase], _ rules: inout some RuleCollector
    ) -> [Purchase: (transaction: Transaction, statement: SubscriptionFacts.Statement)] {
        var decisive: [Purchase: (weight: Weight, transaction: Transaction)] = [:]
        var reports: [Purchase: [StandingCancellations.Report]] = [:]
        for (boxed, statement) in facts.orderedTransactions {
            let transaction = boxed.value
            guard transaction.statesRevocation || transaction.revocationDate != nil,
                let purchase = purchases[transaction.transactionId]
            else { continue }
            reports[purchase, default: []].append(StandingCancellations.Report((boxed, statement)))
            let weight = Weight(statement: statement, isTakenBack: transaction.isCancelled)
            guard let known = decisive[purchase] else {
                decisive[purchase] = (weight, transaction)
                continue
            }
            let (isLess, isTie) = weight.isLess(than: known.weight)
            let (earlier, later) =
                isLess ? (transaction, known) : (known.transaction, (weight: weight, transaction: transaction))
            if isTie { rules.collect(.tie(later.transaction, later.weight.statement)) }
            decisive[purchase] = (later.weight, later.transaction.withKindOfRevocation(of: earlier))
        }
        for (purchase, known) in decisive where !known.transaction.isCancelled {
            let all = reports[purchase] ?? []
            guard let last = StandingCancellations(all).standing.last else { continue }
            rules.collect(.tie(known.transaction, known.weight.statement))
            decisive[purchase] = (
                Weight(statement: all[last].statement, isTakenBack: true), all[last].transaction.value
            )
        }
        return decisive.mapValues { ($0.transaction, $0.weight.statement) }
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
