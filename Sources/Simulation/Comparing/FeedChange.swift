import Encoding

/// One change of a server's change feed, as far as it is about access.
struct FeedChange: Sendable, Hashable {
    enum Kind: String, Sendable, Hashable {
        case opened, extended, shortened, closed
        case productChanged = "product_changed"
        case productAdded = "product_added"
        case productRemoved = "product_removed"
    }

    let number: Int64
    /// Nil if the change is not about access.
    let kind: Kind?
    let subscription: String
    let at: Instant
    let isByClock: Bool
    var productId: String?
    /// The end of the access: ``Instant/latest`` if it has no end, nil if there is no access.
    var until: Instant?
}

extension FeedChange {
    /// Nil if a member is missing or malformed.
    init?(_ json: JSONValue) {
        guard let number = json["number"]?.int64, let subscription = json["originalTransactionId"]?.string,
            let at = json["at"]?.string.flatMap({ Instant(iso8601: $0) }), let kind = json["kind"]?.string
        else { return nil }
        self.number = number
        self.subscription = subscription
        self.at = at
        self.kind = Kind(rawValue: kind)
        isByClock = json["cause"]?.string == "clock"
        productId = json["productId"]?.string
        guard let end = json["until"] else { return }
        guard !end.isNull else {
            until = .latest
            return
        }
        guard let end = end.string.flatMap({ Instant(iso8601: $0) }) else { return nil }
        until = end
    }
}
