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
    /// See ``Subscription/seats``.
    package var seats: Int?

    package init(
        originalTransactionId: String, access: [AccessPeriod], autoRenewStatus: Bool?, plannedProductId: String?,
        seats: Int? = nil
    ) {
        self.originalTransactionId = originalTransactionId
        self.access = access
        self.autoRenewStatus = autoRenewStatus
        self.plannedProductId = plannedProductId
        self.seats = seats
    }

    package init(_ subscription: Subscription) {
        // The same values as in renewal(at:), without the cost of assembling the rest of it for every subscription.
        let next = subscription.renewalProduct(at: .latest).id
        let last = subscription.transactions.last?.transaction.productId
        // An item of Google's that is in force beside the one bought last renews as itself.
        let isPlanned = next != last && !(next.map { subscription.isBeside($0, last) } ?? false)
        self.init(
            originalTransactionId: subscription.originalTransactionId, access: subscription.access,
            autoRenewStatus: subscription.isRenewing(at: .latest),
            plannedProductId: isPlanned ? next : nil,
            seats: subscription.seats)
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
        if let before = old.seats, let seats, before != seats {
            changes.append(
                Change(
                    .seatsChanged, of: originalTransactionId, at: instant, cause: cause,
                    seats: Change.Seats(before: before, now: seats)))
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

    /// Returns the change for each customer that lost or gained the subscription, or the access of some past time.
    ///
    /// First those that do not own it now, without an end of access, and then those that do, with the end of the current
    /// access. There is no change for a store account whose app user is not known. What is still to come is published by
    /// the clock.
    package func ownerChanges(
        from old: [Ownership], to new: [Ownership], at instant: Instant, cause: Change.Cause
    ) -> [Change] {
        let use = access.use(at: instant)
        let (before, now) = (old.owners(at: instant), new.owners(at: instant))
        let (pastBefore, past) = (pastAccess(old, until: instant), pastAccess(new, until: instant))
        let changed = Set((old + new).map(\.owner)).filter { customer in
            customer.kind != .subscription
                && (before.contains(customer) != now.contains(customer) || pastBefore[customer] != past[customer])
        }.sorted()
        func change(_ customer: CustomerKey, productId: String?, until: Instant?) -> Change {
            Change(
                .customerChanged, of: originalTransactionId, at: instant, cause: cause, productId: productId,
                until: until, customer: customer)
        }
        let former = changed.filter { !now.contains($0) }.map { customer in
            change(customer, productId: before.contains(customer) ? use?.productId : nil, until: nil)
        }
        return former
            + changed.filter { now.contains($0) }.map { change($0, productId: use?.productId, until: use?.until) }
    }

    /// The access before an instant that each owner has or had.
    private func pastAccess(_ intervals: [Ownership], until instant: Instant) -> [CustomerKey: Set<Range<Instant>>] {
        var past: [CustomerKey: Set<Range<Instant>>] = [:]
        for owned in intervals {
            for period in access {
                let (start, end) = (max(period.start, owned.from), min(period.end, owned.until, instant))
                if start < end { past[owned.owner, default: []].insert(start..<end) }
            }
        }
        return past
    }

    /// Returns the changes that take effect without an event after one instant and up to and including another: those of
    /// each start or end of a period that makes a difference, and of each new owner, in order of time. The former owner
    /// comes before the new one.
    ///
    /// - Parameter owners: The owners of the subscription; empty to return changes of access only.
    package static func clockChanges(
        of originalTransactionId: String, _ access: [AccessPeriod], owners: [Ownership] = [], after start: Instant,
        through end: Instant
    ) -> [Change] {
        let instants = access.flatMap { [$0.start, $0.end] } + owners.flatMap { [$0.from, $0.until] }
        let boundaries = Set(instants).filter { $0 > start && $0 <= end }.sorted()
        var changes: [Change] = []
        var before = access.use(at: start)
        var ownersBefore = owners.owners(at: start)
        func change(_ customer: CustomerKey, _ boundary: Instant, productId: String?, until: Instant?) -> Change {
            Change(
                .customerChanged, of: originalTransactionId, at: boundary, cause: .clock, productId: productId,
                until: until, customer: customer)
        }
        for boundary in boundaries {
            let now = access.use(at: boundary)
            if let kind = Use.difference(from: before, to: now) {
                changes.append(
                    Change(
                        kind, of: originalTransactionId, at: boundary, cause: .clock,
                        productId: (now ?? before)?.productId, until: now?.until))
            }
            let ownersNow = owners.owners(at: boundary)
            for customer in ownersBefore.subtracting(ownersNow).sorted() where customer.kind != .subscription {
                changes.append(change(customer, boundary, productId: before?.productId, until: nil))
            }
            for customer in ownersNow.subtracting(ownersBefore).sorted() where customer.kind != .subscription {
                changes.append(change(customer, boundary, productId: now?.productId, until: now?.until))
            }
            before = now
            ownersBefore = ownersNow
        }
        return changes
    }
}

extension Subscription {
    /// Whether a product gives access at some time at which the product that was bought last does.
    fileprivate func isBeside(_ productId: String, _ last: String?) -> Bool {
        let own = access.filter { $0.productId == last && $0.cause == .paid }
        return access.contains { period in
            period.productId == productId && period.cause == .paid
                && own.contains { $0.start < period.end && period.start < $0.end }
        }
    }
}

/// The access of a subscription at an instant.
private struct Use {
    /// The product of the period in force.
    let productId: String?
    /// All products that give access.
    let products: Set<String?>
    let until: Instant
    /// The positions of the events that first reported its periods.
    let positions: [Int64]

    static func difference(from old: Use?, to new: Use?) -> Change.Kind? {
        switch (old, new) {
        case (nil, nil): nil
        case (nil, _): .opened
        case (_, nil): .closed
        case (let old?, let new?):
            if old.products != new.products {
                // What is bought beside a plan does not replace it.
                if old.products.isStrictSubset(of: new.products) {
                    .productAdded
                } else if new.products.isStrictSubset(of: old.products) {
                    .productRemoved
                } else {
                    .productChanged
                }
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
        let current = filter { $0.contains(instant) }
        return Use(
            productId: period.productId, products: Set(current.map(\.productId)), until: run.last?.end ?? period.end,
            positions: (run + current).map(\.position))
    }
}
