import Encoding

/// The status of a subscription at an instant.
package enum SubscriptionStatus: String, Sendable, CaseIterable {
    /// No purchase had been made yet.
    case never
    case active
    /// Paid for, with renewal switched off, or with a commitment that is not renewed.
    case activeWillEnd = "active-will-end"
    /// A renewal failed; access continues while Apple retries it.
    case grace
    /// A renewal failed; Apple retries it for at most 60 days, or 90 of a commitment that is billed monthly, without
    /// access.
    case retry
    case expired
    /// The latest purchase was refunded.
    case refunded
    /// A family member or the holder of a seat lost access, or the store ended the purchase before its time without a
    /// refund that it names.
    case revoked
    /// A one-time purchase that was not refunded.
    case owned
    /// Google: a renewal failed; Google retries it, without access.
    case hold
    /// Google: the customer paused the subscription.
    case paused
    /// Google: bought, and not paid for yet.
    case pending
}

extension Subscription {
    /// True if a period of ``access`` contains the instant.
    package func isActive(at instant: Instant) -> Bool {
        access.contains { $0.contains(instant) }
    }

    /// The period in force. Of overlapping periods, paid ones take precedence over grace, then the one that started
    /// last.
    package func period(at instant: Instant) -> AccessPeriod? {
        access.inForce(at: instant)
    }

    package func status(at instant: Instant) -> SubscriptionStatus {
        if let period = period(at: instant) {
            switch period.cause {
            case .grace: return .grace
            case .owned: return .owned
            case .paid: return isRenewing(at: instant) == false ? .activeWillEnd : .active
            }
        }
        // For some purchases only the refund is known.
        let bought = transactions.filter {
            ($0.transaction.purchaseDate ?? $0.settled.revocationDate ?? .latest) <= instant
        }
        guard let last = bought.last else { return suspension(at: instant)?.status ?? .never }
        let consumables = consumables(at: instant)
        if last.settled.isRefunded || (last.settled.isRefundedInPart && consumables ?? 0 == 0) { return .refunded }
        switch last.settled.revocation {
        case .familyRevoked, .assignmentRevoked, .endedEarly, .unknown: return .revoked
        case .unitsRefunded where consumables == 0: return .refunded
        case .refundedInFull, .refundedInPart, .unitsRefunded, .amountRefunded, .upgraded, nil: break
        }
        if let suspension = suspension(at: instant) { return suspension.status }
        if consumables != nil { return .owned }
        guard reportsRetries else { return .expired }
        let renewal = renewal(at: instant)
        let isRetrying =
            renewal.isInBillingRetryPeriod == true
            && isOff(afterEndAt: lastExpiry(at: instant).end, by: instant) != true
            && instant < retryEnd(at: instant) ?? .latest
        return isRetrying ? .retry : .expired
    }

    /// When Apple stops retrying the renewal of the purchases made by the instant, if nothing else happens.
    private func retryEnd(at instant: Instant) -> Instant? {
        let last = lastExpiry(at: instant)
        return last.end?.advanced(byMilliseconds: last.retryMilliseconds)
    }

    /// The last expiry of the purchases made by the instant that were not replaced, and how long its renewal is retried.
    private func lastExpiry(at instant: Instant) -> (end: Instant?, retryMilliseconds: Int64) {
        var last: (end: Instant?, retryMilliseconds: Int64) = (nil, 0)
        for row in transactions where !row.settled.isUpgraded {
            guard let bought = row.transaction.purchaseDate, bought <= instant,
                let end = row.transaction.expiresDate
            else { continue }
            // Of copies, the one that is retried longer.
            let next = (end, row.transaction.retryMilliseconds)
            if last.end.map({ ($0, last.retryMilliseconds) < next }) ?? true { last = next }
        }
        return last
    }

    /// Whether the subscription goes on after what the customer is committed to, as last reported by the instant; nil if
    /// that is not known.
    package func isRenewing(at instant: Instant) -> Bool? {
        renewalStatement(at: instant)?.isRenewing
    }

    /// The last report by the instant that says whether renewal is on.
    func renewalStatement(at instant: Instant) -> SubscriptionFacts.RenewalStatement? {
        renewals.last { $0.statedAt <= instant && $0.isRenewing != nil }
    }

    /// Whether nothing is to follow an end of access, as last reported by an instant; nil if that is not known.
    func isOff(afterEndAt end: Instant?, by instant: Instant = .latest) -> Bool? {
        renewalStatement(at: instant).flatMap { isOff($0, afterEndAt: end) }
    }

    /// Whether a report says that nothing is to follow an end of access; nil if it does not say it. The months of a
    /// commitment follow each other until its end, also if it is not renewed.
    func isOff(_ statement: SubscriptionFacts.RenewalStatement, afterEndAt end: Instant?) -> Bool? {
        guard statement.endsWithCommitment else { return statement.isRenewing.map { !$0 } }
        let commitmentEnd = commitmentEnd(of: statement, before: end)
        return commitmentEnd < .latest && commitmentEnd <= end ?? .latest
    }

    /// The end of the commitment that a report is about: that of the last purchase before an end of access, which moves
    /// with a late payment, or the one that the report states. ``Instant/latest`` if none is known.
    private func commitmentEnd(of statement: SubscriptionFacts.RenewalStatement, before end: Instant?) -> Instant {
        transactions.last { row in
            (row.transaction.purchaseDate ?? .latest) < end ?? .latest && row.transaction.commitmentExpiresDate != nil
        }?.transaction.commitmentExpiresDate ?? statement.commitmentEnd ?? .latest
    }

