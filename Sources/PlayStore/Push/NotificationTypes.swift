import Subscriptions

/// The type of a notification about a subscription. For people, and to decide when to ask again: access is derived from
/// answers alone.
package enum SubscriptionNotificationType: Sendable, Hashable {
    case recovered
    case renewed
    case canceled
    case purchased
    case onHold
    case inGracePeriod
    case restarted
    case priceChangeConfirmed
    case deferred
    case paused
    case pauseScheduleChanged
    case revoked
    case expired
    case itemsChanged
    case cancellationScheduled
    case priceChangeUpdated
    case pendingPurchaseCanceled
    case priceStepUpConsentUpdated
    /// As it was sent; empty if there was none.
    case unknown(String)

    private static let known: [(number: String, name: String, type: Self, kind: EventKind)] = [
        ("1", "RECOVERED", .recovered, .recovery), ("2", "RENEWED", .renewed, .renewal),
        ("3", "CANCELED", .canceled, .autoRenewChange), ("4", "PURCHASED", .purchased, .purchase),
        ("5", "ON_HOLD", .onHold, .hold), ("6", "IN_GRACE_PERIOD", .inGracePeriod, .renewalFailure),
        ("7", "RESTARTED", .restarted, .autoRenewChange),
        ("8", "PRICE_CHANGE_CONFIRMED", .priceChangeConfirmed, .priceConsent),
        ("9", "DEFERRED", .deferred, .extension), ("10", "PAUSED", .paused, .pause),
        ("11", "PAUSE_SCHEDULE_CHANGED", .pauseScheduleChanged, .pause), ("12", "REVOKED", .revoked, .revoke),
        ("13", "EXPIRED", .expired, .expiration), ("17", "ITEMS_CHANGED", .itemsChanged, .planChange),
        ("18", "CANCELLATION_SCHEDULED", .cancellationScheduled, .autoRenewChange),
        ("19", "PRICE_CHANGE_UPDATED", .priceChangeUpdated, .priceChange),
        ("20", "PENDING_PURCHASE_CANCELED", .pendingPurchaseCanceled, .other),
        ("22", "PRICE_STEP_UP_CONSENT_UPDATED", .priceStepUpConsentUpdated, .priceConsent),
    ]

    /// - Parameter name: The number of the type; nil if it is missing.
    init(name: String?) {
        let name = name ?? ""
        self = Self.known.first { $0.number == name }?.type ?? .unknown(name)
    }

    /// Google's name, such as `SUBSCRIPTION_RENEWED`; the number of a type that this version does not know.
    package var name: String {
        if case .unknown(let name) = self { return name }
        return Self.known.first { $0.type == self }.map { "SUBSCRIPTION_\($0.name)" } ?? ""
    }

    var kind: EventKind { Self.known.first { $0.type == self }?.kind ?? .other }

    /// The states of the purchase that an answer is expected to have, soon after the notification: if it has another one,
    /// it may be late, and is asked for again. Nil if any state is expected.
    package var expectedStates: Set<PurchaseSnapshot.State>? {
        switch self {
        case .recovered, .renewed, .purchased, .restarted, .deferred, .cancellationScheduled: [.active]
        case .priceChangeConfirmed, .pauseScheduleChanged, .priceChangeUpdated, .priceStepUpConsentUpdated: [.active]
        case .canceled: [.canceled, .expired]
        case .onHold: [.onHold]
        case .inGracePeriod: [.inGracePeriod]
        case .paused: [.paused]
        case .revoked, .expired: [.expired]
        case .pendingPurchaseCanceled: [.pendingPurchaseCanceled]
        case .itemsChanged, .unknown: nil
        }
    }
}

/// The type of a notification about a one-time product.
package enum ProductNotificationType: Sendable, Hashable {
    /// Paid for.
    case purchased
    /// A pending purchase was cancelled, which is not a refund.
    case canceled
    /// As it was sent; empty if there was none.
    case unknown(String)

    /// - Parameter name: The number of the type; nil if it is missing.
    init(name: String?) {
        switch name {
        case "1": self = .purchased
        case "2": self = .canceled
        default: self = .unknown(name ?? "")
        }
    }

    /// Google's name, such as `ONE_TIME_PRODUCT_PURCHASED`; the number of a type that this version does not know.
    package var name: String {
        switch self {
        case .purchased: "ONE_TIME_PRODUCT_PURCHASED"
        case .canceled: "ONE_TIME_PRODUCT_CANCELED"
        case .unknown(let name): name
        }
    }

    var kind: EventKind { self == .purchased ? .purchase : .other }

    /// See ``SubscriptionNotificationType/expectedStates``.
    package var expectedStates: Set<PurchaseSnapshot.State>? {
        switch self {
        case .purchased: [.purchased]
        case .canceled: [.cancelled]
        case .unknown: nil
        }
    }
}
