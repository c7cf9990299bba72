import Encoding

/// What the schedule needs to know of the reports about a subscription.
package struct ReportSummary: Sendable, Hashable {
    /// The time of the latest report, by Apple's clock if it is known; nil without reports.
    package let latestAt: Instant?
    /// True if any fact was signed by Apple, which those of V2 notifications are.
    package let hasSigned: Bool
    /// True if any fact was not signed. Such facts come from V1 notifications and from answers about receipts, which
    /// contain a receipt to ask with.
    package let hasUnsigned: Bool
    /// When the last report was received that contradicts a cancellation without taking it back; nil if none does.
    let contradictedAt: Instant?
    /// When the latest report of Apple was received, if it contradicts itself about whether access is over; nil if it does
    /// not.
    let endedByStatusAt: Instant?
    /// True if a person's data was erased since the last report: an answer would bring it back.
    let isErased: Bool

    init(_ facts: SubscriptionFacts) {
        var latestAt: Instant?
        var (hasSigned, hasUnsigned) = (false, false)
        func add(_ statedAt: Instant, _ isSigned: Bool) {
            latestAt = max(latestAt ?? statedAt, statedAt)
            if isSigned { hasSigned = true } else { hasUnsigned = true }
        }
        for statement in facts.transactions.values { add(statement.statedAt, statement.isSigned) }
        var latest: (statedAt: Instant, endedAt: Instant?)?
        for (stated, provenance) in facts.renewals {
            add(stated.statedAt, stated.isSigned)
            guard stated.isSigned, latest.map({ $0.statedAt < stated.statedAt }) ?? true else { continue }
            latest = (stated.statedAt, stated.renewal.fact.endedStatus == nil ? nil : provenance.receivedAt)
        }
        // Google announces every change, as Apple's signed notifications do, and is asked without a receipt.
        for stated in facts.purchases.keys { add(stated.statedAt, true) }
        self.latestAt = latestAt
        self.hasSigned = hasSigned
        self.hasUnsigned = hasUnsigned
        contradictedAt = hasUnsigned ? StandingCancellations.contradiction(in: facts) : nil
        endedByStatusAt = latest?.endedAt
        isErased = facts.erasures.keys.max().map { $0 >= latestAt ?? $0 } ?? false
    }
}
