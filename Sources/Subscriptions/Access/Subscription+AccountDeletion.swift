import Encoding

// The App Store answers a question about a receipt of a deleted Apple Account without naming a purchase. It is to be
// treated as if the customer had never bought anything.

extension Subscription {
    /// Refunds in full every transaction whose latest report is not later than a deletion of the account. A later report
    /// of the transaction shows that it still counts, so the order of arrival does not matter.
    static func applyAccountDeletions(
        to rows: [ResolvedTransaction], _ facts: SubscriptionFacts, _ rules: inout some RuleCollector
    ) -> [ResolvedTransaction] {
        guard !facts.accountDeletions.isEmpty else { return rows }
        var reportedAt: [String: Instant] = [:]
        for (key, statement) in facts.transactions {
            let id = key.fact.transactionId
            reportedAt[id] = max(reportedAt[id] ?? statement.statedAt, statement.statedAt)
        }
        let deletions = facts.accountDeletions.sorted { $0.key < $1.key }
        return rows.map { row in
            let latest = reportedAt[row.transaction.transactionId] ?? .earliest
            guard let (date, evidence) = deletions.first(where: { $0.key >= latest }) else { return row }
            var deleted = row
            deleted.boxed = Boxed(row.transaction.withoutAccount(since: date))
            deleted.settledByCopy = row.settledByCopy.map { Boxed($0.value.withoutAccount(since: date)) }
            deleted.positions = (row.positions + [evidence.position]).sorted()
            rules.collect(
                AppliedRule(
                    .accountDeleted, transactionId: row.transaction.transactionId,
                    productId: row.transaction.productId, at: date, positions: [evidence.position]))
            return deleted
        }
    }
}

extension Transaction {
    /// Returns the transaction as refunded in full. Who did not pay for it cannot be refunded, so that access ends instead.
    fileprivate func withoutAccount(since date: Instant) -> Transaction {
        guard !isRefunded, !isFamilyRevoked, revocation != .assignmentRevoked else { return self }
        var result = self
        result.revocationDate = date
        if !result.isRefunded, !isPaidByAnother {
            result.revocationType = Self.fullRefund
            result.revocationPercentage = nil
        }
        return result
    }
}
