import Encoding

/// A purchase on Google Play, as the latest answer about it says.
package struct PlayPurchase: Sendable, Hashable {
    /// The key of the purchase. See ``PurchaseSnapshot/purchaseToken``.
    package let purchaseToken: String
    /// The token itself, to ask about the purchase.
    package let fullPurchaseToken: String
    /// False for one-time products.
    package let isSubscription: Bool
    /// Google's name of the state, without its prefix.
    package let stateName: String
    /// Nil while the purchase is pending.
    package let startTime: Instant?
    package let productIds: [String]
    /// Nil if no answer says it.
    package let isAcknowledged: Bool?
    package let autoResumeTime: Instant?
    /// The latest expiry of its items, as answered; for a suspended purchase, not the end of its access.
    package let expiryTime: Instant?
    /// When the latest answer was given.
    package let answeredAt: Instant
    /// When another purchase replaced it.
    package let replacedAt: Instant?
    /// Its order that was charged last.
    package let latestOrderId: String?
    let suspensions: [Suspension]
    /// True if Google no longer answers about it.
    let isGone: Bool

    package var state: PurchaseSnapshot.State? { PurchaseSnapshot.State(rawValue: stateName) }

    /// A time without access that may end without a new purchase. Half-open; where there is access, that counts.
    struct Suspension: Sendable, Hashable {
        let status: SubscriptionStatus
        let start: Instant
        let end: Instant
    }
}

extension Subscription {
    /// The purchase of which the subscription consists now; nil for other stores, and if only a void or an order is known.
    package var currentPurchase: PlayPurchase? {
        purchases.last { $0.state.map { $0 != .pendingPurchaseCanceled } ?? true } ?? purchases.last
    }

    func suspension(at instant: Instant) -> PlayPurchase.Suspension? {
        purchases.lazy.flatMap(\.suspensions).last { $0.start <= instant && instant < $0.end }
    }
}

extension PurchaseLine {
    var purchases: [PlayPurchase] {
        histories.compactMap { history in
            guard let last = history.answers.last else { return nil }
            let snapshot = last.snapshot
            return PlayPurchase(
                purchaseToken: history.purchaseToken,
                fullPurchaseToken: snapshot.longPurchaseToken ?? history.purchaseToken,
                isSubscription: snapshot.kind == .subscription, stateName: snapshot.stateName,
                startTime: history.startTime, productIds: snapshot.items.map(\.productId),
                isAcknowledged: history.answers.last { $0.snapshot.isAcknowledged != nil }?.snapshot.isAcknowledged,
                autoResumeTime: snapshot.autoResumeTime, expiryTime: snapshot.items.compactMap(\.expiryTime).max(),
                answeredAt: last.statedAt, replacedAt: history.replacedAt, latestOrderId: history.newestOrder,
                suspensions: history.suspensions.map(\.limited), isGone: history.isGone)
        }
    }
}

extension PurchaseHistory.Suspension {
    fileprivate var limited: PlayPurchase.Suspension {
        // Account hold lasts 60 days at most, which is also how long a late renewal may be waited for.
        let last = start.advanced(byMilliseconds: Transaction.retryMilliseconds)
        return switch kind {
        case .pending: PlayPurchase.Suspension(status: .pending, start: start, end: end)
        case .paused: PlayPurchase.Suspension(status: .paused, start: start, end: end)
        case .hold: PlayPurchase.Suspension(status: .hold, start: start, end: min(end, last))
        case .retry: PlayPurchase.Suspension(status: .retry, start: start, end: min(end, last))
        }
    }
}
