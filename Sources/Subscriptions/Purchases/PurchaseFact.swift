import Encoding

/// A fact about a Google Play purchase, which is identified by its purchase token.
///
/// Apple reports transactions and renewal info; Google answers what it knows of a purchase now. ``PurchaseLine`` turns
/// the facts of all purchases of a subscription into the same transactions, renewal info and periods.
package enum PurchaseFact: Sendable, Hashable {
    /// An answer of the Google Play Developer API about a purchase.
    case snapshot(PurchaseSnapshot)
    /// An answer about an order: one charge of a purchase.
    case order(PurchaseOrder)
    /// A purchase or one of its orders counts as never made.
    case void(PurchaseVoid)
    /// The time of something that no answer contains.
    case notice(PurchaseNotice)

    /// The key of the purchase. See ``PurchaseSnapshot/purchaseToken``.
    package var purchaseToken: String {
        switch self {
        case .snapshot(let snapshot): snapshot.purchaseToken
        case .order(let order): order.purchaseToken
        case .void(let void): void.purchaseToken
        case .notice(let notice): notice.purchaseToken
        }
    }

    /// The purchase that this one continues, so that both are one subscription; nil if the fact states none.
    ///
    /// A purchase that is not paid yet continues nothing: if it is never paid, the linked one goes on.
    package var continuedPurchaseToken: String? {
        guard case .snapshot(let snapshot) = self, !snapshot.isPending else { return nil }
        guard let linked = snapshot.linkedPurchaseToken, linked != snapshot.purchaseToken else { return nil }
        return linked
    }

    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            switch self {
            case .snapshot(let snapshot): snapshot.writeMembers(to: &writer)
            case .order(let order): order.writeMembers(to: &writer)
            case .void(let void): void.writeMembers(to: &writer)
            case .notice(let notice): notice.writeMembers(to: &writer)
            }
        }
    }

    package init(json: JSONValue) throws(FactsError) {
        switch json.string("fact") {
        case PurchaseSnapshot.name: self = .snapshot(try PurchaseSnapshot(json: json))
        case PurchaseOrder.name: self = .order(try PurchaseOrder(json: json))
        case PurchaseVoid.name: self = .void(try PurchaseVoid(json: json))
        case PurchaseNotice.name: self = .notice(try PurchaseNotice(json: json))
        default: throw FactsError(member: "fact")
        }
    }
}
