import Encoding

/// The status of a subscription at an instant, with its newest transaction and its next renewal.
package struct SimulatedStatus: Sendable {
    package let status: StoreNotification.Status
    package let transaction: SimulatedTransaction
    let renewalPreference: RenewalPreference
    let purchases: [Purchase]

    package var originalTransactionId: String { transaction.original.transactionId }
    package var subscriptionGroup: String { transaction.purchase.product.subscriptionGroup ?? "" }

    /// The renewal info to sign.
    package func renewalInfo(app: SimulatedApp, signedDate: Instant) -> V2RenewalInfo {
        V2RenewalInfo(
            renewalPreference, of: purchases, app: app, customer: transaction.customer, signedDate: signedDate)
    }
}

extension SimulatedSubscription {
    /// The status at the instant; nil before the first purchase, and for one-time purchases.
    package func status(at instant: Instant, _ amendments: BookAmendments = .init()) -> SimulatedStatus? {
        let transactions = transactions(at: instant, amendments)
        // A period that seats were added to stands as long as one of its transactions does.
        let standing = transactions.last { !$0.purchase.addsSeats || $0.purchase.revocation == nil }
        guard let entry = books(at: instant), var recorded = entry.renewalPreference, let newest = standing
        else { return nil }
        let purchases = transactions.map(\.purchase)
        let end = newest.purchase.expiresDate ?? .latest
        if end != entry.purchases.last?.expiresDate { recorded.renewalDate = end }
        let amended = BookEntry(at: entry.at, purchases: purchases, renewalPreference: recorded, access: entry.access)
        var shown = amended.shownPreference(at: instant) ?? recorded
        if recorded.expiration == .switchedOff {
            // Signed answers show a switch-off within grace at once, unlike receipts.
            shown.isInBillingRetry = recorded.isInBillingRetry
            shown.graceEnd = recorded.graceEnd
        }
        let status: StoreNotification.Status
        if newest.purchase.revocation != nil {
            status = .revoked
        } else if instant < end {
            status = .active
        } else if recorded.isInBillingRetry {
            status = recorded.graceEnd.map { instant < $0 } == true ? .grace : .billingRetry
        } else {
            status = .expired
        }
        return SimulatedStatus(
            status: status, transaction: newest, renewalPreference: shown, purchases: purchases)
    }

    /// When the store last charged a renewal before the instant; nil if it never did.
    package func lastRenewal(at instant: Instant) -> Instant? {
        guard let newest = books(at: instant)?.purchases.last, newest.reason == .renewal else { return nil }
        return history.first { $0.purchases.contains { $0.transactionId == newest.transactionId } }?.at
    }
}
