import Encoding

/// A period with the values that reports need: its payer, price and predecessors in the subscription.
///
/// Stored in each row, so that a report over all periods reads each row once and no neighbours. The values depend on
/// earlier periods and hardly ever on later ones: a renewal that arrives in order changes no existing row. Before a gap
/// they also depend on renewal info.
package struct ReportingPeriod: Sendable, Hashable {
    package enum PayerState: String, Sendable {
        case paying
        /// Free trial.
        case trial
        /// Access without payment after a failed renewal.
        case grace
        /// Shared by a family member, who pays.
        case family
        /// A seat that an organization or the purchaser of a group gave to the customer, and pays for.
        case assigned
        /// Given by hand. Nobody pays.
        case granted
    }

    /// How a period changes the number of subscriptions or continues one.
    package enum Movement: String, Sendable {
        /// The first period, free.
        case trialStart = "trial_start"
        /// The first period, paid.
        case new
        /// The first paid period, directly after a trial.
        case conversion
        /// A period directly after another one, except an upgrade.
        case renewal
        /// Access begins again because a failed renewal was charged while the App Store retried.
        case recovered
        /// Access begins again for another reason.
        case resubscribed
    }

    package let period: AccessPeriod
    /// True if the transaction was refunded in full. The period ends at the refund if it had not ended before. It gives
    /// no access: reports of numbers count it, reports of money do not.
    package let isRefunded: Bool
    /// Nil for a purchase that does not renew, which reports do not count; all other values are then nil too. They are also
    /// nil for access that was given by hand.
    package var payerState: PayerState?
    /// In thousandths of the currency unit. For the rest of a period after a change of plan, the price of a whole one, whether
    /// the difference was charged or nothing.
    package var price: Int64?
    package var currency: String?
    /// The time that the price pays for, if that is not the product's own period: the period of an offer that is paid
    /// up front, on Google Play of any that is paid, or a month of a yearly commitment that is billed monthly.
    package var pricePeriod: String?
    /// Start of the subscription's first period.
    package var firstStart: Instant?
    /// The latest end of all earlier periods; nil for the first period.
    package var previousEnd: Instant?
    /// Why the previous period ended early.
    package var previousCut: AccessPeriod.Cut?
    /// The product of the previous period, if it differs.
    package var previousProductId: String?
    /// The end of earlier paid periods, if that is after the start of this one. Only time from then on is new. May be
    /// after the end of this period. Refunded periods are earlier paid periods only for a refunded one.
    package var effectiveStart: Instant?
    /// For grace and a refunded period: the start of the next period, if that is before the end of this one.
    package var effectiveEnd: Instant?
    /// Nil for grace, for an upgrade, and for a period that adds no time.
    package var movement: Movement?
    /// When access ended, if it ended with this period and began again later.
    package var churnedAt: Instant?
    /// Why it ended; set with ``churnedAt``.
    package var churnReason: ChurnReason?
    /// The monthly anniversaries of ``firstStart`` within the effective time; nil if there are none.
    package var anniversaries: ClosedRange<Int>?
    /// Start of the first payment of the run that this payment belongs to; see ``RenewalRun``. Nil for a period that is
    /// no payment, and before one at the standard price.
    package var runStart: Instant?
    /// The number of the payment in its run, from 1; set with ``runStart``.
    package var paymentNumber: Int?
    /// How the renewal after this payment went; nil if on time, or if nothing followed.
    package var renewal: Renewal?

    fileprivate init(_ period: AccessPeriod, isRefunded: Bool = false) {
        self.period = period
        self.isRefunded = isRefunded
    }

    /// Orders by start, paid before grace. A failed renewal has at most one grace period.
    fileprivate static func isOrdered(_ left: AccessPeriod, _ right: AccessPeriod) -> Bool {
        if left.start != right.start { return left.start < right.start }
        if left.cause != right.cause { return left.cause == .paid }
        return left.transactionId.utf8.lexicographicallyPrecedes(right.transactionId.utf8)
    }

    /// Of two that end together, access ends with what was paid for: the payment of February may end with the grace of 28 days
    /// in which it was made.
    fileprivate static func endsEarlier(_ left: AccessPeriod, _ right: AccessPeriod) -> Bool {
        if left.end != right.end { return left.end < right.end }
        return (left.cause == .grace) == (right.cause == .grace) ? isOrdered(left, right) : left.cause == .grace
    }

    fileprivate mutating func state(_ transaction: borrowing Transaction) {
        price = transaction.price
        currency = transaction.currency
        if transaction.offerDiscountType == "PAY_UP_FRONT" {
            pricePeriod = transaction.offerPeriod
        } else if transaction.billingPlanType == Transaction.monthlyCommitment {
            pricePeriod = "P1M"
        } else if transaction.offerDiscountType == nil {
            // Google's orders, of which each pays for its period.
            pricePeriod = transaction.offerPeriod
        }
        payerState = Self.payerState(period.cause, transaction)
    }

    static func payerState(_ cause: AccessPeriod.Cause, _ transaction: borrowing Transaction) -> PayerState {
        if transaction.isFamilyShared { return .family }
        if transaction.isAssigned { return .assigned }
        if transaction.isGranted { return .granted }
        return cause == .grace ? .grace : transaction.isFreeTrial ? .trial : .paying
    }

    /// - Parameters:
    ///   - hasPaid: Whether an earlier period was paid.
    ///   - lapse: Why access ended before the period; used if there is a gap.
    ///   - retryMilliseconds: How long the store retried the renewal before the period.
    fileprivate mutating func findMovement(
        of transaction: borrowing Transaction, hasPaid: Bool, after lapse: ChurnReason?,
        retriedFor retryMilliseconds: Int64
    ) {
        guard let previousEnd else {
            movement = payerState == .trial ? .trialStart : .new
            return
        }
        if previousEnd < period.start {
            // V1 does not report whether the App Store renewed or the customer bought again.
            let isRenewal = transaction.transactionReason.map { $0 == "RENEWAL" } ?? (lapse?.kind == .billing)
            let isInTime = period.start <= previousEnd.advanced(byMilliseconds: retryMilliseconds)
            movement = isRenewal && isInTime ? .recovered : .resubscribed
            return
        }
        let addsTime = (effectiveStart ?? period.start) < (effectiveEnd ?? period.end)
        guard addsTime, payerState != .grace else { return }
        if payerState == .paying, !hasPaid {
            movement = .conversion
        } else if previousCut != .upgraded {
            movement = .renewal
        }
    }

    fileprivate mutating func findAnniversaries(since start: Instant) {
        let from = start.months(until: effectiveStart ?? period.start)
        let after = start.months(until: effectiveEnd ?? period.end)
        anniversaries = from < after ? from...after - 1 : nil
    }
}

