import Encoding

/// Where a subscription stands at an instant.
package enum SubscriptionStatus: String, Sendable, CaseIterable {
    /// Nothing had been bought yet.
    case never
    case active
    /// Paid for, with renewal switched off.
    case activeWillEnd = "active-will-end"
    /// A renewal failed; access goes on while Apple tries again.
    case grace
    /// A renewal failed; Apple tries again, without access, for 60 days at most.
    case retry
    case expired
    /// The latest purchase was taken back.
    case refunded
    /// A family member lost access.
    case revoked
    /// Bought once, and not taken back.
    case owned
}

extension Subscription {
    /// Whether the subscription gives access at the instant. Only periods decide.
    package func isActive(at instant: Instant) -> Bool {
        access.contains { $0.contains(instant) }
    }

    /// The period in force: of overlapping ones the paid before the grace, then the one bought last.
    package func period(at instant: Instant) -> AccessPeriod? {
        access.inForce(at: instant)
    }

    package func status(at instant: Instant) -> SubscriptionStatus {
        if let period = period(at: instant) {
            switch period.cause {
            case .grace: return .grace
            case .owned: return .owned
            case .paid: return renewal(at: instant).autoRenewStatus == false ? .activeWillEnd : .active
            }
        }
        // Of some purchases nothing is known but their refund.
        let bought = transactions.filter {
            ($0.transaction.purchaseDate ?? $0.settled.revocationDate ?? .latest) <= instant
        }
        guard let last = bought.last else { return .never }
        let consumables = consumables(at: instant)
        if last.settled.isRefunded || (last.settled.isRefundedInPart && consumables ?? 0 == 0) { return .refunded }
        if last.settled.isFamilyRevoked { return .revoked }
        if consumables != nil { return .owned }
        let renewal = renewal(at: instant)
        let isRetrying =
            renewal.isInBillingRetryPeriod == true && renewal.autoRenewStatus != false
            && instant < retryEnd(at: instant) ?? .latest
        return isRetrying ? .retry : .expired
    }

    /// How long Apple tries to renew, from the expiry of the period whose renewal failed.
    private static let retryMilliseconds: Int64 = 60 * 86_400_000

    /// When Apple stops trying to renew what had been bought by the instant, if nothing else happens.
    private func retryEnd(at instant: Instant) -> Instant? {
        let expiries = transactions.filter {
            ($0.transaction.purchaseDate ?? .latest) <= instant && !$0.settled.isUpgraded
        }.compactMap(\.transaction.expiresDate)
        return expiries.max()?.advanced(byMilliseconds: Self.retryMilliseconds)
    }

    /// The intention to renew as it was stated by the instant.
    ///
    /// Switch and product stay as last stated. Retry, grace, price and intent are those of the latest statement,
    /// since Apple withdraws them by leaving them out.
    package func renewal(at instant: Instant) -> RenewalInfo {
        var result = RenewalInfo(originalTransactionId: originalTransactionId)
        for statement in renewals where statement.statedAt <= instant {
            let earlier = result
            result = statement.renewal
            result.productId = result.productId ?? earlier.productId
            result.autoRenewStatus = result.autoRenewStatus ?? earlier.autoRenewStatus
            result.autoRenewStatusChangeDate = result.autoRenewStatusChangeDate ?? earlier.autoRenewStatusChangeDate
        }
        (result.autoRenewProductId, result.autoRenewProductChangeDate) = renewalProduct(at: instant)
        return result
    }

    /// The product of the next renewal as it was last stated by the instant, and its own date if it has one.
    ///
    /// A product that was chosen in a V1 notification counts from its receipt, which may be later than all that its
    /// notification knows of, and so later than statements that follow it in their order; but it was chosen before the
    /// next purchase, which its notification would know of.
    func renewalProduct(at instant: Instant) -> (id: String?, changeDate: Instant?) {
        var latest: (since: Instant, id: String, changeDate: Instant?)?
        for statement in renewals where statement.statedAt <= instant {
            guard let id = statement.renewal.autoRenewProductId else { continue }
            let changeDate = statement.renewal.autoRenewProductChangeDate
            var since = statement.statedAt
            if let changeDate, changeDate > since {
                let next = transactions.lazy.compactMap(\.transaction.purchaseDate).first { $0 > statement.statedAt }
                since = min(changeDate, next ?? changeDate)
            }
            guard since <= instant, latest.map({ $0.since <= since }) ?? true else { continue }
            latest = (since, id, changeDate)
        }
        return (latest?.id, latest?.changeDate)
    }

    /// The next time at which the status changes by the clock alone, and what it then is.
    package func nextChange(after instant: Instant) -> (at: Instant, to: SubscriptionStatus)? {
        let now = status(at: instant)
        let retryEnds = [retryEnd(at: instant), retryEnd(at: .latest)].compactMap { $0 }
        let boundaries = Set(access.flatMap { [$0.start, $0.end] } + retryEnds).filter { $0 > instant && $0 < .latest }
            .sorted()
        for boundary in boundaries {
            let then = status(at: boundary)
            if then != now { return (boundary, then) }
        }
        return nil
    }

    /// The stretches without access between two with.
    ///
    /// Recorded nowhere: a lapse is where a purchase is later than the end of everything before it.
    package var lapses: [Range<Instant>] { access.gaps }

    /// When the access in force at the instant ends, over periods that follow on each other without a gap.
    package func accessEnd(at instant: Instant) -> Instant? {
        access.unbroken(at: instant).last?.end
    }
}
