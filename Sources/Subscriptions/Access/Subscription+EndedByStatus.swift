import Encoding

// A notification can contradict itself: its status says that access is over, and an end that it states lies ahead. Apple
// signs the status as of the time of the notification, so access ends with that, until a later report says something else.

extension Subscription {
    /// Ends the paid periods in which the App Store said that access was over.
    ///
    /// A later report that shows the same purchases as running takes that back, be it a status alone: the earlier one was
    /// wrong, or late.
    static func cut(
        _ paid: [AccessPeriod], byStatusIn renewals: [SubscriptionFacts.RenewalStatement],
        _ transactions: [ResolvedTransaction], _ rules: inout some RuleCollector
    ) -> [AccessPeriod] {
        let ended = renewals.filter { $0.renewal.endedStatus.map { $0 != RenewalInfo.retryStatus } ?? false }
        guard !ended.isEmpty else { return paid }
        return paid.compactMap { period in
            let statement = ended.first { statement in
                period.cause == .paid && period.contains(statement.statedAt)
                    && !renewals.contains { isTakingBack($0, statement, before: period.end, transactions) }
            }
            return statement.map { period.cut(by: $0, &rules) } ?? period
        }
    }

    private static func isTakingBack(
        _ later: SubscriptionFacts.RenewalStatement, _ ended: SubscriptionFacts.RenewalStatement, before end: Instant,
        _ transactions: [ResolvedTransaction]
    ) -> Bool {
        guard later.isSigned, ended.statedAt < later.statedAt, later.statedAt < end, later.renewal.endedStatus == nil,
            later.renewal.expirationIntent == nil, later.renewal.isInBillingRetryPeriod != true
        else { return false }
        // After a new purchase, the report is about that one.
        return !transactions.contains { row in
            guard let bought = row.transaction.purchaseDate else { return false }
            return ended.statedAt < bought && bought <= later.statedAt
        }
    }

    /// Ends grace where the App Store said that it was over. Only a report of a later end takes that back: the one of the
    /// contradiction is repeated in later reports.
    static func cut(
        _ grace: AccessPeriod, byStatusIn renewals: [SubscriptionFacts.RenewalStatement],
        _ rules: inout some RuleCollector
    ) -> AccessPeriod? {
        let statement = renewals.first { statement in
            guard statement.renewal.endedStatus != nil, grace.contains(statement.statedAt) else { return false }
            let end = statement.renewal.gracePeriodExpiresDate ?? grace.end
            return !renewals.contains { later in
                later.isSigned && statement.statedAt < later.statedAt && later.renewal.endedStatus == nil
                    && later.renewal.gracePeriodExpiresDate ?? .earliest > end
            }
        }
        guard let statement else { return grace }
        return grace.cut(by: statement, &rules)
    }
}

extension AccessPeriod {
    /// The period until a report that access is over; nil if nothing is left.
    fileprivate func cut(
        by statement: SubscriptionFacts.RenewalStatement, _ rules: inout some RuleCollector
    ) -> AccessPeriod? {
        rules.collect(.cutting(self, at: statement.statedAt, .endedByStatus, [statement.position]))
        guard start < statement.statedAt else { return nil }
        var shortened = self
        shortened.end = statement.statedAt
        shortened.cut = .endedByStatus
        return shortened
    }
}
