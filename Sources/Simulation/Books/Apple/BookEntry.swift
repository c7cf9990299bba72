import Encoding

/// The store's books about one subscription or one-time purchase, from an instant on.
///
/// Unlike a notification, an entry is dated by the event itself, and events without a notification have one too.
package struct BookEntry: Sendable {
    package let at: Instant
    /// Oldest first.
    package let purchases: [Purchase]
    /// Nil for one-time purchases.
    package let renewalPreference: RenewalPreference?
    /// The access that is known at the instant. Later refunds are not in it.
    package let access: AccessBook
    /// Whether the store sent a notification of the event.
    package var isNotified = true

    /// The renewal preference that the store shows at an instant before the next entry. A period that ended without a
    /// renewal has expired, whether or not there was a notification. After a switch-off within grace, both remain
    /// visible until the grace period would have ended.
    func shownPreference(at instant: Instant) -> RenewalPreference? {
        guard var shown = renewalPreference else { return nil }
        if shown.expiration == nil, let end = purchases.last?.expiresDate, end <= instant {
            shown.expiration = shown.isOn ? .other : .switchedOff
            shown.isOn = false
        }
        if shown.expiration == .switchedOff, let graceEnd = shown.graceEnd {
            shown.isInBillingRetry = instant < graceEnd
            if graceEnd <= instant { shown.graceEnd = nil }
        }
        return shown
    }
}