extension ReportingPeriod {
    /// Adds the price of seats or of an add-on that were bought within this period, from then on: the period goes on as the
    /// other one, with the price of both. Of two that begin together, or if the added one ends earlier, this one has the
    /// price of both.
    ///
    /// - Parameter added: Adds no time, and moves nothing.
    fileprivate mutating func join(_ added: inout ReportingPeriod, since first: Instant) {
        let sum = price.flatMap { own in added.price.map { own.addingReportingOverflow($0) } }
        let total = sum.flatMap { $0.overflow ? nil : $0.partialValue }
        if added.period.start <= effectiveStart ?? period.start || added.period.end < period.end {
            price = total
            // Of the two, grace can follow this one.
            added.price = total
            added.effectiveStart = max(added.effectiveStart ?? period.end, added.period.end)
            return
        }
        effectiveEnd = added.period.start
        added.effectiveStart = nil
        added.price = total
        findAnniversaries(since: first)
    }
}

extension [ReportingPeriod] {
    /// The paid period within which seats or an add-on were added; nil if none is known.
    ///
    /// - Parameters:
    ///   - isAddOn: Added is another product than that of the period.
    ///   - first: The index of the first period that renews.
    fileprivate func joinedBy(_ added: ReportingPeriod, isAddOn: Bool, from first: Int) -> Int? {
        guard added.payerState == .paying, !added.isRefunded else { return nil }
        return self[first...].lastIndex { known in
            known.period.cause == .paid && !known.isRefunded && known.payerState == .paying
                && (known.period.productId == added.period.productId) != isAddOn
                && known.period.contains(added.period.start)
                && (known.effectiveEnd ?? known.period.end) > added.period.start
                // One that adds no time is counted with the one that does.
                && (known.effectiveStart ?? known.period.start) < known.period.end
        }
    }
}

