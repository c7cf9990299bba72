import Encoding

/// A product of the simulated app.
package struct Product: Sendable, Hashable {
    /// The raw values are Apple's.
    package enum Kind: String, Sendable, Hashable {
        case autoRenewable = "Auto-Renewable Subscription"
        case nonConsumable = "Non-Consumable"
        case consumable = "Consumable"
    }

    /// The level of service of a plan. A change to a higher level is an upgrade, to a lower one a downgrade.
    package enum Tier: String, Sendable, Hashable, CaseIterable {
        case basic, plus, premium
        /// Equal to `plus`: a change between the two is a crossgrade.
        case sport
        /// In a subscription group of its own, so it can run at the same time as any other plan.
        case audio
    }

    /// Apple's `productId`.
    package let id: String
    package let kind: Kind
    /// Nil for one-time products.
    package let tier: Tier?
    /// Nil for one-time products.
    package let duration: CalendarDuration?
    /// In thousandths of a US dollar. ``Storefront/price(_:)`` converts it.
    package let basePrice: Int64

    /// The subscription group id; nil for one-time products. A customer has at most one plan of a group at a time.
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

/// The billing period of a plan.
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

    // Parsed once because every story uses them and a run may have a million stories.
    private static let week = fixedDuration("P1W")
    private static let month = fixedDuration("P1M")
    static let year = fixedDuration("P1Y")
}

/// Parses a duration that is a literal in the source code.
func fixedDuration(_ text: String) -> CalendarDuration {
    guard let duration = CalendarDuration(iso8601: text) else {
        preconditionFailure("\(text) is not an ISO 8601 duration")
    }
    return duration
}
