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
    /// The end that was paid for, before free days were added to it. Nil if none were, and on Google Play, whose share does
    /// not depend on the years of service.
    var paidUntil: Instant?
    package let reason: Reason
    package let offer: Offer?
    /// In thousandths of the currency's unit.
    package let price: Int64
    package let quantity: Int
    /// Nil if the product is sold with one billing plan.
    package var billingPlan: BillingPlan?
    package var commitment: Commitment?
    /// Nil if it is for one person.
    package var seats: Seats?
    /// When an upgrade replaced the purchase.
    package var upgradedAt: Instant?
    package var revocation: Revocation?
    /// The UUID of the app user who bought, or whose purchase is renewed; nil if the app set none.
    package var appAccountToken: String?
    /// A copy of another purchase that a restore made.
    package var isRestored = false
    /// The period ends unless the customer buys again.
    package var isPrepaid = false
    /// A product that was bought beside another one, in the same order.
    package var isAddOn = false
    /// What the order says was paid back, oldest first. Apple has no orders: the revocation or the seats say it.
    package var orderRefunds: [PaidBack] = []
    /// The tax in the price and what the developer gets in the end, as the order states them. Nil if it does not, and for
    /// Apple.
    var orderShares: OrderShares?
}

/// How an order divides what was paid for one of its products, in thousandths of the currency's unit.
struct OrderShares: Sendable, Hashable {
    /// Also of what was paid back.
    let tax: Int64
    let proceeds: Int64
}

/// Money that was paid back of a purchase.
package struct PaidBack: Sendable, Hashable {
    package let at: Instant
    /// In thousandths of the currency's unit.
    package let amount: Int64
    /// Whether nothing of what was paid is left.
    package let isWhole: Bool
}

extension Purchase {
    /// What was paid, in thousandths of the currency's unit. The price of a purchase with seats is that of one seat.
    package var paid: Int64 { seats?.paid ?? price }

    /// What was refunded of it, in thousandths of the currency's unit.
    var refunded: Int64 {
        guard orderRefunds.isEmpty else { return orderRefunds.map(\.amount).reduce(0, +) }
        guard let revocation else { return seats?.refunded ?? 0 }
        return (2 * paid * Int64(revocation.percentage ?? 0) + 100_000) / 200_000
    }

    /// Each time that money was paid back of it, oldest first.
    var paidBack: [PaidBack] {
        guard orderRefunds.isEmpty, let refundedAt else { return orderRefunds }
        return [PaidBack(at: refundedAt, amount: refunded, isWhole: revocation?.kind == .full)]
    }

    var isPaidBackWhole: Bool { paidBack.contains(where: \.isWhole) }

    /// When money was refunded; nil if none was.
    var refundedAt: Instant? {
        guard let revocation else { return seats?.revokedAt }
        return revocation.percentage == nil ? nil : revocation.date
    }

    /// Adds seats to a period that another purchase began.
    package var addsSeats: Bool { seats?.isAddition ?? false }

    /// Adds to a period that another purchase began.
    var isAddition: Bool { addsSeats || isAddOn }

    /// Pays for a period that another one follows unless something prevents it.
    var isOfRenewing: Bool { expiresDate != nil && !isPrepaid }

    /// Adds free days to the period.
    mutating func extend(to end: Instant) {
        paidUntil = paidUntil ?? expiresDate
        expiresDate = end
    }
}

/// The seats of a purchase, as Apple's documentation describes them. No genuine transaction with seats was seen.
package struct Seats: Sendable, Hashable {
    package struct Tier: Sendable, Hashable {
        /// Of one seat, in thousandths of the currency's unit.
        package let price: Int64
        package let quantity: Int

        package init(price: Int64, quantity: Int) {
            self.price = price
            self.quantity = quantity
        }
    }

    package enum Invitations: String, Sendable {
        /// Each member has a transaction.
        case apple = "APPLE"
        /// The app's server knows the members, who have no transactions.
        case developer = "DEVELOPER"
    }

    package let tiers: [Tier]
    package let invitations: Invitations
    /// Bought within a period, for the rest of it.
    package var isAddition = false
    /// Whether several purchases represent the period. Each of them says so.
    package var isOneOfSeveral = false
    /// Refunded seats, while others are left. Their number is in the purchaser's rows alone.
    package var revoked = 0
    package var revokedAt: Instant?

    package init(_ tiers: [Tier], _ invitations: Invitations = .apple) {
        precondition(!tiers.isEmpty, "there are no seats")
        self.tiers = tiers
        self.invitations = invitations
    }

    package var quantity: Int { tiers.map(\.quantity).reduce(0, +) }
    package var paid: Int64 { tiers.map { $0.price * Int64($0.quantity) }.reduce(0, +) }
    /// The average price of a seat.
    package var price: Int64 { paid / Int64(quantity) }
    /// Known for seats of one price only: the store does not say which seats it refunds.
    var refunded: Int64 { tiers.count == 1 ? tiers[0].price * Int64(revoked) : price * Int64(revoked) }
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

/// The refund of a purchase, or the end of a member's access to it.
package struct Revocation: Sendable, Hashable {
    /// The raw values are Apple's.
    package enum Kind: String, Sendable {
        case full = "REFUND_FULL"
        case prorated = "REFUND_PRORATED"
        case family = "FAMILY_REVOKE"
        /// An organization takes a seat back.
        case assignment = "ASSIGNMENT_REVOKE"

        /// Nobody gets money back.
        package var isOfMember: Bool { self == .family || self == .assignment }
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
