import Subscriptions

/// The id after which a client continues to read the ids of a customer. It stays valid if the customer loses the id.
struct KeyCursor: Hashable {
    /// The version of the cursor's format.
    private static let version: Substring = "i1"

    let key: CustomerKey

    init(_ key: CustomerKey) {
        self.key = key
    }

    /// Decodes a cursor; nil if ``text`` cannot have this value.
    init?(_ text: String) {
        guard let content = CursorText.decode(text) else { return nil }
        let parts = content.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0] == Self.version, let kind = CustomerKey.Kind(rawValue: String(parts[1])),
            !parts[2].utf8.contains(0)
        else { return nil }
        self.init(CustomerKey(kind, String(parts[2])))
    }

    var text: String { CursorText.encode("\(Self.version) \(key.kind.rawValue) \(key.id)") }
}
