import Encoding

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

    /// By product id, byte for byte as the database compares them.
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

    /// Reads a text of the database's view `product_catalog`: one line a product, kind, tab, product id.
    ///
    /// Two texts may mean the same catalog (`P1Y` and `P12M`), so texts are compared with texts and never with a
    /// catalog written out again. Lines that this version does not understand are left out.
    package init(configured text: String) {
        self.init(Self.lines(of: text).compactMap(Self.product))
    }

    /// Whether the text is one that the view can give: every line is understood, in the order of product ids, each
    /// once.
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
}
