import Subscriptions

/// The rows of one line that differ between two states of it. Most notifications repeat what was known, and a row that
/// stays as it is costs nothing.
struct RowChanges {
    typealias LinePeriod = (line: String, period: AccessPeriod)

    /// To be deleted: they are gone, or others take their place.
    private(set) var oldTransactions: [Transaction] = []
    private(set) var oldPeriods: [LinePeriod] = []
    private(set) var newTransactions: [Subscription.ResolvedTransaction] = []
    private(set) var newPeriods: [LinePeriod] = []

    /// - Parameter old: Nil to write all rows.
    init(from old: Subscription?, to new: Subscription) {
        let line = new.originalTransactionId
        guard let old else {
            newTransactions = new.transactions
            newPeriods = new.access.map { (line, $0) }
            return
        }
        let before = Dictionary(uniqueKeysWithValues: old.transactions.map { ($0.transaction.transactionId, $0) })
        newTransactions = new.transactions.filter { before[$0.transaction.transactionId] != $0 }
        // Transactions never go away, so what is old has a successor.
        oldTransactions = newTransactions.compactMap { before[$0.transaction.transactionId]?.transaction }
        let (periods, newer) = (Set(old.access), Set(new.access))
        oldPeriods = old.access.filter { !newer.contains($0) }.map { (line, $0) }
        newPeriods = new.access.filter { !periods.contains($0) }.map { (line, $0) }
    }
}
