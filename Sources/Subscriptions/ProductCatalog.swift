/// What is known of an app's products beyond their transactions.
package struct ProductCatalog: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        case autoRenewable
        /// Its end is in no transaction: it is the purchase date and this much.
        case nonRenewing(CalendarDuration)
        case consumable
        case nonConsumable
    }

    package static let empty = ProductCatalog([:])

    private let kinds: [String: Kind]

    package init(_ kinds: [String: Kind]) {
        self.kinds = kinds
    }

    package func kind(of productId: String?) -> Kind? {
        productId.flatMap { kinds[$0] }
    }

    package var productIds: [String] { kinds.keys.sorted() }

    /// One line a product: equal catalogs have equal texts.
    package var canonicalText: String {
        kinds.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: "\n")
    }
}

extension ProductCatalog.Kind: CustomStringConvertible {
    /// The name in configuration files.
    package init?(name: String, duration: CalendarDuration?) {
        switch (name, duration) {
        case ("auto-renewable", nil): self = .autoRenewable
        case ("non-renewing", let duration?): self = .nonRenewing(duration)
        case ("consumable", nil): self = .consumable
        case ("non-consumable", nil): self = .nonConsumable
        default: return nil
        }
    }

    package var description: String {
        switch self {
        case .autoRenewable: "auto-renewable"
        case .nonRenewing(let duration): "non-renewing \(duration)"
        case .consumable: "consumable"
        case .nonConsumable: "non-consumable"
        }
    }
}
