/// The permissions of a token. Each scope includes those before it.
package enum TokenScope: String, Sendable, CaseIterable, Comparable {
    /// Read subscriptions, events and customers.
    case read
    /// Set which ids belong to a customer.
    case link
    /// Change products, which affect all customers.
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
