import Encoding
import Subscriptions

/// The values of a row of `check_schedule` that follow from the facts. The time of the next question also depends on the
/// recorded checks, which only the database knows.
struct ScheduledCheck: Sendable, Hashable {
    let check: StoreCheck
    /// True if the App Store can be asked with a receipt: something is known from a V1 notification or from an answer
    /// about a receipt. Their facts are not signed.
    let hasReceipt: Bool
    /// The purchase on Google Play that is asked about; nil for a subscription of the App Store.
    let purchaseToken: String?

    /// Nil if the subscription is not checked again.
    init?(_ subscription: Subscription, _ policy: CheckPolicy) {
        let reports = subscription.reports
        guard let check = subscription.nextCheck(after: reports.latestAt, policy: policy) else { return nil }
        self.check = check
        hasReceipt = reports.hasUnsigned
        purchaseToken = subscription.currentPurchase?.fullPurchaseToken
    }
}
