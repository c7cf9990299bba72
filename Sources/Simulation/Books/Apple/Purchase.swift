import Encoding

/// One charge in the store's books, with the fields of a transaction.
package struct Purchase: Sendable, Hashable {
    package enum Reason: String, Sendable {
        case purchase = "PURCHASE"
        case renewal = "RENEWAL"
    }

    package let transactionId: String
    /// Nil for one-time purchases.
    package let webOrderLineItemId: String?
    package let product: Product
    package let purchaseDate: Instant
    /// Nil for one-time purchases. An extension moves it.
    package var expiresDate: Instant?
    package let reason: Reason
    package let offer: Offer?
    /// In thousandths of the currency's unit.
    package let price: Int64
    package let quantity: Int
    /// Nil if the product is sold with one billing plan.
    package var billingPlan: BillingPlan?
    package var commitment: Commitment?
    /// When an upgrade replaced the purchase.
    package var upgradedAt: Instant?
    package var revocation: Revocation?
    /// The UUID of the app user who bought, or whose purchase is renewed; nil if the app set none.
    package var appAccountToken: String?
    /// A copy of another purchase that a restore made.
    package var isRestored = false
}

/// An offer applied to a purchase.
package struct Offer: Sendable, Hashable {
    /// The raw values are Apple's.
    package enum Kind: Int, Sendable {
        case introductory = 1
        case promotional, code, winBack
    }

    package let kind: Kind
    /// Nil for introductory offers.
    package let identifier: String?
    /// `FREE_TRIAL`, `PAY_AS_YOU_GO` or `PAY_UP_FRONT`.
    package let discountType: String
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

/// The refund of a purchase, or the end of family access to it.
package struct Revocation: Sendable, Hashable {
    /// The raw values are Apple's.
    package enum Kind: String, Sendable {
        case full = "REFUND_FULL"
        case prorated = "REFUND_PRORATED"
        case family = "FAMILY_REVOKE"
    }

    package let date: Instant
    package let kind: Kind
    /// 1 for an issue in the app, 0 for any other reason.
    package let reason: Int
    /// In thousandths of a percent; nil if nothing was refunded.
    package let percentage: Int?
}

/// How a product with a yearly period is charged, if customers can choose. The raw values are Apple's.
package enum BillingPlan: String, Sendable {
    /// Once for the year.
    case upFront = "BILLED_UPFRONT"
    /// Twelve times, with a commitment to the year. Each charge has a transaction and a period of a month.
    case monthly = "MONTHLY"
}

/// A yearly commitment that is billed monthly.
package struct Commitment: Sendable, Hashable {
    /// Starts at 1.
    package let billingPeriodNumber: Int
    package let totalBillingPeriods: Int
    package let expiresDate: Instant
    /// In thousandths of the currency's unit.
    package let price: Int64
}
