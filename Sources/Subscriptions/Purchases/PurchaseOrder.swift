import Encoding

/// What an answer of the Google Play Developer API said about an order: one charge of a purchase.
package struct PurchaseOrder: Sendable, Hashable {
    static let name = "order"
    package static let refunded = "REFUNDED"
    package static let partiallyRefunded = "PARTIALLY_REFUNDED"

    package var orderId: String
    /// The key of the purchase, as in ``PurchaseSnapshot/purchaseToken``.
    package var purchaseToken: String
    package var createTime: Instant?
    /// Google's word: `PENDING`, `PROCESSED`, `CANCELED`, `PENDING_REFUND`, `PARTIALLY_REFUNDED`, `REFUNDED`.
    package var stateName: String
    /// What was paid, in thousandths, for all items.
    package var total: Int64?
    package var currency: String?
    /// The part of ``total`` that is tax, in thousandths; nil if the answer does not state it.
    package var tax: Int64?
    /// What the developer receives for the order, in thousandths of ``currency``: without taxes, fees and refunds so far.
    package var developerRevenue: Int64?
    /// What was paid back, oldest first; empty for an order that was only voided.
    package var refunds: [Refund] = []
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
        /// The part of ``total`` that is tax, in thousandths.
        package var tax: Int64?

        package init(productId: String) {
            self.productId = productId
        }
    }

    /// Money that Google paid back to the customer. Access does not depend on it.
    package struct Refund: Sendable, Hashable {
        package var at: Instant
        /// In thousandths, taxes included.
        package var amount: Int64
        /// Google's word for the refund of a whole order, `OTHER` or `CHARGEBACK`; nil for one by amount.
        package var reasonName: String?

        package static let chargeback = "CHARGEBACK"
        /// The state of a refund by amount that was paid.
        package static let done = "PROCESSED_SUCCESSFULLY"

        package init(at: Instant, amount: Int64, reasonName: String? = nil) {
            self.at = at
            self.amount = amount
            self.reasonName = reasonName
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
        writer.member("tax", tax)
        writer.member("developerRevenue", developerRevenue)
        if !refunds.isEmpty {
            writer.key("refunds")
            writer.array(refunds) { writer, refund in
                writer.object { writer in
                    writer.member("at", refund.at)
                    writer.member("amount", refund.amount)
                    writer.member("reason", refund.reasonName)
                }
            }
        }
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
                writer.member("tax", item.tax)
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
        tax = json["tax"]?.int64
        developerRevenue = json["developerRevenue"]?.int64
        for element in json["refunds"]?.elements ?? [] {
            guard let at = try element.instant("at") else { throw FactsError(member: "at") }
            guard let amount = element["amount"]?.int64 else { throw FactsError(member: "amount") }
            refunds.append(Refund(at: at, amount: amount, reasonName: element.string("reason")))
        }
        for element in try json.requiredElements("items") {
            var item = Item(productId: try element.required("productId"))
            item.basePlanId = element.string("basePlanId")
            item.offerId = element.string("offerId")
            item.phase = element.string("phase")
            item.periodStart = try element.instant("periodStart")
            item.periodEnd = try element.instant("periodEnd")
            item.total = element["total"]?.int64
            item.tax = element["tax"]?.int64
            items.append(item)
        }
    }
}
