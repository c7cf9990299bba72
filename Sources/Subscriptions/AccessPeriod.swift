/// A half-open stretch of time, start included and end excluded, in which a line gives access.
package struct AccessPeriod: Sendable, Hashable {
    package enum Cause: String, Sendable {
        /// A transaction's own period.
        case paid
        /// Granted by Apple while a failed renewal is tried again.
        case grace
    }

    /// Why a period ends before the date that it was first given.
    package enum Cut: String, Sendable {
        case upgraded
        case familyRevoked = "family_revoked"
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

    package func contains(_ instant: Instant) -> Bool {
        start <= instant && instant < end
    }
}

extension AccessPeriod {
    /// The stretch that a transaction pays for, or nil when it gives none: no dates, refunded, or cut to nothing.
    ///
    /// A refunded transaction counts as if it had never been made. Two cases only cut it: a row replaced by an
    /// upgrade ends where its replacement begins, and a family member loses access from the revocation on.
    init?(
        of transaction: Transaction, position: Int64, replacedAt: Instant?
    ) {
        guard let start = transaction.purchaseDate, let expires = transaction.expiresDate else { return nil }
        var end = expires
        var cut: Cut?
        func shorten(to instant: Instant?, because reason: Cut) {
            guard let instant, instant < end else { return }
            end = instant
            cut = reason
        }
        if transaction.isUpgraded {
            shorten(to: transaction.revocationDate ?? replacedAt, because: .upgraded)
        } else if transaction.isFamilyShared {
            shorten(to: transaction.revocationDate, because: .familyRevoked)
        } else if transaction.revocationDate != nil {
            return nil
        }
        guard start < end else { return nil }
        self.init(
            start: start, end: end, cause: .paid, cut: cut, transactionId: transaction.transactionId,
            productId: transaction.productId, position: position)
    }
}
