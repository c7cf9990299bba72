import Encoding

/// A Real-time Developer Notification. It says that something changed, and not what the state is.
package struct PlayMessage: Sendable, Hashable {
    package enum Content: Sendable, Hashable {
        case subscription(SubscriptionType, productId: String)
        case oneTime(OneTimeType, sku: String)
        case voided(orderId: String, isSubscription: Bool, isPartial: Bool)
        /// Asks the developer about a charge-back.
        case refundReview(orderId: String, account: PlayAccount)
        case test
    }

    /// The raw values are Google's `notificationType`.
    package enum SubscriptionType: Int, Sendable, Hashable {
        case recovered = 1
        case renewed, canceled, purchased, onHold, inGracePeriod, restarted, priceChangeConfirmed, deferred, paused
        case pauseScheduleChanged, revoked, expired
        case itemsChanged = 17
        case cancellationScheduled, priceChangeUpdated, pendingPurchaseCanceled
        case priceStepUpConsentUpdated = 22
    }

    /// The raw values are Google's `notificationType`.
    package enum OneTimeType: Int, Sendable, Hashable {
        case purchased = 1
        case canceled
    }

    package let messageId: String
    package let purchaseToken: String
    package let eventTime: Instant
    package let content: Content

    package init(messageId: String, purchaseToken: String, eventTime: Instant, content: Content) {
        self.messageId = messageId
        self.purchaseToken = purchaseToken
        self.eventTime = eventTime
        self.content = content
    }

    /// The messages of Google Play are published this long after the event.
    package var publishTime: Instant { eventTime.advanced(byMilliseconds: 200) }

    /// The number of a message about a subscription; nil for any other.
    package var subscriptionType: SubscriptionType? {
        if case .subscription(let type, _) = content { type } else { nil }
    }
}
