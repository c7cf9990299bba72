import Encoding
import Subscriptions

/// A page of the list of voided purchases.
package struct VoidedPurchasePage: Sendable {
    package let rows: [VoidedPurchase]
    /// For the next page; nil on the last one.
    package let nextPageToken: String?
    /// Rows that could not be read.
    package let defects: [Defect]

    package init(decoding body: [UInt8]) throws(UnreadableJSON) {
        guard let root = try? JSONDocument(body).root, root.isObject else { throw .notAnObject }
        var fields = JSONFields(root)
        var rows: [VoidedPurchase] = []
        for var row in fields.objects("voidedPurchases", limit: Limits.voidedRowsMax) {
            if let read = VoidedPurchase(&row) { rows.append(read) }
            fields.add(row)
        }
        self.rows = rows
        if var paging = fields.object("tokenPagination") {
            nextPageToken = paging.text("nextPageToken")
        } else {
            nextPageToken = nil
        }
        defects = fields.defects
    }
}

/// A row of the list of voided purchases.
package struct VoidedPurchase: Sendable, Hashable {
    package let purchaseToken: PurchaseToken
    /// One token has a row for each order.
    package let orderId: String?
    package let purchaseTime: Instant?
    package let voidedTime: Instant
    /// 0 user, 1 developer, 2 Google.
    package let source: Int?
    package let reason: Int?
    /// The units that were voided; nil for all that were left.
    package let quantity: Int?
    /// The row in canonical form.
    let text: CanonicalJSON

    init?(_ fields: inout JSONFields) {
        guard let token = fields.purchaseToken("purchaseToken"),
            let voidedTime = fields.milliseconds("voidedTimeMillis")
        else {
            fields.note("purchaseToken", "is missing or unreadable, or voidedTimeMillis is")
            return nil
        }
        purchaseToken = token
        self.voidedTime = voidedTime
        orderId = fields.identifier("orderId")
        purchaseTime = fields.milliseconds("purchaseTimeMillis")
        source = fields.integer("voidedSource")
        reason = fields.integer("voidedReason")
        quantity = fields.integer("voidedQuantity")
        text = CanonicalJSON(fields.object)
    }

    package var fact: PurchaseFact {
        .void(
            PurchaseVoid(
                purchaseToken: purchaseToken.key, orderId: orderId, voidedAt: voidedTime, isExactTime: true,
                source: source, reason: reason, quantity: quantity, isPartial: quantity != nil))
    }
}
