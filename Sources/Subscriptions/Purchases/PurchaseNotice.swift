import Encoding

/// The time of an event that only a notification contains. It opens no access and never contradicts an answer.
package struct PurchaseNotice: Sendable, Hashable {
    static let name = "notice"

    package enum Kind: String, Sendable {
        /// A subscription came out of account hold or a pause: its next period begins then, not at the end of the last.
        case recovered
        /// The purchase was revoked. Ends access only if Google no longer answers about the purchase, see ``gone``.
        case revoked
        /// Google no longer answers about the purchase, for good. What is known of it stays.
        case gone
    }

    /// The key of the purchase, as in ``PurchaseSnapshot/purchaseToken``.
    package var purchaseToken: String
    package var kind: Kind
    package var at: Instant

    package init(purchaseToken: String, kind: Kind, at: Instant) {
        self.purchaseToken = purchaseToken
        self.kind = kind
        self.at = at
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("fact", Self.name)
        writer.member("purchaseToken", purchaseToken)
        writer.member("kind", kind.rawValue)
        writer.member("at", at)
    }

    init(json: JSONValue) throws(FactsError) {
        guard let kind = Kind(rawValue: try json.required("kind")) else { throw FactsError(member: "kind") }
        guard let at = try json.instant("at") else { throw FactsError(member: "at") }
        self.init(purchaseToken: try json.required("purchaseToken"), kind: kind, at: at)
    }
}
