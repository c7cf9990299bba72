import Subscriptions

/// Something that the make-believe app sells.
package struct Product: Sendable, Hashable {
    /// With Apple's words for the kinds.
    package enum Kind: String, Sendable, Hashable {
        case autoRenewable = "Auto-Renewable Subscription"
        case nonConsumable = "Non-Consumable"
        case consumable = "Consumable"
    }

    /// What a subscription gives: lower levels can be downgraded to, higher ones upgraded to.
    package enum Tier: String, Sendable, Hashable, CaseIterable {
        case basic, plus, premium
        /// As good as `plus`: going from one to the other is a crossgrade.
        case sport
        /// Of a group by itself: it runs beside any of the others.
        case audio
    }

    /// The productId.
    package let id: String
    package let kind: Kind
    /// Of subscriptions only.
    package let tier: Tier?
    /// Of subscriptions only.
    package let duration: CalendarDuration?
    /// In thousandths of a dollar; a ``Storefront`` makes its own price of it.
    package let basePrice: Int64

    /// Its id; nil for what is no subscription. Of one group a customer has one plan at a time.
    package var subscriptionGroup: String? {
        tier.map { $0 == .audio ? "21000002" : "21000001" }
    }

    package static func subscription(_ tier: Tier, _ period: Period, of app: String) -> Product {
        let level: Int64 =
            switch tier {
            case .basic, .audio: 2
            case .plus, .sport: 3
            case .premium: 5
            }
        let base: Int64 =
            switch period {
            case .weekly: 990
            case .monthly: 2_990
            case .yearly: 24_990
            }
        return Product(
            id: "\(app).\(tier.rawValue).\(period.rawValue)", kind: .autoRenewable, tier: tier,
            duration: period.duration, basePrice: base * level / 2)
    }

    package static func nonConsumable(of app: String) -> Product {
        Product(id: "\(app).lifetime", kind: .nonConsumable, tier: nil, duration: nil, basePrice: 49_990)
    }

    package static func consumable(of app: String) -> Product {
        Product(id: "\(app).coins", kind: .consumable, tier: nil, duration: nil, basePrice: 990)
    }
}

/// How long a plan pays for.
package enum Period: String, Sendable, Hashable, CaseIterable {
    case weekly, monthly, yearly

    package var durationText: String {
        switch self {
        case .weekly: "P1W"
        case .monthly: "P1M"
        case .yearly: "P1Y"
        }
    }

    package var duration: CalendarDuration {
        switch self {
        case .weekly: Self.week
        case .monthly: Self.month
        case .yearly: Self.year
        }
    }

    // Parsed once: every story needs them, and a run may have a million.
    private static let week = fixedDuration("P1W")
    private static let month = fixedDuration("P1M")
    static let year = fixedDuration("P1Y")
}

/// A duration that stands in this source.
func fixedDuration(_ text: String) -> CalendarDuration {
    guard let duration = CalendarDuration(iso8601: text) else { preconditionFailure("\(text) is no duration") }
    return duration
}
