import Subscriptions

/// The rows of some subscriptions that differ between two states. Most notifications repeat known facts, and an
/// unchanged row costs nothing.
struct RowChanges {
    typealias SubscriptionTransaction = (originalTransactionId: String, transactionId: String)
    typealias SubscriptionPeriod = (originalTransactionId: String, reported: ReportingPeriod)

    /// Rows to delete: they are gone or replaced.
    private(set) var oldTransactions: [SubscriptionTransaction] = []
    private(set) var oldPeriods: [SubscriptionPeriod] = []
    private(set) var newTransactions: [Subscription.ResolvedTransaction] = []
    private(set) var newPeriods: [SubscriptionPeriod] = []
    /// Subscriptions that are not checked any more.
    private(set) var oldChecks: [String] = []
    private(set) var newChecks: [(originalTransactionId: String, scheduled: ScheduledCheck)] = []

    /// Adds the changed rows of a subscription.
    ///
    /// - Parameter old: Nil to write all rows.
    mutating func add(from old: Subscription?, to new: Subscription) {
        let originalTransactionId = new.originalTransactionId
        guard let old, !old.transactions.isEmpty || !old.access.isEmpty else {
            newTransactions += new.transactions
            for period in new.reportingPeriods { newPeriods.append((originalTransactionId, period)) }
            return
        }
        var isOther = old.access != new.access || (new.hasChurned && old.renewals != new.renewals)
        var before: [String: Subscription.ResolvedTransaction] = [:]
        for row in old.transactions { before[row.transaction.transactionId] = row }
        for row in new.transactions {
            let id = row.transaction.transactionId
            let known = before[id]
            if known == row { continue }
            isOther = true
            newTransactions.append(row)
            if known != nil { oldTransactions.append((row.transaction.originalTransactionId, id)) }
        }
        // Apple's transactions never disappear. The periods of Google's purchases are computed again from each answer, and
        // belong to another subscription once an earlier purchase is known.
        let ids = Set(new.transactions.map(\.transaction.transactionId))
        for row in old.transactions where !ids.contains(row.transaction.transactionId) {
            isOther = true
            oldTransactions.append((originalTransactionId, row.transaction.transactionId))
        }
        guard isOther else { return }
        let (from, to) = (old.reportingPeriods, new.reportingPeriods)
        let alike = zip(from, to).prefix { $0 == $1 }.count
        let (periods, newer) = (Set(from[alike...]), Set(to[alike...]))
        for period in from[alike...] where !newer.contains(period) {
            oldPeriods.append((originalTransactionId, period))
        }
        for period in to[alike...] where !periods.contains(period) {
            newPeriods.append((originalTransactionId, period))
        }
    }

    /// Adds the check of a subscription if it changed.
    ///
    /// - Parameters:
    ///   - old: Nil to write the row in any case.
    ///   - isNew: True if the subscription has no rows yet.
    mutating func addCheck(from old: Subscription?, to new: Subscription, isNew: Bool, _ policy: CheckPolicy) {
        let scheduled = ScheduledCheck(new, policy)
        if let old, ScheduledCheck(old, policy) == scheduled { return }
        if let scheduled {
            newChecks.append((new.originalTransactionId, scheduled))
        } else if !isNew {
            oldChecks.append(new.originalTransactionId)
        }
    }
}
