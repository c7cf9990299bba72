import Encoding

/// The configured kinds of an app's products.
package struct ProductCatalog: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        case autoRenewable
        /// Ends this long after the purchase date; transactions do not contain its end.
        case nonRenewing(CalendarDuration)
        case consumable
        case nonConsumable
    }

    package static let empty = ProductCatalog([:])

    /// By product id, compared by bytes as in the database.
    private let kinds: [ByteString: Kind]

    package init(_ kinds: [String: Kind]) {
        self.init(kinds.map { (ByteString($0.key), $0.value) })
    }

    init(_ kinds: [(ByteString, Kind)]) {
        self.kinds = Dictionary(kinds) { $1 }
    }

    package func kind(of productId: String?) -> Kind? {
        guard !kinds.isEmpty else { return nil }
        return productId.flatMap { kinds[ByteString($0)] }
    }

    /// Reads a text of the database's view `product_catalog`, which has one line per product: kind, tab, product id.
    ///
    /// Different texts can describe the same catalog (`P1Y` and `P12M`), so compare texts only with stored texts, not
    /// with the text of a parsed catalog. Lines that this version does not understand are skipped.
    package init(configured text: String) {
        self.init(Self.lines(of: text).compactMap(Self.product))
    }

    /// True if the view can return the text: this version understands every line, and the product ids are distinct and
    /// sorted.
    package static func isWellFormed(_ text: String) -> Bool {
        var last: ByteString?
        for line in lines(of: text) {
            guard let (id, _) = product(line) else { return false }
            if let last, !(last < id) { return false }
            last = id
        }
        return true
    }

    private static func lines(of text: String) -> [Substring.UTF8View] {
        text.isEmpty ? [] : text[...].utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
    }

    private static func product(_ line: Substring.UTF8View) -> (ByteString, Kind)? {
        let parts = line.split(separator: UInt8(ascii: "\t"), maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[1].isEmpty else { return nil }
        let words = parts[0].split(separator: UInt8(ascii: " "), maxSplits: 1).map { String(Substring($0)) }
        let duration = words.count > 1 ? CalendarDuration(iso8601: words[1]) : nil
        guard let name = words.first, (words.count > 1) == (duration != nil),
            let kind = Kind(name: name, duration: duration)
        else { return nil }
        return (ByteString(String(Substring(parts[1]))), kind)
    }
}

extension ProductCatalog.Kind {
    /// Nil if the name is unknown, or if a duration is missing or not allowed for the kind.
    ///
    /// - Parameter name: One of ``ConfiguredProduct/kinds``.
    package init?(name: String, duration: CalendarDuration?) {
        switch (name, duration) {
        case ("auto-renewable", nil): self = .autoRenewable
        case ("non-renewing", let duration?): self = .nonRenewing(duration)
        case ("consumable", nil): self = .consumable
        case ("non-consumable", nil): self = .nonConsumable
        default: return nil
        }
    }
}
