/// An endpoint of the simulated Google Play Developer API.
package enum PlayEndpoint: String, Sendable, Hashable, CaseIterable {
    case subscriptionV2 = "subscription_v2"
    /// The deprecated resource.
    case subscription
    case acknowledgeSubscription = "acknowledge_subscription"
    case productV2 = "product_v2"
    /// The deprecated resource.
    case product
    case acknowledgeProduct = "acknowledge_product"
    case consumeProduct = "consume_product"
    case voidedPurchases = "voided_purchases"
    case order
    case orders
    case reviewRefund = "review_refund"

    /// Each has 3,000 requests per minute of its own.
    package enum Bucket: String, Sendable, Hashable, CaseIterable {
        case subscriptions, oneTime = "one_time", orders
    }

    package var bucket: Bucket {
        switch self {
        case .subscriptionV2, .subscription, .acknowledgeSubscription: .subscriptions
        case .productV2, .product, .acknowledgeProduct, .consumeProduct: .oneTime
        case .voidedPurchases, .order, .orders, .reviewRefund: .orders
        }
    }

    /// What a path names, after the package.
    struct Match: Sendable {
        let endpoint: PlayEndpoint
        /// The purchase token or the order id; empty for a list.
        var id = ""
        /// The product in the path; nil if there is none.
        var productId: String?
    }

    /// Finds the endpoint of a request; nil if there is none.
    ///
    /// - Parameter path: The segments after `applications/{package}`. The product of a subscription may be empty or
    ///   missing: Google has made it optional without saying how to leave it out.
    static func matching(_ method: String, _ path: [String]) -> Match? {
        switch (method, path.count) {
        case ("GET", 4) where path[0...2] == ["purchases", "subscriptionsv2", "tokens"]:
            return Match(endpoint: .subscriptionV2, id: path[3])
        case ("GET", 4) where path[0...2] == ["purchases", "productsv2", "tokens"]:
            return Match(endpoint: .productV2, id: path[3])
        case ("GET", 5) where path[0...1] == ["purchases", "subscriptions"] && path[3] == "tokens":
            return Match(endpoint: .subscription, id: path[4], productId: path[2])
        case ("GET", 5) where path[0...1] == ["purchases", "products"] && path[3] == "tokens":
            return Match(endpoint: .product, id: path[4], productId: path[2])
        case ("GET", 2) where path == ["purchases", "voidedpurchases"]: return Match(endpoint: .voidedPurchases)
        case ("GET", 1) where path == ["orders:batchGet"]: return Match(endpoint: .orders)
        case ("GET", 2) where path[0] == "orders": return Match(endpoint: .order, id: path[1])
        case ("POST", 2) where path[0] == "orders" && path[1].hasSuffix(Self.reviewing):
            return Match(endpoint: .reviewRefund, id: String(path[1].dropLast(Self.reviewing.count)))
        case ("POST", 4), ("POST", 5): return action(path)
        default: return nil
        }
    }

    private static let reviewing = ":reviewrefund"

    private static func action(_ path: [String]) -> Match? {
        guard path[0] == "purchases", path[path.count - 2] == "tokens", let last = path.last,
            let colon = last.lastIndex(of: ":")
        else { return nil }
        let id = String(last[..<colon])
        let productId = path.count == 5 && !path[2].isEmpty ? path[2] : nil
        switch (path[1], last[last.index(after: colon)...]) {
        case ("subscriptions", "acknowledge"):
            return Match(endpoint: .acknowledgeSubscription, id: id, productId: productId)
        case ("products", "acknowledge") where path.count == 5:
            return Match(endpoint: .acknowledgeProduct, id: id, productId: productId)
        case ("products", "consume") where path.count == 5:
            return Match(endpoint: .consumeProduct, id: id, productId: productId)
        default: return nil
        }
    }
}
