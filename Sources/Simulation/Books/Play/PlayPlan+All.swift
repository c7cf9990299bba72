extension PlayPlan {
    /// All base plans of the app that stories sell.
    package static var all: [PlayPlan] {
        let tiers = [Product.Tier.plus, .premium, .audio]
        let renewing = tiers.flatMap { tier in Period.allCases.map { PlayPlan(tier, $0) } }
        let prepaid = [Period.weekly, .monthly].map { PlayPlan(.plus, $0, .prepaid) }
        // The base plan has one id whatever the number of payments.
        return renewing + prepaid + [PlayPlan(.premium, .yearly, .installments(12))]
    }
}

extension Product {
    /// The app's products on Google Play, sorted by id. Those of subscriptions have the ids `productId:basePlanId`.
    ///
    /// - Parameter app: The prefix of the ids of one-time products in the App Store.
    package static func allOnGooglePlay(of app: String) -> [Product] {
        let oneTime = [nonConsumable(of: app), consumable(of: app)].map(\.onGooglePlay)
        return (PlayPlan.all.map(\.product) + oneTime).sorted { $0.id < $1.id }
    }

    /// The one-time product with its id on Google Play, which is unique in the app only.
    var onGooglePlay: Product {
        Product(
            id: String(id.split(separator: ".").last ?? ""), kind: kind, tier: tier, duration: duration,
            basePrice: basePrice)
    }
}
