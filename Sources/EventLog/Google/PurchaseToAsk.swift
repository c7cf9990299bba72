import Encoding

/// The kind of a purchase of Google Play, which decides where it is asked about.
package enum PurchaseResource: String, Sendable, Hashable, CaseIterable {
    case subscription
    case oneTime = "one_time"
}

/// A purchase of Google Play that is to be asked about, and why.
package struct PurchaseToAsk: Sendable, Hashable {
    package let purchaseToken: String
    /// Nil if it is not known.
    package var resource: PurchaseResource?
    package var productId: String?
    /// The notification whose effect the answer should show; nil without one.
    package var notification: PurchaseNotification?
    /// The backend's customer who hands the purchase in, and is linked to it after the answer; nil without one.
    package var customerId: String?
    /// The account id that the backend gave the app for that customer; nil if it names none.
    package var accountId: String?
    /// Our clock.
    package let noticedAt: Instant

    package init(
        purchaseToken: String, resource: PurchaseResource? = nil, productId: String? = nil,
        notification: PurchaseNotification? = nil, customerId: String? = nil, accountId: String? = nil,
        noticedAt: Instant
    ) {
        self.purchaseToken = purchaseToken
        self.resource = resource
        self.productId = productId
        self.notification = notification
        self.customerId = customerId
        self.accountId = accountId
        self.noticedAt = noticedAt
    }
}

/// A notification whose effect the answers should show.
package struct PurchaseNotification: Sendable, Hashable {
    /// Google's name of its type.
    package let type: String
    /// When it happened, according to Google.
    package let eventTime: Instant
    /// The states that the purchase should have afterwards; empty if it may have any.
    package let expectedStates: Set<String>

    package init(type: String, eventTime: Instant, expectedStates: Set<String>) {
        self.type = type
        self.eventTime = eventTime
        self.expectedStates = expectedStates
    }

    /// As the database stores them.
    var statesText: String { expectedStates.sorted().joined(separator: " ") }

    static func states(_ text: String) -> Set<String> { Set(text.split(separator: " ").map(String.init)) }
}

/// The order in which purchases are asked about while the quota is short.
package enum PurchaseRank: Int32, Sendable, CaseIterable, Comparable {
    /// A notification, or a purchase that was handed in with Google's signature.
    case notice = 0
    /// An answer that was missing, or that did not show what the notification says; or a purchase that was handed in and that
    /// nothing proves, once no hand-in waits for its answer.
    case again = 1
    /// The time at which something may have happened without a notification.
    case scheduled = 2

    package static func < (left: PurchaseRank, right: PurchaseRank) -> Bool { left.rawValue < right.rawValue }
}
