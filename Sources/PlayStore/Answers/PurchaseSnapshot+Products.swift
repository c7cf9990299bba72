import Encoding
import Subscriptions

extension PurchaseSnapshot {
    /// Reads an answer of `purchases.productsv2`.
    init(productV2 fields: inout JSONFields, _ token: PurchaseToken) throws(UnreadableJSON) {
        guard var context = fields.object("purchaseStateContext") else { throw .missing("purchaseStateContext") }
        guard let state = context.name("purchaseState", without: "PURCHASE_STATE_") else {
            throw .missing("purchaseStateContext.purchaseState")
        }
        fields.add(context)
        self.init(token, kind: .product, stateName: state)
        startTime = fields.instant("purchaseCompletionTime")
        readProductFields(&fields)
        let orderId = fields.identifier("orderId")
        for var line in fields.objects("productLineItem", limit: Limits.itemsMax) {
            defer { fields.add(line) }
            guard let productId = line.identifier("productId") else {
                line.note("productId", "is missing or unreadable")
                continue
            }
            var item = Item(productId: productId)
            item.orderId = orderId
            if var offer = line.object("productOfferDetails") {
                item.offerId = offer.identifier("offerId")
                item.quantity = offer.integer("quantity")
                item.refundableQuantity = offer.integer("refundableQuantity")
                let consumption = offer.name("consumptionState", without: "CONSUMPTION_STATE_")
                offer.note(consumption, of: .consumptionState)
                item.isConsumed = consumption.map { $0 == "CONSUMED" }
                item.purchaseOptionId = offer.identifier("purchaseOptionId")
                item.isRental = offer.raw("rentOfferDetails") != nil
                if var preorder = offer.object("preorderOfferDetails") {
                    item.releaseTime = preorder.instant("preorderReleaseTime")
                    offer.add(preorder)
                }
                line.add(offer)
            }
            items.append(item)
        }
    }

    private mutating func readProductFields(_ fields: inout JSONFields) {
        region = fields.text("regionCode").map(Region.alpha3(of:))
        isAcknowledged = fields.acknowledgement("acknowledgementState")
        obfuscatedAccountId = fields.identifier("obfuscatedExternalAccountId")
        obfuscatedProfileId = fields.identifier("obfuscatedExternalProfileId")
    }
}
