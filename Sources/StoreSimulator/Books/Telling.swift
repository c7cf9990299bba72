import Subscriptions

/// One thing that the store tells about a line, with the books as they stood then.
package struct Telling: Sendable {
    /// A type of version 2 with its subtype.
    package struct Name: Sendable, Hashable {
        package let type: String
        package let subtype: String?

        package init(_ type: String, _ subtype: String? = nil) {
            self.type = type
            self.subtype = subtype
        }
    }

    /// Where a line stands, in Apple's numbers.
    package enum Status: Int, Sendable {
        case active = 1
        case expired, billingRetry, grace, revoked
    }

    package let notificationUUID: String
    package let signedDate: Instant
    /// Nil for what only version 1 tells.
    package let version2: Name?
    /// The type of version 1; nil for what it does not tell.
    package let version1: String?
    /// The purchase that the notification is about.
    package let subject: Purchase
    /// All purchases of the line so far, oldest first.
    package let purchases: [Purchase]
    /// Nil for one-time purchases.
    package let intention: Intention?
    /// Nil for one-time purchases.
    package let status: Status?
    package let consumptionRequestReason: String?
}
