import Encoding

/// A notification that the store sends about a subscription or a one-time purchase, with the books at that time.
package struct StoreNotification: Sendable {
    /// A notification type and subtype of version 2.
    package struct Name: Sendable, Hashable {
        package let type: String
        package let subtype: String?

        package init(_ type: String, _ subtype: String? = nil) {
            self.type = type
            self.subtype = subtype
        }
    }

    /// The status of a subscription. The raw values are Apple's.
    package enum Status: Int, Sendable {
        case active = 1
        case expired, billingRetry, grace, revoked
    }

    package let notificationUUID: String
    package let signedDate: Instant
    /// Nil if only version 1 sends the notification.
    package let version2: Name?
    /// The notification type of version 1; nil if version 1 does not send the notification.
    package let version1: String?
    /// The purchase that the notification is about.
    package let subject: Purchase
    /// All purchases of the subscription so far, oldest first.
    package let purchases: [Purchase]
    /// Nil for one-time purchases.
    package let renewalPreference: RenewalPreference?
    /// Nil for one-time purchases.
    package let status: Status?
    package let consumptionRequestReason: String?
    /// The claims that the store takes back. A notification that has some is about nothing else.
    package var unclaimedSeats: [String] = []
}
