import Encoding

/// What an answer of the Google Play Developer API said about an order: one charge of a purchase.
package struct PurchaseOrder: Sendable, Hashable {
    static let name = "order"

    package var orderId: String
    /// The key of the purchase, as in ``PurchaseSnapshot/purchaseToken``.
    package var purchaseToken: String
    package var createTime: Instant?
    /// Google's word: `PENDING`, `PROCESSED`, `CANCELED`, `PENDING_REFUND`, `PARTIALLY_REFUNDED`, `REFUNDED`.
    package var stateName: String
    /// What was paid, in thousandths, for all items.
    package var total: Int64?
    package var currency: String?
    package var items: [Item] = []

    package init(orderId: String, purchaseToken: String, stateName: String) {
        self.orderId = orderId
        self.purchaseToken = purchaseToken
        self.stateName = stateName
    }

    /// True if the customer paid, even if the money was paid back: a refund alone takes no access away.
    package var isPaid: Bool { !["PENDING", "CANCELED"].contains(stateName) }

    package struct Item: Sendable, Hashable {
        package var productId: String
        package var basePlanId: String?
        package var offerId: String?
        /// As in ``PurchaseSnapshot/Item/phase``.
        package var phase: String?
        package var periodStart: Instant?
        /// As of the processing of the order: a deferral or a revocation changes it later.
        package var periodEnd: Instant?
        /// What was paid for this item, in thousandths.
        package var total: Int64?

        package init(productId: String) {
            self.productId = productId
        }
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("fact", Self.name)
        writer.member("orderId", orderId)
        writer.member("purchaseToken", purchaseToken)
        writer.member("createTime", createTime)
        writer.member("state", stateName)
        writer.member("total", total)
        writer.member("currency", currency)
        writer.key("items")
        writer.array(items) { writer, item in
            writer.object { writer in
                writer.member("productId", item.productId)
                writer.member("basePlanId", item.basePlanId)
                writer.member("offerId", item.offerId)
                writer.member("phase", item.phase)
                writer.member("periodStart", item.periodStart)
                writer.member("periodEnd", item.periodEnd)
                writer.member("total", item.total)
            }
        }
    }

    init(json: JSONValue) throws(FactsError) {
        self.init(
            orderId: try json.required("orderId"), purchaseToken: try json.required("purchaseToken"),
            stateName: try json.required("state"))
        createTime = try json.instant("createTime")
        total = json["total"]?.int64
        currency = json.string("currency")
        for element in try json.requiredElements("items") {
            var item = Item(productId: try element.required("productId"))
            item.basePlanId = element.string("basePlanId")
            item.offerId = element.string("offerId")
            item.phase = element.string("phase")
            item.periodStart = try element.instant("periodStart")
            item.periodEnd = try element.instant("periodEnd")
            item.total = element["total"]?.int64
            items.append(item)
        }
    }
}
