import Encoding

/// Why a subscription was not renewed at the end of its period, as the store reports it.
package enum Lapse: Sendable, Hashable {
    case switchedOff
    /// The renewal failed, and the store retries it, without access.
    case retried
    /// Google: the same, which it calls account hold.
    case onHold
    /// Google: by the customer.
    ///
    /// - Parameter until: Nil if the store does not say it.
    case paused(until: Instant?)
    /// The renewal failed, and the store states that it has given up.
    case failed
    /// The renewal failed, and nothing that is known followed: the store did not say that it has given up.
    case unpaid
    case priceRefused
    case notForSale
    /// The store states that it ended, and no reason that it has a name for.
    case unnamed
}

extension Subscription {
    /// Why the subscription was not renewed after a period, with the events that say it, ascending; nil if no report
    /// says why, and if the subscription has access at the instant.
    ///
    /// - Parameters:
    ///   - period: The last one before the instant.
    ///   - asked: Reports up to this instant count; those about later access do not.
    func lapse(after period: AccessPeriod, at asked: Instant) -> (lapse: Lapse, positions: [Int64])? {
        // Later access has reports of its own.
        let instant = min(asked, nextStart(after: period).advanced(byMilliseconds: -1))
        let found: (lapse: Lapse, positions: [Int64?])? =
            switch status(at: instant) {
            case .hold: (.onHold, [suspensionStatement(at: instant)])
            case .paused: (.paused(until: currentPurchase?.autoResumeTime), [suspensionStatement(at: instant)])
            case .retry: (.retried, [retryStatement(in: reports(about: period, at: instant))])
            case .expired: expiration(after: period, at: instant)
            default: nil
            }
        return found.map { ($0.lapse, Set($0.positions.compactMap(\.self)).sorted()) }
    }

    /// Why access ended with a period: by the first report after it from which a reason follows. Nil if there is none.
    ///
    /// - Parameter instant: Reports up to this instant count.
    func reasonOfEnd(
        of period: AccessPeriod, through instant: Instant = .latest
    ) -> (lapse: Lapse, positions: [Int64])? {
        let reported = period.end..<max(period.end, nextStart(after: period))
        let times = Set(renewals.map(\.statedAt).filter { reported.contains($0) && $0 <= instant }).sorted()
        return [times.first, times.last].lazy.compactMap(\.self).compactMap { lapse(after: period, at: $0) }.first
    }

    private func nextStart(after period: AccessPeriod) -> Instant {
        access.map(\.start).first { $0 >= period.end } ?? .latest
    }

    /// By the rule that reports use: see ``reason(endOf:reported:)``.
    private func expiration(
        after period: AccessPeriod, at instant: Instant
    ) -> (lapse: Lapse, positions: [Int64?])? {
        let reported = reports(about: period, at: instant)
        let reason = reason(endOf: period, reported: reported)
        let intent = renewal(at: instant).expirationIntent
        let stated = first(in: reported) { $0.renewal.expirationIntent == intent }
        switch reason.kind {
        case .voluntary:
            let switchedOff = first(in: reported) { statement in
                // V1 states a switch-off with its date, which may be long before the notification.
                let since = statement.renewal.autoRenewStatusChangeDate ?? statement.statedAt
                return since <= period.end ? isOff(statement, afterEndAt: period.end) : nil
            }
            return (.switchedOff, [switchedOff ?? stated])
        case .billing where reason.isStated: return (.failed, [failure(of: period, reported), stated])
        case .billing: return (.unpaid, [failure(of: period, reported)])
        case .price: return (.priceRefused, [stated])
        case .unavailable: return (.notForSale, [stated])
        case .other: return (.unnamed, [stated])
        case .refund, .unknown: return nil
        }
    }

    /// The times of the reports about the unbroken access that a period ends, up to and including the instant.
    private func reports(about period: AccessPeriod, at instant: Instant) -> Range<Instant> {
        var start = period.start
        for earlier in access.reversed() where earlier.start < start && earlier.end >= start { start = earlier.start }
        return start..<max(start, instant.advanced(byMilliseconds: 1))
    }

    private func retryStatement(in reported: Range<Instant>) -> Int64? {
        first(in: reported) { statement in
            statement.renewal.isInBillingRetryPeriod == true
                && statement.renewal.gracePeriodExpiresDate.map { $0 < reported.upperBound } ?? true
        } ?? first(in: reported) { $0.renewal.isInBillingRetryPeriod }
    }

    /// The first report that the renewal failed, after the end of the period or at its end.
    private func failure(of period: AccessPeriod, _ reported: Range<Instant>) -> Int64? {
        let failures = renewals.filter {
            reported.contains($0.statedAt) && $0.renewal.isInBillingRetryPeriod == true
        }
        return (failures.first { $0.statedAt >= period.end } ?? failures.last)?.position
            ?? (period.cause == .grace ? period.position : nil)
    }

    /// The first answer of Google since the suspension began.
    private func suspensionStatement(at instant: Instant) -> Int64? {
        guard let start = suspension(at: instant)?.start else { return nil }
        return renewals.first { $0.statedAt >= start }?.position
    }

    /// The first of the latest reports of some time of which none contradicts a statement.
    ///
    /// - Parameter says: Nil for a report that neither states nor contradicts it.
    private func first(
        in reported: Range<Instant>, _ says: (SubscriptionFacts.RenewalStatement) -> Bool?
    ) -> Int64? {
        var first: Int64?
        for statement in renewals where reported.contains(statement.statedAt) {
            guard let isStated = says(statement) else { continue }
            first = isStated ? first ?? statement.position : nil
        }
        return first
    }
}
