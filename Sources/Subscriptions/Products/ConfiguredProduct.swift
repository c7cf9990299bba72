import Encoding

/// What the owner of an app says of one of its products: of what kind it is, and what it entitles to.
package struct ConfiguredProduct: Sendable, Hashable {
    /// Bundle id.
    package let app: String
    package let productId: String
    /// In the words of ``ProductCatalog/Kind``; nil to go by what the transactions say.
    package let kind: String?
    /// ISO 8601, as ``CalendarDuration`` takes it; of a non-renewing product, and of no other.
    package let duration: String?
    /// As they are stored, in the order of their bytes, each once; none for a product that entitles to its own id.
    package let entitlements: [String]

    /// What the product entitles to: never nothing.
    package var givenEntitlements: [String] { entitlements.isEmpty ? [productId] : entitlements }

    /// Apple's ids have at most 100 characters; indexes in the database take no more than 2.7 kB for all three texts.
    package static let textBytesMax = 255
    package static let entitlementsMax = 100

    /// - Throws: ``Malformed``, in one line that names the field.
    package init(
        app: String, productId: String, kind: String?, duration: String?, entitlements: [String]
    ) throws(Malformed) {
        try Self.check(app, "app", "app")
        try Self.check(productId, "product id", "productId")
        for name in entitlements { try Self.check(name, "entitlement", "entitlements") }
        guard entitlements.count <= Self.entitlementsMax else {
            throw Malformed(
                description: "a product has at most \(Self.entitlementsMax) entitlements", field: "entitlements")
        }
        if let kind, !Self.kinds.contains(kind) {
            throw Malformed(description: "kind must be \(Self.kinds.joined(separator: ", ")), or none", field: "kind")
        }
        guard (kind == "non-renewing") == (duration != nil) else {
            throw Malformed(
                description: "a non-renewing product has a duration, and no other has one", field: "duration")
        }
        if let duration, CalendarDuration(iso8601: duration) == nil {
            throw Malformed(
                description: "duration must be years, months, weeks and days, as in P3M or P1Y10D", field: "duration")
        }
        self.init(stored: app, productId: productId, kind: kind, duration: duration, entitlements: entitlements)
    }

    /// What the database has checked.
    package init(stored app: String, productId: String, kind: String?, duration: String?, entitlements: [String]) {
        self.app = app
        self.productId = productId
        self.kind = kind
        self.duration = duration
        self.entitlements = Set(entitlements.map(ByteString.init)).sorted().map(\.text)
    }

    package struct Malformed: Error, Hashable, CustomStringConvertible {
        package let description: String
        /// As the members of a product are called.
        package let field: String
    }

    package static let kinds = ["auto-renewable", "non-renewing", "consumable", "non-consumable"]

    private static func check(_ text: String, _ name: String, _ field: String) throws(Malformed) {
        guard !text.isEmpty else { throw Malformed(description: "\(name) must not be empty", field: field) }
        guard text.utf8.count <= textBytesMax else {
            throw Malformed(description: "\(name) must not be longer than \(textBytesMax) bytes", field: field)
        }
        guard text.utf8.allSatisfy({ $0 >= 0x20 }) else {
            throw Malformed(description: "\(name) must not hold control characters", field: field)
        }
    }

    /// Without the app: `{"productId","kind","duration","entitlements":[…]}`, with what it entitles to.
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("productId", productId)
        writer.member("kind", kind)
        writer.member("duration", duration)
        writer.key("entitlements")
        writer.array(givenEntitlements) { $0.value($1) }
    }
}

extension [ConfiguredProduct] {
    /// What the fold needs of them, by bundle id.
    package var catalogs: [String: ProductCatalog] {
        Dictionary(grouping: self, by: \.app).mapValues { products in
            ProductCatalog(
                products.compactMap { product in
                    let duration = product.duration.flatMap { CalendarDuration(iso8601: $0) }
                    let kind = product.kind.flatMap { ProductCatalog.Kind(name: $0, duration: duration) }
                    return kind.map { (ByteString(product.productId), $0) }
                })
        }
    }
}
