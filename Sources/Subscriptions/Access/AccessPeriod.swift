import Encoding

/// A half-open interval, including its start and excluding its end, in which a subscription gives access.
package struct AccessPeriod: Sendable, Hashable {
    package enum Cause: String, Sendable {
        /// A transaction's own period.
        case paid
        /// The billing grace period after a failed renewal.
        case grace
        /// A one-time purchase without an end: `end` is ``Instant/latest``.
        case owned
    }

    /// Why a period ends earlier than its original end date.
    package enum Cut: String, Sendable {
        case upgraded
        case familyRevoked = "family_revoked"
        /// An organization or the purchaser of a group took the seat back.
        case assignmentRevoked = "assignment_revoked"
        /// The unused part was refunded.
        case refundedInPart = "refunded_in_part"
        /// The whole purchase was refunded. Only ``Subscription/refunded`` has such periods.
        case refunded
        /// Google ended the purchase before its time, usually because it was refunded.
        case revoked
        /// Revoked in a way that this version does not know.
        case unknownRevocation = "unknown_revocation"
        /// Renewal was switched off during the grace period, which ends it immediately.
        case switchedOff = "switched_off"
        /// The App Store said that access was over, although the end that it stated lay ahead.
        case endedByStatus = "ended_by_status"
    }

    package var start: Instant
    package var end: Instant
    package var cause: Cause
    package var cut: Cut?
    /// The transaction that pays for the period; for grace, the transaction whose renewal failed.
    package var transactionId: String
    package var productId: String?
    /// The position of the first event that reported the period.
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

extension Transaction.Revocation {
    /// How it shortens a period; nil if it does not by itself.
    var cut: AccessPeriod.Cut? {
        switch self {
        case .familyRevoked: .familyRevoked
        case .assignmentRevoked: .assignmentRevoked
        case .refundedInPart: .refundedInPart
        case .endedEarly: .revoked
        case .unknown: .unknownRevocation
        case .refundedInFull, .unitsRefunded, .amountRefunded, .upgraded: nil
        }
    }
}

extension AccessPeriod {
    /// What ends the period of a transaction early, besides what the transaction states.
    enum End {
        /// The purchase that replaced it; nil if none did.
        case replacement(Subscription.Replacement?)
        /// Nothing: the transaction states its end, for which these events are the evidence.
        case exact(Subscription.ResolvedTransaction.ExactEnd)
    }

    /// Creates the period that a transaction pays for. Nil if it gives no access: it has no dates, is of a consumable,
    /// was refunded, or its period was cut to nothing.
    ///
    /// A refunded transaction counts as if it had never been made. Every other revocation only shortens its period, to the
    /// stated date; an upgrade ends it at the start of the replacement.
    ///
    /// - Parameter end: What ended it early, as far as the transaction itself does not say it.
    init?(
        of transaction: borrowing Transaction, kind: ProductCatalog.Kind?, position: Int64,
        end early: End, _ rules: inout some RuleCollector
    ) {
        let (id, productId) = (transaction.transactionId, transaction.productId)
        guard let start = transaction.purchaseDate else {
            rules.collect(.withoutAccess(.noPurchaseDate, transaction, position))
            return nil
        }
        var end: Instant
        var cause = Cause.paid
        var rule: ExplanationRule
        // Whatever a product of the same name is, what was given without an end has none.
        switch (transaction.expiresDate, transaction.isGranted ? .nonConsumable : kind) {
        case (let expires?, _): (end, rule) = (expires, .paid)
        case (nil, .nonRenewing(let duration)): (end, rule) = (start.advanced(by: duration), .nonRenewingDuration)
        case (nil, .nonConsumable):
            (end, rule) = (.latest, .owned)
            cause = .owned
        case (nil, nil):
            rules.collect(.withoutAccess(.notConfigured, transaction, position))
            return nil
        case (nil, .autoRenewable):
            rules.collect(.withoutAccess(.noDuration, transaction, at: start, position))
            return nil
        case (nil, .consumable):
            rules.collect(.withoutAccess(.noAccessKind, transaction, position))
            return nil
        }
        if transaction.isGranted { rule = .granted }
        if transaction.isRefunded { return nil }
        guard start < end else {
            rules.collect(.withoutAccess(.noDuration, transaction, at: start, position))
            return nil
        }
        let whole = AccessPeriod(
            start: start, end: end, cause: cause, cut: nil, transactionId: id, productId: productId, position: position)
        rules.collect(.giving(rule, whole, by: ReportingPeriod.payerState(cause, transaction)))
        var cut: Cut?
        func shorten(to instant: Instant?, reason: Cut, _ positions: [Int64] = [], by replacement: String? = nil) {
            guard let instant, instant < end else { return }
            var cutting = AppliedRule.cutting(whole, at: instant, reason, positions, by: replacement)
            if reason == .unknownRevocation { cutting.unknownValue = transaction.unknownValueText }
            rules.collect(cutting)
            end = instant
            cut = reason
        }
        var stated = Subscription.ResolvedTransaction.ExactEnd()
        if case .exact(let exact) = early { stated = exact }
        if transaction.isUpgraded {
            // A refund may follow the upgrade with a later date. The replacement still ended the period.
            // The row that is marked as replaced may be reported later than the replacement.
            if case .replacement(let known?) = early, known.at == transaction.revocationDate {
                stated = .init(positions: [known.position], replacement: known.transactionId)
            }
            shorten(to: transaction.revocationDate, reason: .upgraded, stated.positions, by: stated.replacement)
        } else if let reason = transaction.revocation?.cut {
            shorten(to: transaction.revocationDate, reason: reason, reason == .revoked ? stated.positions : [])
        }
        if case .replacement(let replacement?) = early {
            shorten(
                to: replacement.at, reason: .upgraded, [replacement.position], by: replacement.transactionId)
        }
        guard start < end else { return nil }
        self.init(
            start: start, end: end, cause: cause, cut: cut, transactionId: id, productId: productId, position: position)
    }

    /// Creates the period for which a fully refunded transaction was held: as if it had not been refunded, until the
    /// refund. Nil if there is none, for example because it was refunded before its period began.
    ///
    /// - Parameter end: What ended it early, as far as the transaction itself does not say it.
    init?(
        refunded transaction: borrowing Transaction, kind: ProductCatalog.Kind?, position: Int64,
        end early: End, _ rules: inout some RuleCollector
    ) {
        guard let refundedAt = transaction.revocationDate else { return nil }
        var bought = copy transaction
        bought.revocationDate = nil
        self.init(of: bought, kind: kind, position: position, end: early, &rules)
        guard refundedAt < end else { return }
        end = refundedAt
        cut = .refunded
        if end <= start { return nil }
    }
}

/// The periods of a subscription, ordered by start.
extension [AccessPeriod] {
    /// The period in force at the instant. Of overlapping periods, paid ones take precedence over grace, then the one
    /// that started last.
    func inForce(at instant: Instant) -> AccessPeriod? {
        let current = filter { $0.contains(instant) }
        return current.last { $0.cause != .grace } ?? current.last
    }

    /// The unbroken run of periods from the instant on: the first contains the instant, each starts no later than the
    /// previous one ends and ends later than it.
    func unbroken(at instant: Instant) -> [AccessPeriod] {
        var run: [AccessPeriod] = []
        for period in self where period.start <= (run.last?.end ?? instant) && period.end > (run.last?.end ?? instant) {
            run.append(period)
        }
        return run
    }
}

extension Sequence<AccessPeriod> {
    /// The intervals between the periods in which none is in force. The periods must be ordered by start.
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