extension Instant {
    /// The number of the first monthly anniversary of this instant that is not before the other one.
    fileprivate func months(until other: Instant) -> Int {
        let (date, last) = (calendarDate, other.calendarDate)
        let months = (last.year - date.year) * 12 + last.month - date.month
        return advanced(byMonths: months) < other ? months + 1 : months
    }
}

extension Subscription {
    /// The periods of auto-renewable subscriptions, which reports count, in order and with those of refunded
    /// transactions; and the others.
    private var heldByRenewal: (renewing: [AccessPeriod], others: [AccessPeriod]) {
        let nonRenewing = Set(
            transactions.lazy.filter { isNonRenewing($0.transaction) }.map(\.transaction.transactionId))
        let addOns = self.addOns
        var (renewing, others): ([AccessPeriod], [AccessPeriod]) = ([], [])
        for period in access {
            if period.cause == .owned || nonRenewing.contains(period.transactionId) {
                others.append(period)
            } else {
                renewing.append(period)
            }
        }
        renewing += refunded.filter { $0.cause != .owned && !nonRenewing.contains($0.transactionId) }
        renewing.sort { left, right in
            guard left.start == right.start, left.cause == right.cause else {
                return ReportingPeriod.isOrdered(left, right)
            }
            let (isLeft, isRight) = (addOns.contains(left.transactionId), addOns.contains(right.transactionId))
            return isLeft == isRight ? ReportingPeriod.isOrdered(left, right) : isRight
        }
        return (renewing, others)
    }

    /// The ids of the transactions that paid for items beside the plan.
    private var addOns: Set<String> {
        Set(transactions.lazy.filter(\.isAddOn).map(\.transaction.transactionId))
    }

