import Subscriptions

/// One charge as it stands in the store's books: what a transaction tells.
package struct Purchase: Sendable, Hashable {
    package enum Reason: String, Sendable {
        case purchase = "PURCHASE"
        case renewal = "RENEWAL"
    }

    package let transactionId: String
    /// Of subscriptions only.
    package let webOrderLineItemId: String?
    package let product: Product
    package let purchaseDate: Instant
    /// Of subscriptions only. An extension moves it.
    package var expiresDate: Instant?
    package let reason: Reason
    package let offer: Offer?
    /// In thousandths of the currency's unit.
    package let price: Int64
    package let quantity: Int
    package var commitment: Commitment?
    /// When an upgrade replaced it.
    package var upgradedAt: Instant?
    package var revocation: Revocation?
}

/// Special terms of a purchase.
package struct Offer: Sendable, Hashable {
    /// Apple's numbers.
    package enum Kind: Int, Sendable {
        case introductory = 1
        case promotional, code, winBack
    }

    package let kind: Kind
    /// Of all but introductory offers.
    package let identifier: String?
    /// `FREE_TRIAL`, `PAY_AS_YOU_GO` or `PAY_UP_FRONT`.
    package let discountType: String
    /// How long it lasts.
    package let period: CalendarDuration
    package let periodText: String

    /// - Parameter period: An ISO 8601 duration such as `P1W`.
    package init(_ kind: Kind, _ discountType: String, period: String, identifier: String? = nil) {
        self.kind = kind
        self.identifier = identifier
        self.discountType = discountType
        self.period = fixedDuration(period)
        periodText = period
    }

    package var isFree: Bool { discountType == "FREE_TRIAL" }
}

/// A purchase taken back.
package struct Revocation: Sendable, Hashable {
    /// With Apple's words for the kinds.
    package enum Kind: String, Sendable {
        case full = "REFUND_FULL"
        case prorated = "REFUND_PRORATED"
        case family = "FAMILY_REVOKE"
    }

    package let date: Instant
    package let kind: Kind
    /// 1 an issue in the app, 0 any other reason.
    package let reason: Int
    /// In thousandths of a percent; nil where nothing was paid back.
    package let percentage: Int?
}

/// A year's promise that is paid by the month.
package struct Commitment: Sendable, Hashable {
    /// Counted from 1.
    package let billingPeriodNumber: Int
    package let totalBillingPeriods: Int
    package let expiresDate: Instant
    /// In thousandths of the currency's unit.
    package let price: Int64
}
