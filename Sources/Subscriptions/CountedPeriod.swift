/// A period of access with what analysts count by: what stands before it in its line, and who pays what for it.
///
/// Kept in each row, so that a figure over all periods reads each of them once and by itself. It depends on the periods
/// before, and hardly ever on those behind: a renewal that comes in order changes no row that is there. Where a gap follows
/// it depends on what is said about renewal, too.
package struct CountedPeriod: Sendable, Hashable {
    package enum PayerState: String, Sendable {
        case paying
        /// Free of charge.
        case trial
        /// Access, and no payment.
        case grace
        /// Somebody else pays.
        case family
    }

    package let period: AccessPeriod
    /// Nil for what is owned for ever, which nobody counts; nothing else is stated then.
    package var payerState: PayerState?
    /// Thousandths of the currency's unit.
    package var price: Int64?
    package var currency: String?
    /// What the price is for, where an offer was paid up front; nil for the product's own period.
    package var pricePeriod: String?
    /// Of the line.
    package var firstStart: Instant?
    /// The latest end of the periods before; nil for the first.
    package var previousEnd: Instant?
    /// Why the one before ended early.
    package var previousCut: AccessPeriod.Cut?
    /// Of the one before, where it is another.
    package var previousProductId: String?
    /// Where it begins to add time, if another paid one still runs at its start. May lie behind its end.
    package var countedFrom: Instant?
    /// Where what is paid takes the place of grace, if that is before its end.
    package var countedUntil: Instant?
    /// When access ended, if there is a gap before the next one. Nil for the last: nothing has come yet.
    package var churnedAt: Instant?
    /// Why it ended then, by the last that was stated in that stretch of access and the gap behind it. Nil where Apple did
    /// not say so before access began again.
    package var expirationIntent: Int?
    /// The monthly anniversaries of ``firstStart`` within it, where it counts; nil when there is none.
    package var anniversaries: ClosedRange<Int>?

    fileprivate init(_ period: AccessPeriod) {
        self.period = period
    }

    /// By start, the paid before the grace. Of one failed period there is one grace.
    fileprivate static func isOrdered(_ left: AccessPeriod, _ right: AccessPeriod) -> Bool {
        if left.start != right.start { return left.start < right.start }
        if left.cause != right.cause { return left.cause == .paid }
        return left.transactionId.utf8.lexicographicallyPrecedes(right.transactionId.utf8)
    }

    fileprivate mutating func state(_ transaction: borrowing Transaction) {
        price = transaction.price
        currency = transaction.currency
        if transaction.offerDiscountType == "PAY_UP_FRONT" { pricePeriod = transaction.offerPeriod }
        payerState = Self.payerState(period.cause, transaction)
    }

    fileprivate static func payerState(_ cause: AccessPeriod.Cause, _ transaction: borrowing Transaction) -> PayerState
    {
        let isTrial = transaction.offerDiscountType.map { $0 == "FREE_TRIAL" } ?? transaction.isTrialPeriod ?? false
        return transaction.isFamilyShared ? .family : cause == .grace ? .grace : isTrial ? .trial : .paying
    }

    fileprivate mutating func findAnniversaries(since start: Instant) {
        let from = start.months(until: countedFrom ?? period.start)
        let behind = start.months(until: countedUntil ?? period.end)
        if from < behind { anniversaries = from...behind - 1 }
    }
}

extension Instant {
    /// The number of the first monthly anniversary of this one that is not before another instant.
    fileprivate func months(until other: Instant) -> Int {
        let (date, last) = (calendarDate, other.calendarDate)
        let months = (last.year - date.year) * 12 + last.month - date.month
        return advanced(byMonths: months) < other ? months + 1 : months
    }
}

extension Subscription {
    /// All of ``access``: what is owned first, then the others in their order.
    package var countedPeriods: [CountedPeriod] {
        var counted = access.filter { $0.cause == .owned }.map { CountedPeriod($0) }
        let ordered = access.filter { $0.cause != .owned }.sorted(by: CountedPeriod.isOrdered)
        counted.reserveCapacity(access.count)
        var previousEnd: Instant?
        var previousPaidEnd: Instant?
        var stretchStart = ordered.first?.start
        // Transactions and periods are in nearly the same order.
        var place = 0
        for (index, period) in ordered.enumerated() {
            var next = CountedPeriod(period)
            for _ in transactions.indices where transactions[place].transaction.transactionId != period.transactionId {
                place = (place + 1) % transactions.count
            }
            next.state(transactions[place].transaction)
            next.firstStart = ordered[0].start
            next.previousEnd = previousEnd
            if index > 0 {
                next.previousCut = ordered[index - 1].cut
                let product = ordered[index - 1].productId
                if product != period.productId { next.previousProductId = product }
            }
            if let previousPaidEnd, previousPaidEnd > period.start { next.countedFrom = previousPaidEnd }
            let end = max(previousEnd ?? period.end, period.end)
            if index + 1 < ordered.count {
                let following = ordered[index + 1].start
                if following > end, let start = stretchStart {
                    next.churnedAt = end
                    next.expirationIntent = expirationIntent(stated: start..<following)
                    stretchStart = following
                }
                if period.cause == .grace, following < period.end { next.countedUntil = following }
            }
            next.findAnniversaries(since: ordered[0].start)
            previousEnd = end
            if period.cause == .paid { previousPaidEnd = max(previousPaidEnd ?? period.end, period.end) }
            counted.append(next)
        }
        return counted
    }

    /// Of the last statement about renewal in the range: Apple withdraws it by leaving it out.
    private func expirationIntent(stated range: Range<Instant>) -> Int? {
        let last = renewals.last { $0.statedAt < range.upperBound }
        return last.flatMap { $0.statedAt >= range.lowerBound ? $0.renewal.expirationIntent : nil }
    }

    /// Some of ``countedPeriods`` have a ``CountedPeriod/churnedAt``: they depend on what is said about renewal.
    package var hasChurned: Bool { !access.lazy.filter { $0.cause != .owned }.gaps.isEmpty }

    /// The last of ``countedPeriods``, by start, the paid before the grace: what it counts by that no row but this line's
    /// tells, so that a renewal touches no row of a period that was there.
    package struct LastCounted: Sendable {
        package let period: AccessPeriod
        package let payerState: CountedPeriod.PayerState
        /// As ``CountedPeriod/firstStart``.
        package let firstStart: Instant
        /// As ``CountedPeriod/expirationIntent``, if access ends with it.
        package let expirationIntent: Int?
    }

    /// Nil when none counts.
    package var lastCounted: LastCounted? {
        let counted = access.lazy.filter { $0.cause != .owned }
        guard let period = counted.max(by: CountedPeriod.isOrdered), let firstStart = counted.first?.start,
            let row = transactions.last(where: { $0.transaction.transactionId == period.transactionId })
        else { return nil }
        let stretchStart = counted.gaps.last?.upperBound ?? firstStart
        return LastCounted(
            period: period, payerState: CountedPeriod.payerState(period.cause, row.transaction), firstStart: firstStart,
            expirationIntent: expirationIntent(stated: stretchStart..<Instant.latest))
    }
}
