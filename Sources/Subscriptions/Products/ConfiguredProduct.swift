import Encoding

/// The configuration of a product: its kind and the entitlements that it grants.
package struct ConfiguredProduct: Sendable, Hashable {
    /// Bundle id.
    package let app: String
    package let productId: String
    /// One of ``kinds``; nil to infer it from the transactions.
    package let kind: String?
    /// An ISO 8601 duration that ``CalendarDuration`` accepts. Set for non-renewing products only.
    package let duration: String?
    /// The place of a plan among those of the app: a change to a higher one is an upgrade. Nil to compare prices.
    package let level: Int?
    /// What people call it; nil if it has no name but its id.
    package let name: String?
    /// The configured entitlements, distinct and sorted by bytes; empty if the product grants its own id.
    package let entitlements: [String]

    /// The entitlements that the product grants; never empty.
    package var givenEntitlements: [String] { entitlements.isEmpty ? [productId] : entitlements }

    /// Maximum length of an id or entitlement in bytes. Apple's ids have at most 100 characters, and an index entry in
    /// the database, which holds all three texts, is limited to 2.7 kB.
    package static let textBytesMax = 255
    package static let entitlementsMax = 100
    package static let levels = 1...1000

    /// - Throws: ``Malformed`` with a one-line description that names the field.
    package init(
        app: String, productId: String, kind: String?, duration: String?, level: Int? = nil, name: String? = nil,
        entitlements: [String]
    ) throws(Malformed) {
        try Self.check(app, "app", "app")
        try Self.check(productId, "product id", "productId")
        if let name { try Self.check(name, "name", "name") }
        for name in entitlements { try Self.check(name, "entitlement", "entitlements") }
        guard entitlements.count <= Self.entitlementsMax else {
            throw Malformed(
                description: "entitlements must have at most \(Self.entitlementsMax) elements", field: "entitlements")
        }
        if let kind, !Self.kinds.contains(kind) {
            throw Malformed(
                description: "kind must be one of \(Self.kinds.joined(separator: ", ")), or absent", field: "kind")
        }
        guard (kind == "non-renewing") == (duration != nil) else {
            throw Malformed(
                description: "duration must be set for a non-renewing product, and only for one", field: "duration")
        }
        if let duration, CalendarDuration(iso8601: duration) == nil {
            throw Malformed(
                description: "duration must be an ISO 8601 duration of years, months, weeks and days, such as P1Y10D",
                field: "duration")
        }
        if let level {
            guard Self.levels.contains(level) else {
                throw Malformed(
                    description:
                        "level must be an integer from \(Self.levels.lowerBound) to \(Self.levels.upperBound)",
                    field: "level")
            }
            guard kind == nil || kind == "auto-renewable" else {
                throw Malformed(description: "level must be absent unless the product renews", field: "level")
            }
        }
        self.init(
            stored: app, productId: productId, kind: kind, duration: duration, level: level, name: name,
            entitlements: entitlements)
    }

    /// Creates a product from stored values, which the database has checked.
    package init(
        stored app: String, productId: String, kind: String?, duration: String?, level: Int? = nil,
        name: String? = nil, entitlements: [String]
    ) {
        self.app = app
        self.productId = productId
        self.kind = kind
        self.duration = duration
        self.level = level
        self.name = name
        self.entitlements = Set(entitlements.map(ByteString.init)).sorted().map(\.text)
    }

    package struct Malformed: Error, Hashable, CustomStringConvertible {
        package let description: String
        /// The name of the product's member in JSON.
        package let field: String

        package init(description: String, field: String) {
            self.description = description
            self.field = field
        }
    }

    package static let kinds = ["auto-renewable", "non-renewing", "consumable", "non-consumable"]

    /// Checks an id.
    ///
    /// - Parameters:
    ///   - name: For the description.
    ///   - field: The name of the member in JSON.
    package static func check(_ text: String, _ name: String, _ field: String) throws(Malformed) {
        guard !text.isEmpty else { throw Malformed(description: "\(name) must not be empty", field: field) }
        guard text.utf8.count <= textBytesMax else {
            throw Malformed(description: "\(name) must not be longer than \(textBytesMax) bytes", field: field)
        }
        guard text.utf8.allSatisfy({ $0 >= 0x20 }) else {
            throw Malformed(description: "\(name) must not contain control characters", field: field)
        }
    }

    /// Writes `productId`, `kind`, `duration`, `level`, `name` and `entitlements`, which are the ``givenEntitlements``. Omits
    /// the app.
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("productId", productId)
        writer.member("kind", kind)
        writer.member("duration", duration)
        writer.member("level", level.map { Int64($0) })
        writer.member("name", name)
        writer.key("entitlements")
        writer.array(givenEntitlements) { $0.value($1) }
    }
}

extension [ConfiguredProduct] {
    /// The catalogs that the fold uses, by bundle id.
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
