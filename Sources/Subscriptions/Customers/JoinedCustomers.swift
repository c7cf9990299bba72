import Encoding

/// The customers of an app, or of an app of the App Store and one of Google Play that are joined, at an instant.
///
/// The parts of a customer are the same backend's customer in both apps, or the same account token, or app users whose
/// tokens the links of one app give to the backend's customer. Where the links of the two apps give a token to different
/// customers of the backend, the token joins nothing. Equal to SQL function `joined_customer`.
package struct JoinedCustomers: Sendable {
    /// A customer in one of the apps.
    package struct Part: Sendable, Hashable {
        /// The index of the app.
        package let app: Int
        package let customer: CustomerKey

        package init(app: Int, customer: CustomerKey) {
            self.app = app
            self.customer = customer
        }
    }

    private let apps: [Customers]
    private let instant: Instant

    /// - Parameter apps: One, or two that are joined.
    package init(_ apps: [Customers], at instant: Instant) {
        self.apps = apps
        self.instant = instant
    }

    /// The name of the customer that a part belongs to: the backend's customer if there is one.
    package func name(of part: Part) -> CustomerKey {
        guard part.customer.kind == .account else { return part.customer }
        for (index, other) in apps.enumerated() where index != part.app {
            if let linked = other.customer(part.customer, at: instant), linked.kind == .link { return linked }
        }
        return part.customer
    }

    /// All parts of the customer that a part belongs to, in order of apps.
    package func parts(with part: Part) -> [Part] {
        let name = name(of: part)
        guard name.kind == .link || name.kind == .account else { return [part] }
        var parts: Set<Part> = [part]
        for (index, app) in apps.enumerated() {
            if app.customer(name, at: instant) == name { parts.insert(Part(app: index, customer: name)) }
            guard name.kind == .link else { continue }
            for (linking, other) in apps.enumerated() where linking != index {
                for identity in other.identities
                where identity.customer == name && identity.key.kind == .account && identity.isInForce(at: instant)
                    && app.customer(identity.key, at: instant) == identity.key
                {
                    parts.insert(Part(app: index, customer: identity.key))
                }
            }
        }
        return parts.sorted { ($0.app, $0.customer) < ($1.app, $1.customer) }
    }
}
