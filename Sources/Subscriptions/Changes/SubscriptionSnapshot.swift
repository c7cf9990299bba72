import Encoding

/// The part of a subscription's state whose changes are published.
package struct SubscriptionSnapshot: Sendable, Hashable {
    package let originalTransactionId: String
    /// Ordered by start.
    package var access: [AccessPeriod]
    /// The last reported status; nil if none was ever reported.
    package var autoRenewStatus: Bool?
    /// The product of the next renewal, if it differs from the product bought last.
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
        // The same values as in renewal(at:), without the cost of assembling the rest of it for every subscription.
        let renewals = subscription.renewals
        let next = subscription.renewalProduct(at: .latest).id
        self.init(
            originalTransactionId: subscription.originalTransactionId, access: subscription.access,
            autoRenewStatus: renewals.last { $0.renewal.autoRenewStatus != nil }?.renewal.autoRenewStatus,
            plannedProductId: next == subscription.transactions.last?.transaction.productId ? nil : next)
    }

    /// Returns the differences between an earlier snapshot of the subscription and this one, both evaluated at the same
    /// instant.
    ///
    /// - Parameter cause: The cause of the changes.
    /// - Parameter evidenceAfter: The position after which events are new. If such an event reported the published
    ///   access, the first one is the cause of that change instead of `cause`.
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
        // Renewal counts as on until its status is reported.
        if (autoRenewStatus ?? true) != (old.autoRenewStatus ?? true) {
            changes.append(
                Change(
                    .renewalSwitched, of: originalTransactionId, at: instant, cause: cause,
                    autoRenewStatus: autoRenewStatus ?? true))
        }
        // A planned product that came into effect is not a change of plans.
        if plannedProductId != old.plannedProductId, plannedProductId != nil || old.plannedProductId != now?.productId {
            changes.append(
                Change(
                    .nextProduct, of: originalTransactionId, at: instant, cause: cause,
                    nextProductId: plannedProductId))
        }
        return changes
    }

    /// Returns the change for each customer that lost the subscription, without an end of access, and then for each
    /// that gained it, with the end of its current access. There is no change for a store account whose app user is not
    /// known.
    package func ownerChanges(
        from old: Set<CustomerKey>, to new: Set<CustomerKey>, at instant: Instant, cause: Change.Cause
    ) -> [Change] {
        let use = access.use(at: instant)
        func changes(_ customers: Set<CustomerKey>, until: Instant?) -> [Change] {
            customers.filter { $0.kind != .subscription }.sorted().map { customer in
                Change(
                    .customerChanged, of: originalTransactionId, at: instant, cause: cause, productId: use?.productId,
                    until: until, customer: customer)
            }
        }
        return changes(old.subtracting(new), until: nil) + changes(new.subtracting(old), until: use?.until)
    }

    /// Returns the changes that take effect without an event after one instant and up to and including another: one for
    /// each start or end of a period that makes a difference, in order of time.
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
    /// The positions of the events that first reported its periods.
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
