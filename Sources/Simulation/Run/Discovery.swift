import Encoding

extension SimulatedSubscription {
    /// Whether a server learns from the store what a lost notification would have said: from a receipt that is handed in
    /// then or later, or because subscriptions that may still renew are checked.
    ///
    func isFoundByAsking(_ lost: StoreNotification) -> Bool {
        guard let happened = history.last(where: { $0.at <= lost.signedDate })?.at,
            // Receipts do not say which part of a period remains.
            lost.subject.revocation?.kind != .prorated
        else { return false }
        // What ends grace early is in no receipt.
        if isGraceEnded(at: happened) { return false }
        if handedIn(nil).contains(where: { $0.1 >= happened }) { return true }
        return isChecked(after: happened) && !isSwitchOffInGrace(at: happened)
    }

    /// Whether a check is made later than an instant: after the end of the last period, and for 60 days after a renewal that
    /// failed. An ended subscription is not checked, nor is one whose last period was refunded.
    private func isChecked(after instant: Instant) -> Bool {
        let before = instant.advanced(byMilliseconds: -1)
        guard let entry = books(at: before) else { return false }
        let last = entry.purchases.last { $0.expiresDate != nil && $0.upgradedAt == nil && $0.revocation == nil }
        guard let last, let end = last.expiresDate else { return false }
        // The first check comes an hour after the end, or sooner after a short period.
        let delay = min(.seconds(3600), last.purchaseDate.duration(to: end) / 10)
        if instant < end.advanced(by: delay) { return true }
        return entry.shownPreference(at: before)?.isInBillingRetry == true && instant < end.advanced(by: Self.retryMax)
    }

    /// Whether auto-renewal was switched off in a grace period. That ends access at once, and receipts do not say when.
    private func isSwitchOffInGrace(at instant: Instant) -> Bool {
        let before = books(at: instant.advanced(byMilliseconds: -1))?.renewalPreference
        let after = books(at: instant)?.renewalPreference
        return before?.graceEnd.map { instant < $0 } == true && before?.isOn == true && after?.isOn == false
    }

    /// Whether the store ended a grace period before its end, without a payment.
    private func isGraceEnded(at instant: Instant) -> Bool {
        let (before, after) = (books(at: instant.advanced(byMilliseconds: -1)), books(at: instant))
        return before?.renewalPreference?.graceEnd.map { instant < $0 } == true
            && after?.renewalPreference?.graceEnd == nil && before?.purchases.count == after?.purchases.count
    }

    /// Apple retries the payment of a renewal for this long.
    private static var retryMax: Duration { .seconds(60 * 86_400) }
}
