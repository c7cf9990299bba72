import Encoding

/// What a subscription gives and is about to do, as far as changes of it are published.
package struct SubscriptionSnapshot: Sendable, Hashable {
    package let originalTransactionId: String
    /// In the order of their start.
    package var access: [AccessPeriod]
    /// Switch as last stated; nil when never stated.
    package var autoRenewStatus: Bool?
    /// Product of the next renewal, if it is another one than the product bought last.
    package var plannedProductId: String?

    package init(
        originalTransactionId: String, access: [AccessPeriod], autoRenewStatus: Bool?, plannedProductId: String?
    ) {
        self.originalTransactionId = originalTransactionId
        self.access = access
        self.autoRenewStatus = autoRenewStatus
        self.plannedProductId = plannedProductId
    }

    package init(_ subscription: Subscription) {
        // As renewal(at:) has them, without putting the rest of it together for every subscription that is folded.
        let renewals = subscription.renewals
        let next = subscription.renewalProduct(at: .latest).id
        self.init(
            originalTransactionId: subscription.originalTransactionId, access: subscription.access,
            autoRenewStatus: renewals.last { $0.renewal.autoRenewStatus != nil }?.renewal.autoRenewStatus,
            plannedProductId: next == subscription.transactions.last?.transaction.productId ? nil : next)
    }

    /// How this snapshot differs from an earlier one of the subscription, both seen at one instant.
    ///
    /// - Parameter cause: What made the difference.
    /// - Parameter evidenceAfter: Events after this position made it: where one of them stated the access that is
    ///   published, it is the cause.
    package func changes(
        from old: SubscriptionSnapshot, at instant: Instant, cause: Change.Cause, evidenceAfter: Int64 = .max
    ) -> [Change] {
        let now = access.use(at: instant)
        let before = old.access == access ? now : old.access.use(at: instant)
        var changes: [Change] = []
        if let kind = Use.difference(from: before, to: now) {
            let position = now?.positions.filter { $0 > evidenceAfter }.min()
            changes.append(
                Change(
                    kind, of: originalTransactionId, at: instant,
                    cause: position.map { .event(position: $0) } ?? cause,
                    productId: (now ?? before)?.productId, until: now?.until))
        }
        // Who has never heard of the switch takes it for on.
        if (autoRenewStatus ?? true) != (old.autoRenewStatus ?? true) {
            changes.append(
                Change(
                    .renewalSwitched, of: originalTransactionId, at: instant, cause: cause,
                    autoRenewStatus: autoRenewStatus ?? true))
        }
        // A plan that came true is no change of plans.
        if plannedProductId != old.plannedProductId, plannedProductId != nil || old.plannedProductId != now?.productId {
            changes.append(
                Change(
                    .nextProduct, of: originalTransactionId, at: instant, cause: cause,
                    nextProductId: plannedProductId))
        }
        return changes
    }

    /// What the clock alone changes after an instant, up to and with another: one change for each beginning or end of
    /// a period that makes a difference, in their order.
    package static func clockChanges(
        of originalTransactionId: String, _ access: [AccessPeriod], after start: Instant, through end: Instant
    ) -> [Change] {
        let boundaries = Set(access.flatMap { [$0.start, $0.end] }).filter { $0 > start && $0 <= end }.sorted()
        var changes: [Change] = []
        var before = access.use(at: start)
        for boundary in boundaries {
            let now = access.use(at: boundary)
            if let kind = Use.difference(from: before, to: now) {
                changes.append(
                    Change(
                        kind, of: originalTransactionId, at: boundary, cause: .clock,
                        productId: (now ?? before)?.productId, until: now?.until))
            }
            before = now
        }
        return changes
    }
}

/// The access of a subscription at an instant.
private struct Use {
    let productId: String?
    let until: Instant
    /// The events that stated it.
    let positions: [Int64]

    static func difference(from old: Use?, to new: Use?) -> Change.Kind? {
        switch (old, new) {
        case (nil, nil): nil
        case (nil, _): .opened
        case (_, nil): .closed
        case (let old?, let new?):
            if old.productId != new.productId {
                .productChanged
            } else if old.until != new.until {
                old.until < new.until ? .extended : .shortened
            } else {
                nil
            }
        }
    }
}

extension [AccessPeriod] {
    fileprivate func use(at instant: Instant) -> Use? {
        guard let period = inForce(at: instant) else { return nil }
        let run = unbroken(at: instant)
        return Use(productId: period.productId, until: run.last?.end ?? period.end, positions: run.map(\.position))
    }
}
