import EventLog
import Subscriptions

extension PurchaseNotification {
    /// Whether an answer shows what the notification says, or what happened after it. If not, it may be late.
    func isMet(by snapshot: PurchaseSnapshot) -> Bool {
        guard !expectedStates.isEmpty else { return true }
        guard expectedStates.contains(snapshot.stateName) else { return isOvertaken(by: snapshot) }
        // A late answer has the right state and the end of the period before.
        guard type == "SUBSCRIPTION_RENEWED", let end = snapshot.items.compactMap(\.expiryTime).max() else {
            return true
        }
        return end > eventTime
    }

    /// Whether an answer is from a time after the notification, which was delivered late: a purchase never leaves some
    /// states, so that it had none of them before, and a cancellation has a time.
    private func isOvertaken(by snapshot: PurchaseSnapshot) -> Bool {
        switch snapshot.state {
        case .expired, .cancelled: true
        default: snapshot.cancelTime.map { $0 > eventTime } ?? false
        }
    }
}
