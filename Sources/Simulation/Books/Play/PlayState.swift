import Encoding

/// The state of a purchase token.
package enum PlayState: String, Sendable, Hashable {
    case pending = "PENDING"
    case active = "ACTIVE"
    case paused = "PAUSED"
    case inGracePeriod = "IN_GRACE_PERIOD"
    case onHold = "ON_HOLD"
    case canceled = "CANCELED"
    case expired = "EXPIRED"
    case pendingPurchaseCanceled = "PENDING_PURCHASE_CANCELED"

    /// Google's `subscriptionState`.
    package var name: String { "SUBSCRIPTION_STATE_\(rawValue)" }
}

/// The status of a subscription, as a ledger is expected to name it.
package enum PlayStatus: String, Sendable, Hashable {
    /// Before the first purchase, or after the cancellation of one that was never paid.
    case never
    /// Before the payment of the first purchase.
    case pending
    case active
    /// A one-time purchase that is paid for.
    case owned
    case activeWillEnd = "active-will-end"
    case grace, hold, paused, expired
    /// The renewal is late.
    case retry
    /// A void names the newest order.
    case refunded
}

/// Why a subscription will end or has ended.
package struct PlayCancellation: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        /// Also shown for a refund by the developer.
        case user
        /// The payment failed.
        case system
        case developer
        /// Another purchase token replaced this one.
        case replacement
    }

    package let kind: Kind
    package let at: Instant
    /// The reason that the user gave, such as `TECHNICAL_ISSUES`.
    package var surveyReason: String?
}
