/// The permissions of a token.
package enum TokenScope: String, Sendable, CaseIterable {
    /// What apps contain, so that anyone can read it: hand in one's own purchases and read one's own entitlements, with an
    /// assertion of the app's backend about who one is. For one app.
    case publishable
    /// Hand receipts in, and read what came of them. For apps' gateways, which should not read anything else.
    case submit
    /// Read subscriptions, events and customers.
    case read
    /// Set which ids belong to a customer, and answer refund requests. Includes `read` and `submit`.
    case link
    /// Act for customers: give access by hand and take it back. Includes `link`.
    case operate
    /// Add, change and test the endpoints to which changes are delivered. A token that may do that can have all
    /// changes sent to any place.
    case webhooks
    /// Change products and their policies, which affect all customers. Includes all other scopes.
    case admin

    /// Whether a token with this scope may do what requires the other one.
    package func includes(_ other: TokenScope) -> Bool {
        switch self {
        case .publishable, .submit, .read, .webhooks: other == self
        case .link: other != .admin && other != .webhooks && other != .operate
        case .operate: other != .admin && other != .webhooks
        case .admin: true
        }
    }
}
