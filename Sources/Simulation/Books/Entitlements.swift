/// The entitlements of the simulated app. Products and entitlements are many-to-many.
extension Product {
    /// The entitlements in the app's product configuration. Empty for a product without one, which grants an
    /// entitlement named by its product id.
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

    /// All products of the app, sorted by product id.
    package static func all(of app: String) -> [Product] {
        let plans = Tier.allCases.flatMap { tier in
            Period.allCases.map { Product.subscription(tier, $0, of: app) }
        }
        return (plans + [nonConsumable(of: app), consumable(of: app)]).sorted { $0.id < $1.id }
    }
}
