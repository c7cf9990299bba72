import Encoding

/// A purchase token of a subscription, with the store's books about it over time.
package struct PlayPurchaseToken: Sendable {
    package let token: String
    /// The id of the first order. Those of later ones end in `..0`, `..1` and so on.
    package let orderId: String
    /// The number of payments so far.
    var payments = 0

    /// The id of the next order.
    var nextOrderId: String { payments == 0 ? orderId : "\(orderId)..\(payments - 1)" }
    /// Oldest first. At least one.
    package internal(set) var history: [Entry]
    /// When the purchase was acknowledged, by the app or by its server; nil if it never was.
    package internal(set) var acknowledgedAt: Instant?
    /// When it has to be acknowledged; nil while it is pending.
    package internal(set) var deadline: Instant?

    package struct Entry: Sendable {
        package let at: Instant
        package let book: PlayBook
    }

    /// The books at an instant; nil before the purchase.
    package func book(at instant: Instant) -> PlayBook? { history.last { $0.at <= instant }?.book }

    package func isAcknowledged(at instant: Instant) -> Bool { acknowledgedAt.map { $0 <= instant } ?? false }
}

/// What the store's books say about a purchase token.
package struct PlayBook: Sendable, Hashable {
    package internal(set) var state: PlayState
    /// Nil while the purchase is pending. Renewals do not change it.
    package internal(set) var startTime: Instant?
    package internal(set) var items: [PlayItem]
    /// Also names an order that is not paid.
    package internal(set) var latestOrderId: String?
    package internal(set) var linkedToken: String?
    package internal(set) var cancellation: PlayCancellation?
    package internal(set) var autoResumeTime: Instant?
    package internal(set) var account: PlayAccount
    /// A resubscription in Google Play's subscription centre, until it is acknowledged.
    package internal(set) var outOfApp: OutOfApp?
    package internal(set) var isPromotion = false

    package struct OutOfApp: Sendable, Hashable {
        /// Nil if the store names the app user alone.
        package let expiredToken: String?
        package let expiredAccount: PlayAccount
    }
}

/// A product of a purchase token.
package struct PlayItem: Sendable, Hashable {
    package let plan: PlayPlan
    package internal(set) var offer: PlayOffer?
    package internal(set) var phase = PlayPhase.basePrice
    package internal(set) var expiryTime: Instant?
    /// Nil if nothing was paid.
    package internal(set) var successfulOrderId: String?
    package internal(set) var isAutoRenewing: Bool
    /// The price of the next period, in thousandths of the currency's unit.
    package internal(set) var price: Int64
    package internal(set) var priceChange: PriceChange?
    /// The product that replaces this one at the end of the period.
    package internal(set) var deferredReplacement: String?
    package internal(set) var isRemovalDeferred = false
    /// Takes effect at the end of the period. Neither its order nor its base plan is shown until then.
    package internal(set) var isDeferred = false
    package internal(set) var installments: Installments?

    package struct PriceChange: Sendable, Hashable {
        /// The raw values are Google's `priceChangeState`.
        package enum State: String, Sendable, Hashable {
            case outstanding = "OUTSTANDING"
            case confirmed = "CONFIRMED"
            case applied = "APPLIED"
        }

        package let newPrice: Int64
        package let chargeTime: Instant
        package var state: State
    }

    package struct Installments: Sendable, Hashable {
        package let committed: Int
        package var remaining: Int
        package var isCancellationPending = false
    }
}
