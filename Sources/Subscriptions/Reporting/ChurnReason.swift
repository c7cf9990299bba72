import Encoding

/// Why access to a subscription ended, and how that is known.
package struct ChurnReason: Sendable, Hashable {
    package enum Kind: String, Sendable, CaseIterable {
        /// The period was refunded, in full or for the rest of its time.
        case refund
        /// The customer switched auto-renewal off.
        case voluntary
        /// The renewal could not be charged.
        case billing
        /// The customer did not accept a price increase.
        case price
        /// The product was no longer for sale.
        case unavailable
        /// Another reason, which Apple does not name.
        case other
        /// Apple reported nothing from which the reason follows.
        case unknown
    }

    package let kind: Kind
    /// True if Apple stated the reason, by a refund or an `expirationIntent`; false if it is inferred.
    package let isStated: Bool

    package static func stated(_ kind: Kind) -> ChurnReason { ChurnReason(kind: kind, isStated: true) }
    package static func inferred(_ kind: Kind) -> ChurnReason { ChurnReason(kind: kind, isStated: false) }

    /// The reason that Apple's `expirationIntent` states.
    fileprivate static func stated(intent: Int) -> ChurnReason {
        switch intent {
        case 1: stated(.voluntary)
        case 2: stated(.billing)
        case 3: stated(.price)
        case 4: stated(.unavailable)
        default: stated(.other)
        }
    }
}

extension Subscription {
    /// Why access ended with a period. Only what was reported between the start of the unbroken access and the end of
    /// the gap after it counts.
    ///
    /// A refund takes precedence, then the last `expirationIntent`, which Apple withdraws by omitting it. Without one,
    /// the renewal in force at the end decides: the customer had switched it off, or it was not charged.
    ///
    /// - Parameter reported: From the start of the unbroken access that the period ends, until access began again.
    func reason(endOf period: AccessPeriod, reported: Range<Instant>) -> ChurnReason {
        if let cut = period.cut, [.refunded, .refundedInPart].contains(cut) { return .stated(.refund) }
        let statements = renewals.filter { reported.contains($0.statedAt) }
        // Google says that it ended the purchase, and of its own accord if the payment failed. A refund it would state.
        if period.cut == .revoked {
            return statements.last?.renewal.expirationIntent == 2 ? .stated(.billing) : .inferred(.refund)
        }
        if let intent = statements.last?.renewal.expirationIntent { return .stated(intent: intent) }
        // V1 states a switch-off with its date, which may be long before the notification.
        let inForce = statements.last { ($0.renewal.autoRenewStatusChangeDate ?? $0.statedAt) <= period.end }
        let isOff = inForce.flatMap { self.isOff($0, afterEndAt: period.end) } ?? false
        if period.cut == .switchedOff || isOff { return .inferred(.voluntary) }
        let isRetried = statements.contains { statement in
            statement.renewal.isInBillingRetryPeriod == true
                && (statement.statedAt >= period.end || statement == inForce)
        }
        return .inferred(period.cause == .grace || isRetried ? .billing : .unknown)
    }
}
