import Encoding

/// A half-open stretch of time, start included and end excluded, in which a subscription gives access.
package struct AccessPeriod: Sendable, Hashable {
    package enum Cause: String, Sendable {
        /// A transaction's own period.
        case paid
        /// Granted by Apple while a failed renewal is tried again.
        case grace
        /// Bought once and for ever: `end` is ``Instant/latest``.
        case owned
    }

    /// Why a period ends before the date that it was first given.
    package enum Cut: String, Sendable {
        case upgraded
        case familyRevoked = "family_revoked"
        /// The unused rest was refunded.
        case refundedInPart = "refunded_in_part"
        /// Renewal was switched off in grace, which ends it at once.
        case switchedOff = "switched_off"
    }

    package var start: Instant
    package var end: Instant
    package var cause: Cause
    package var cut: Cut?
    /// The transaction that pays for it; for grace, the one whose renewal failed.
    package var transactionId: String
    package var productId: String?
    /// The first event that stated it.
    package var position: Int64

    package init(
        start: Instant, end: Instant, cause: Cause, cut: Cut?, transactionId: String, productId: String?,
        position: Int64
    ) {
        self.start = start
        self.end = end
        self.cause = cause
        self.cut = cut
        self.transactionId = transactionId
        self.productId = productId
        self.position = position
    }

    package func contains(_ instant: Instant) -> Bool {
        start <= instant && instant < end
    }
}

extension AccessPeriod {
    /// The stretch that a transaction pays for, or nil when it gives none: no dates, a consumable, refunded, or cut
    /// to nothing.
    ///
    /// A refunded transaction counts as if it had never been made. Three cases only cut it: a row replaced by an
    /// upgrade ends where its replacement begins, a family member loses access from the revocation on, and what was
    /// refunded in part ends at that date.
    ///
    /// - Parameter replacedAt: Where another product took this one's place.
    init?(of transaction: borrowing Transaction, kind: ProductCatalog.Kind?, position: Int64, replacedAt: Instant?) {
        guard let start = transaction.purchaseDate else { return nil }
        var end: Instant
        var cause = Cause.paid
        switch (transaction.expiresDate, kind) {
        case (let expires?, _): end = expires
        case (nil, .nonRenewing(let duration)): end = start.advanced(by: duration)
        case (nil, .nonConsumable):
            end = .latest
            cause = .owned
        case (nil, .consumable), (nil, .autoRenewable), (nil, nil): return nil
        }
        var cut: Cut?
        func shorten(to instant: Instant?, reason: Cut) {
            guard let instant, instant < end else { return }
            end = instant
            cut = reason
        }
        if transaction.isRefunded { return nil }
        if transaction.isUpgraded {
            // A refund may follow the upgrade, with a later date; the replacement ended the row all the same.
            shorten(to: transaction.revocationDate, reason: .upgraded)
        } else if transaction.isFamilyRevoked {
            shorten(to: transaction.revocationDate, reason: .familyRevoked)
        } else if transaction.isRefundedInPart {
            shorten(to: transaction.revocationDate, reason: .refundedInPart)
        }
        shorten(to: replacedAt, reason: .upgraded)
        guard start < end else { return nil }
        self.init(
            start: start, end: end, cause: cause, cut: cut, transactionId: transaction.transactionId,
            productId: transaction.productId, position: position)
    }
}

/// The periods of a subscription, in the order of their start.
extension [AccessPeriod] {
    /// Of overlapping ones the paid before the grace, then the one bought last.
    func inForce(at instant: Instant) -> AccessPeriod? {
        let current = filter { $0.contains(instant) }
        return current.last { $0.cause != .grace } ?? current.last
    }

    /// From one in force at the instant on, those that follow on each other without a gap, each of which ends later
    /// than the one before.
    func unbroken(at instant: Instant) -> [AccessPeriod] {
        var run: [AccessPeriod] = []
        for period in self where period.start <= (run.last?.end ?? instant) && period.end > (run.last?.end ?? instant) {
            run.append(period)
        }
        return run
    }
}

extension Sequence<AccessPeriod> {
    /// What lies between them where none holds; they are in the order of their start.
    var gaps: [Range<Instant>] {
        var result: [Range<Instant>] = []
        var end: Instant?
        for period in self {
            if let end, end < period.start { result.append(end..<period.start) }
            end = Swift.max(end ?? period.end, period.end)
        }
        return result
    }
}
