/// What the bearer of a token may do. Each scope includes those before it.
package enum TokenScope: String, Sendable, CaseIterable, Comparable {
    /// Ask: subscriptions, events, customers.
    case read
    /// State which ids belong to a customer.
    case link
    /// Change what all customers are served by: products.
    case admin

    private var rank: Int {
        switch self {
        case .read: 0
        case .link: 1
        case .admin: 2
        }
    }

    package static func < (left: TokenScope, right: TokenScope) -> Bool {
        left.rank < right.rank
    }
}
