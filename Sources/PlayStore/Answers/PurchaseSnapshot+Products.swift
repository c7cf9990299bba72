import Encoding
import Subscriptions

extension PurchaseSnapshot {
    /// Reads an answer of `purchases.productsv2`.
    init(productV2 fields: inout JSONFields, _ token: PurchaseToken) throws(UnreadablePlayAnswer) {
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
                item.isConsumed =
                    offer.name("consumptionState", without: "CONSUMPTION_STATE_").map { $0 == "CONSUMED" }
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

    /// Reads an answer of `purchases.products`, the old resource.
    ///
    /// - Parameter productId: The product that was asked about.
    init(
        productV1 fields: inout JSONFields, _ token: PurchaseToken, _ productId: String?
    ) throws(UnreadablePlayAnswer) {
        guard let productId = fields.identifier("productId") ?? productId else { throw .missing("productId") }
        guard fields.raw("purchaseTimeMillis") != nil || fields.raw("purchaseState") != nil else {
            throw .missing("purchaseTimeMillis")
        }
        let state: String =
            switch fields.text("purchaseState") {
            case "0", nil: State.purchased.rawValue
            case "1": State.cancelled.rawValue
            case "2": State.pending.rawValue
            case .some(let other): other
            }
        self.init(token, kind: .product, stateName: state)
        if self.state == .purchased { startTime = fields.milliseconds("purchaseTimeMillis") }
        readProductFields(&fields)
        var item = Item(productId: productId)
        item.orderId = fields.identifier("orderId")
        item.quantity = fields.integer("quantity")
        item.refundableQuantity = fields.integer("refundableQuantity")
        item.isConsumed = fields.text("consumptionState").map { $0 == "1" }
        items = [item]
    }

    private mutating func readProductFields(_ fields: inout JSONFields) {
        region = fields.text("regionCode").map(Region.alpha3(of:))
        isAcknowledged = fields.acknowledgement("acknowledgementState")
        obfuscatedAccountId = fields.identifier("obfuscatedExternalAccountId")
        obfuscatedProfileId = fields.identifier("obfuscatedExternalProfileId")
    }
}
