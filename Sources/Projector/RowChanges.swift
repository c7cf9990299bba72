import Subscriptions

/// The rows of some lines that differ between two states of them. Most notifications repeat what was known, and a row
/// that stays as it is costs nothing.
struct RowChanges {
    typealias LineTransaction = (line: String, transactionId: String)
    typealias LinePeriod = (line: String, period: AccessPeriod)

    /// To be deleted: they are gone, or others take their place.
    private(set) var oldTransactions: [LineTransaction] = []
    private(set) var oldPeriods: [LinePeriod] = []
    private(set) var newTransactions: [Subscription.ResolvedTransaction] = []
    private(set) var newPeriods: [LinePeriod] = []

    /// Adds a line's.
    ///
    /// - Parameter old: Nil to write all rows.
    mutating func add(from old: Subscription?, to new: Subscription) {
        let line = new.originalTransactionId
        guard let old, !old.transactions.isEmpty || !old.access.isEmpty else {
            newTransactions += new.transactions
            for period in new.access { newPeriods.append((line, period)) }
            return
        }
        var before: [String: Subscription.ResolvedTransaction] = [:]
        for row in old.transactions { before[row.transaction.transactionId] = row }
        for row in new.transactions {
            let id = row.transaction.transactionId
            let known = before[id]
            if known == row { continue }
            newTransactions.append(row)
            // Transactions never go away, so what is old has a successor.
            if known != nil { oldTransactions.append((row.transaction.originalTransactionId, id)) }
        }
        if old.access == new.access { return }
        let (periods, newer) = (Set(old.access), Set(new.access))
        for period in old.access where !newer.contains(period) { oldPeriods.append((line, period)) }
        for period in new.access where !periods.contains(period) { newPeriods.append((line, period)) }
    }
}
