import Encoding

/// A purchase, or one order of it, that Google took back: it counts as never made, whatever an answer says.
package struct PurchaseVoid: Sendable, Hashable {
    static let name = "void"

    /// The key of the purchase, as in ``PurchaseSnapshot/purchaseToken``.
    package var purchaseToken: String
    /// The order that was voided; nil for the newest one.
    package var orderId: String?
    package var voidedAt: Instant
    /// False if ``voidedAt`` is the time of a notification, which has no other.
    package var isExactTime: Bool
    /// 0 user, 1 developer, 2 Google.
    package var source: Int?
    /// 0 other, 1 remorse, 2 not received, 3 defective, 4 accidental, 5 fraud, 6 friendly fraud, 7 charge-back,
    /// 8 unacknowledged.
    package var reason: Int?
    /// The units that were voided; nil for all that are left.
    package var quantity: Int?
    /// True if only some units were refunded and their number is not known: an answer about the purchase has it.
    package var isPartial: Bool

    package init(
        purchaseToken: String, orderId: String?, voidedAt: Instant, isExactTime: Bool, source: Int? = nil,
        reason: Int? = nil, quantity: Int? = nil, isPartial: Bool = false
    ) {
        self.purchaseToken = purchaseToken
        self.orderId = orderId
        self.voidedAt = voidedAt
        self.isExactTime = isExactTime
        self.source = source
        self.reason = reason
        self.quantity = quantity
        self.isPartial = isPartial
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("fact", Self.name)
        writer.member("purchaseToken", purchaseToken)
        writer.member("orderId", orderId)
        writer.member("voidedAt", voidedAt)
        writer.member("exactTime", isExactTime ? true : nil)
        writer.member("source", source)
        writer.member("reason", reason)
        writer.member("quantity", quantity)
        writer.member("partial", isPartial ? true : nil)
    }

    init(json: JSONValue) throws(FactsError) {
        guard let voidedAt = try json.instant("voidedAt") else { throw FactsError(member: "voidedAt") }
        self.init(
            purchaseToken: try json.required("purchaseToken"), orderId: json.string("orderId"), voidedAt: voidedAt,
            isExactTime: json.bool("exactTime") ?? false, source: json.integer("source"),
            reason: json.integer("reason"), quantity: json.integer("quantity"),
            isPartial: json.bool("partial") ?? false)
    }
}