    /// When the commitment ends that is not renewed, and whose months the store charges after an end of access, as last
    /// reported by an instant: ``Instant/latest`` if no report states it. Nil if no such month follows.
    package func commitmentEnd(after end: Instant, by instant: Instant = .latest) -> Instant? {
        guard let statement = renewalStatement(at: instant), statement.endsWithCommitment,
            isOff(statement, afterEndAt: end) == false
        else { return nil }
        return commitmentEnd(of: statement, before: end)
    }

    /// When the subscription ends, because renewal is off: with the access that is in force, or with the commitment whose
    /// months the store charges until then. Nil if renewal is not known to be off, and if no report states the end.
    package func plannedEnd(at instant: Instant) -> Instant? {
        guard status(at: instant) == .activeWillEnd, let end = accessEnd(at: instant) else { return nil }
        let planned = commitmentEnd(after: end, by: instant) ?? end
        return planned < .latest ? planned : nil
    }

    /// The renewal info as reported by the instant.
    ///
    /// The auto-renew status and the products keep their last reported values. Retry, grace, price and expiration
    /// intent are those of the latest report, since Apple withdraws them by omitting them. What receipts do not contain,
    /// such as the price, is that of the latest signed report. A status alone withdraws what contradicts it.
    package func renewal(at instant: Instant) -> RenewalInfo {
        var result = RenewalInfo(originalTransactionId: originalTransactionId)
        var isSigned = true
        for statement in renewals where statement.statedAt <= instant {
            if statement.renewal.isStatusAlone {
                // A subscription that runs, or is over, is neither retried nor in grace.
                result.endedStatus = statement.renewal.endedStatus
                (result.isInBillingRetryPeriod, result.gracePeriodExpiresDate) = (nil, nil)
                result.expirationIntent = nil
                continue
            }
            let earlier = result
            result = statement.renewal
            isSigned = statement.isSigned
            if !isSigned { result.keepSignedFields(of: earlier) }
            result.productId = result.productId ?? earlier.productId
            result.autoRenewProductId = result.autoRenewProductId ?? earlier.autoRenewProductId
            result.autoRenewStatus = result.autoRenewStatus ?? earlier.autoRenewStatus
            result.autoRenewStatusChangeDate = result.autoRenewStatusChangeDate ?? earlier.autoRenewStatusChangeDate
        }
        (result.autoRenewProductId, result.autoRenewProductChangeDate) = renewalProduct(at: instant)
        if !isSigned, let renewalDate = result.renewalDate, isPaid(after: renewalDate, at: instant) {
            result.renewalDate = nil
        }
        return result
    }

    /// True if a purchase made by the instant expires after the date, so that the renewal of that date was made and
    /// reported without a new date.
    private func isPaid(after date: Instant, at instant: Instant) -> Bool {
        transactions.contains { row in
            (row.transaction.purchaseDate ?? .latest) <= instant && (row.transaction.expiresDate ?? .earliest) > date
                && !row.settled.isRefunded
        }
    }

    /// The product of the next renewal as last reported by the instant, and its own date if it has one.
    ///
    /// A product choice in a V1 notification takes effect when the notification is received. That may be later than any
    /// date in the notification, and thus later than reports that are ordered after it. But the choice was made before
    /// the next purchase: otherwise the notification would contain that purchase.
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

    /// The next instant at which the status changes without a new event, and the status from then on. Nil if there is
    /// none.
    ///
    /// `renews` is true if the store is to charge the next period at that instant, a month of a commitment that is not
    /// renewed included: the status is what follows if it does not.
    package func nextChange(after instant: Instant) -> (at: Instant, to: SubscriptionStatus, renews: Bool)? {
        let now = status(at: instant)
        let retryEnds = [retryEnd(at: instant), retryEnd(at: .latest)].compactMap { $0 }
        let suspensionEnds = purchases.flatMap(\.suspensions).flatMap { [$0.start, $0.end] }
        let boundaries = Set(access.flatMap { [$0.start, $0.end] } + retryEnds + suspensionEnds).filter {
            $0 > instant && $0 < .latest
        }
        .sorted()
        for boundary in boundaries {
            let then = status(at: boundary)
            if then != now { return (boundary, then, isRenewal(at: boundary, from: now, to: then, after: instant)) }
        }
        return nil
    }

    private func isRenewal(
        at end: Instant, from now: SubscriptionStatus, to then: SubscriptionStatus, after instant: Instant
    ) -> Bool {
        // In grace, the renewal has failed.
        (now == .active || now == .activeWillEnd) && [.expired, .retry, .hold].contains(then)
            && accessEnd(at: instant) == end && isOff(afterEndAt: end, by: end) == false
    }

    /// The gaps in access between periods.
    ///
    /// Not reported by Apple: there is a gap if a period starts after the end of all earlier ones.
    package var lapses: [Range<Instant>] { access.gaps }

    /// The end of the unbroken access that is in force at the instant; nil if there is none.
    package func accessEnd(at instant: Instant) -> Instant? {
        access.unbroken(at: instant).last?.end
    }
}
