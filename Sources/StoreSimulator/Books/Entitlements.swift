/// What the make-believe app gives for its products: a plan may give more than one thing, and several plans the same.
extension Product {
    /// As the app configures it. Empty for what it forgot to configure, which entitles to its own product id.
    package var configuredEntitlements: [String] {
        switch tier {
        case .premium: ["premium", "plus"]
        case .plus, .sport: ["plus"]
        case .audio: ["audio"]
        case .basic: duration == Period.weekly.duration ? [] : ["basic"]
        case nil: kind == .nonConsumable ? ["premium"] : []
        }
    }

    package var entitlements: [String] {
        configuredEntitlements.isEmpty ? [id] : configuredEntitlements
    }

    /// Everything that the app sells, by product id.
    package static func all(of app: String) -> [Product] {
        let plans = Tier.allCases.flatMap { tier in
            Period.allCases.map { Product.subscription(tier, $0, of: app) }
        }
        return (plans + [nonConsumable(of: app), consumable(of: app)]).sorted { $0.id < $1.id }
    }
}
