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

    /// One line a product, kind before id: equal catalogs have equal texts.
    package var canonicalText: String {
        kinds.sorted { $0.key < $1.key }.map { "\($0.value)\t\($0.key)" }.joined(separator: "\n")
    }

    /// Reads what ``canonicalText`` wrote.
    package init(canonicalText text: String) {
        var kinds: [String: Kind] = [:]
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: "\t", maxSplits: 1)
            guard parts.count == 2 else { continue }
            let words = parts[0].split(separator: " ").map(String.init)
            let duration = words.count > 1 ? CalendarDuration(iso8601: words[1]) : nil
            kinds[String(parts[1])] = words.first.flatMap { Kind(name: $0, duration: duration) }
        }
        self.init(kinds)
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