    /// All periods of ``access`` and of refunded transactions: purchases that do not renew first, then the others in
    /// order. Only those that renew are included if they were refunded.
    package var reportingPeriods: [ReportingPeriod] {
        let (ordered, others) = heldByRenewal
        let granted = Set(transactions.lazy.filter(\.transaction.isGranted).map(\.transaction.transactionId))
        var periods = others.map { period in
            var other = ReportingPeriod(period)
            if granted.contains(period.transactionId) { other.payerState = .granted }
            return other
        }
        periods.reserveCapacity(ordered.count + others.count)
        let refunds = Set(refunded.map(\.transactionId))
        var previousEnd: Instant?
        var previousPaidEnd: Instant?
        // Also of refunded transactions.
        var previousHeldEnd: Instant?
        var stretchStart = ordered.first?.start
        // The index of the period that ends last so far.
        var ending = 0
        // The index of the last period so far that no other one joined.
        var main: Int?
        var lapse: ChurnReason?
        var retryMilliseconds = Transaction.retryMilliseconds
        var hasPaid = false
        var run = RenewalRun(ordered)
        // Transactions and periods have nearly the same order, so search from the previous position.
        var place = 0
        for (index, period) in ordered.enumerated() {
            let isRefunded = refunds.contains(period.transactionId)
            var next = ReportingPeriod(period, isRefunded: isRefunded)
            for _ in transactions.indices where transactions[place].transaction.transactionId != period.transactionId {
                place = (place + 1) % transactions.count
            }
            next.state(transactions[place].transaction)
            let row = transactions[place]
            if row.isProrated, next.payerState == .paying, let price = next.price {
                next.price = row.transaction.planPrice ?? price
            }
            next.firstStart = ordered[0].start
            next.previousEnd = previousEnd
            let isAdded = row.isAddOn || row.transaction.isForAddedSeats
            let joined =
                isAdded ? periods.joinedBy(next, isAddOn: row.isAddOn, from: others.count) : nil
            if joined == nil || !row.isAddOn {
                if let main {
                    next.previousCut = ordered[main].cut
                    let product = ordered[main].productId
                    if product != period.productId { next.previousProductId = product }
                }
                main = index
            }
            let covered = isRefunded ? previousHeldEnd : previousPaidEnd
            if let covered, covered > period.start { next.effectiveStart = covered }
            let end = max(previousEnd ?? period.end, period.end)
            // An add-on ends with its plan.
            let endsWithPlan = joined != nil && row.isAddOn && ordered[ending].end == end
            let endsWithPayment =
                period.cause == .grace && ordered[ending].end == end && ordered[ending].cause != .grace
            if period.end == end, !endsWithPlan, !endsWithPayment { ending = index }
            let following = index + 1 < ordered.count ? ordered[index + 1].start : nil
            if isRefunded || period.cause == .grace, let following, following < period.end {
                next.effectiveEnd = following
            }
            if let joined {
                periods[joined].join(&next, since: ordered[0].start)
            } else {
                next.findMovement(
                    of: row.transaction, hasPaid: hasPaid, after: lapse, retriedFor: retryMilliseconds)
            }
            next.findAnniversaries(since: ordered[0].start)
            if period.cause == .paid { retryMilliseconds = row.transaction.retryMilliseconds }
            if next.payerState == .paying { hasPaid = true }
            previousEnd = end
            if period.cause == .paid {
                previousHeldEnd = max(previousHeldEnd ?? period.end, period.end)
                if !isRefunded { previousPaidEnd = max(previousPaidEnd ?? period.end, period.end) }
            }
            periods.append(next)
            if joined == nil {
                run.extend(in: &periods, hasOffer: row.transaction.hasOffer, after: lapse)
            }
            if let following, following > end, let start = stretchStart {
                lapse = reason(endOf: ordered[ending], reported: start..<following)
                periods[others.count + ending].churnedAt = end
                periods[others.count + ending].churnReason = lapse
                stretchStart = following
            }
        }
        return periods
    }

    /// True if any of ``reportingPeriods`` has a ``ReportingPeriod/churnedAt`` and thus depends on renewal info.
    package var hasChurned: Bool { !heldByRenewal.renewing.gaps.isEmpty }

    /// The values of the one of ``reportingPeriods`` that ends last. They are stored with the subscription, so that a
    /// renewal changes no row of an earlier period.
    package struct LastReportingPeriod: Sendable {
        package let period: AccessPeriod
        /// See ``ReportingPeriod/isRefunded``.
        package let isRefunded: Bool
        package let payerState: ReportingPeriod.PayerState
        /// See ``ReportingPeriod/firstStart``.
        package let firstStart: Instant
        /// Why access ends with this period, as far as that is known.
        package let churnReason: ChurnReason
        /// The latest end of all periods except grace.
        package let paidEnd: Instant?
    }

    /// Nil if reports count no period.
    package var lastReportingPeriod: LastReportingPeriod? {
        let periods = heldByRenewal.renewing
        let addOns = self.addOns
        // An add-on ends with its plan.
        let latest = periods.max { left, right in
            let (isLeft, isRight) = (addOns.contains(left.transactionId), addOns.contains(right.transactionId))
            return left.end == right.end && isLeft != isRight ? isLeft : ReportingPeriod.endsEarlier(left, right)
        }
        guard let period = latest, let firstStart = periods.first?.start,
            let row = transactions.last(where: { $0.transaction.transactionId == period.transactionId })
        else { return nil }
        let stretchStart = periods.gaps.last?.upperBound ?? firstStart
        return LastReportingPeriod(
            period: period, isRefunded: refunded.contains { $0.transactionId == period.transactionId },
            payerState: ReportingPeriod.payerState(period.cause, row.transaction),
            firstStart: firstStart,
            churnReason: reason(endOf: period, reported: stretchStart..<Instant.latest),
            paidEnd: periods.lazy.filter { $0.cause != .grace }.map(\.end).max())
    }
}
