import Encoding

/// A payment.
package struct PlayOrder: Sendable, Hashable {
    /// The raw values are Google's.
    package enum State: String, Sendable, Hashable {
        case pending = "PENDING"
        case processed = "PROCESSED"
        case canceled = "CANCELED"
        case partiallyRefunded = "PARTIALLY_REFUNDED"
        case refunded = "REFUNDED"
    }

    package struct Item: Sendable, Hashable {
        package let productId: String
        /// Nil for a one-time product.
        package let basePlanId: String?
        package let offerId: String?
        package let phase: PlayPhase?
        /// In thousandths of the currency's unit.
        package let price: Int64

        /// The tax in it.
        package var tax: Int64 { price / 10 }
    }

    package struct Change: Sendable, Hashable {
        package let at: Instant
        package let state: State
    }

    /// Money that was paid back. It says nothing about access.
    package struct Refund: Sendable, Hashable {
        /// The raw values are Google's.
        package enum Reason: String, Sendable, Hashable {
            case other = "OTHER"
            case chargeBack = "CHARGEBACK"
        }

        package let at: Instant
        /// In thousandths of the currency's unit, with the tax.
        package let amount: Int64
        package let reason: Reason
        /// Whether money was left when it was paid back.
        package let isPartial: Bool
    }

    package let orderId: String
    package let purchaseToken: String
    package let createTime: Instant
    package let currency: String
    package var items: [Item]
    /// Nil for a one-time product. As of the processing of the payment: a deferral does not change it.
    package var servicePeriod: Range<Instant>?
    /// Oldest first.
    package internal(set) var changes: [Change]
    /// Oldest first.
    package internal(set) var refunds: [Refund] = []

    /// In thousandths of the currency's unit.
    package var total: Int64 { items.map(\.price).reduce(0, +) }

    /// Whether Google states the tax and the proceeds. It does not document when it does; in these books it is every other
    /// payment.
    package var statesShares: Bool { (orderId.utf8.last ?? 0) % 2 == 0 }

    /// The tax in it.
    package var tax: Int64 { items.map(\.tax).reduce(0, +) }

    /// What the developer gets of what is not paid back, without taxes and the store's share of 15 percent.
    package func proceeds(at instant: Instant = .latest) -> Int64 {
        let kept = total - refunded(at: instant)
        return (kept - kept / 10) * 85 / 100
    }

    /// Nil before the order exists.
    package func state(at instant: Instant) -> State? { changes.last { $0.at <= instant }?.state }

    /// What was paid back until the instant, in thousandths of the currency's unit.
    package func refunded(at instant: Instant = .latest) -> Int64 {
        refunds.filter { $0.at <= instant }.map(\.amount).reduce(0, +)
    }

    /// Pays money back.
    ///
    /// - Parameter amount: Nil for all that is left.
    mutating func refund(_ amount: Int64? = nil, _ reason: Refund.Reason = .other, at instant: Instant) {
        let left = total - refunded()
        let amount = min(amount ?? left, left)
        refunds.append(Refund(at: instant, amount: amount, reason: reason, isPartial: amount < left))
        become(amount < left ? .partiallyRefunded : .refunded, at: instant)
    }

    mutating func become(_ state: State, at instant: Instant) {
        changes.append(Change(at: instant, state: state))
    }
}

/// A payment that was taken back together with what it paid for.
package struct PlayVoid: Sendable, Hashable {
    /// The raw values are Google's.
    package enum Source: Int, Sendable, Hashable {
        case user, developer, google
    }

    /// The raw values are Google's.
    package enum Reason: Int, Sendable, Hashable {
        case other, remorse, notReceived, defective, accidental, fraud, friendlyFraud, chargeBack, unacknowledged
    }

    package let purchaseToken: String
    package let orderId: String
    package let purchaseTime: Instant
    package let voidedTime: Instant
    /// When Google saw the void. The list of voided purchases is filtered by it.
    package let seenAt: Instant
    package let source: Source
    package let reason: Reason
    package let isSubscription: Bool
    /// The units of a refund by quantity; nil for a full one, and for the last of several.
    package var quantity: Int?
    package var isPartial = false
}
