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
    /// The renewal failed, and the store has given up.
    case failed
    case priceRefused
    case notForSale
}

extension Subscription {
    /// Why the subscription was not renewed, with the first event that says it; nil if no report says why, and if the
    /// subscription has access at the instant.
    func lapse(at instant: Instant) -> (lapse: Lapse, position: Int64?)? {
        switch status(at: instant) {
        case .hold: (.onHold, suspensionStatement(at: instant))
        case .paused:
            (.paused(until: currentPurchase?.autoResumeTime), suspensionStatement(at: instant))
        case .retry: (.retried, retryStatement(by: instant))
        case .expired: expiration(at: instant)
        default: nil
        }
    }

    private func expiration(at instant: Instant) -> (lapse: Lapse, position: Int64?)? {
        let renewal = renewal(at: instant)
        let switchedOff = first(by: instant) { $0.autoRenewStatus.map { !$0 } }
        let intent = renewal.expirationIntent
        let stated = first(by: instant) { $0.expirationIntent == intent }
        // Apple's numbers.
        switch intent {
        case 1: return (.switchedOff, switchedOff ?? stated)
        case 2: return (.failed, stated)
        case 3: return (.priceRefused, stated)
        case 4: return (.notForSale, stated)
        // For another reason. Apple then reports renewal as off too, which the customer did not do.
        case 5: return nil
        default: break
        }
        if renewal.autoRenewStatus == false { return (.switchedOff, switchedOff) }
        return renewal.isInBillingRetryPeriod == true ? (.failed, retryStatement(by: instant)) : nil
    }

    private func retryStatement(by instant: Instant) -> Int64? {
        first(by: instant) {
            $0.isInBillingRetryPeriod == true && $0.gracePeriodExpiresDate.map { $0 <= instant } ?? true
        } ?? first(by: instant) { $0.isInBillingRetryPeriod }
    }

    /// The first answer of Google since the suspension began.
    private func suspensionStatement(at instant: Instant) -> Int64? {
        guard let start = suspension(at: instant)?.start else { return nil }
        return renewals.first { $0.statedAt >= start }?.position
    }

    /// The first of the latest reports by an instant of which none contradicts a statement.
    ///
    /// - Parameter says: Nil for a report that neither states nor contradicts it.
    private func first(by instant: Instant, _ says: (RenewalInfo) -> Bool?) -> Int64? {
        var first: Int64?
        for statement in renewals where statement.statedAt <= instant {
            guard let isStated = says(statement.renewal) else { continue }
            first = isStated ? first ?? statement.position : nil
        }
        return first
    }
}
