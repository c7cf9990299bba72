import Encoding
import Subscriptions

extension PurchaseSnapshot {
    /// Reads an answer of `purchases.subscriptions`, the old resource. It has one product and no state: that follows from
    /// the payment, the renewal and the dates.
    ///
    /// - Parameter productId: The product that was asked about.
    init(
        subscriptionV1 fields: inout JSONFields, _ token: PurchaseToken, _ productId: String?, _ answeredAt: Instant
    ) throws(UnreadablePlayAnswer) {
        guard let expiry = fields.milliseconds("expiryTimeMillis") else { throw .missing("expiryTimeMillis") }
        guard let productId = fields.identifier("productId") ?? productId else { throw .missing("productId") }
        self.init(token, kind: .subscription, stateName: "")
        startTime = fields.milliseconds("startTimeMillis")
        region = fields.text("countryCode").map(Region.alpha3(of:))
        linkedPurchaseToken = fields.purchaseToken("linkedPurchaseToken")?.key
        isAcknowledged = fields.acknowledgement("acknowledgementState")
        obfuscatedAccountId =
            fields.identifier("obfuscatedExternalAccountId") ?? fields.identifier("externalAccountId")
        obfuscatedProfileId = fields.identifier("obfuscatedExternalProfileId")
        autoResumeTime = fields.milliseconds("autoResumeTimeMillis")
        cancelReason = fields.oldCancelReason()
        cancelTime = fields.milliseconds("userCancellationTimeMillis")

        var item = Item(productId: productId)
        item.expiryTime = expiry
        item.orderId = fields.identifier("orderId")
        item.isAutoRenewing = fields.flag("autoRenewing") ?? false
        item.price = fields.micros("priceAmountMicros")
        item.currency = fields.text("priceCurrencyCode")
        let payment = fields.text("paymentState")
        if payment == "2" { item.phase = "FREE_TRIAL" }
        if var change = fields.object("priceChange") {
            if var money = change.object("newPrice") {
                item.newPrice = money.micros("priceMicros")
                change.add(money)
            }
            item.newPriceState = change.text("state")
            fields.add(change)
        }
        let state = oldState(item, payment: payment, expiry: expiry, answeredAt)
        stateName = state.rawValue
        // During a failing payment it may be the order that is not paid yet.
        if state != .active, payment == "0" { item.orderId = nil }
        if state == .pending { startTime = nil }
        items = [item]
    }

    private func oldState(_ item: Item, payment: String?, expiry: Instant, _ answeredAt: Instant) -> State {
        if autoResumeTime != nil, expiry <= answeredAt { return .paused }
        let isRunning = answeredAt < expiry
        if payment == "0" {
            // Of a purchase that was never paid, the order has no number of a renewal and cannot be acknowledged.
            let wasPaid = isAcknowledged == true || item.orderId?.contains("..") == true
            guard wasPaid else { return .pending }
            return isRunning ? .inGracePeriod : .onHold
        }
        let isRenewing = item.isAutoRenewing == true
        if isRunning { return isRenewing ? .active : .canceled }
        // A renewal that is late.
        return isRenewing && payment != nil ? .active : .expired
    }
}

extension JSONFields {
    fileprivate mutating func oldCancelReason() -> PurchaseSnapshot.CancelReason? {
        switch text("cancelReason") {
        case "0": .user
        case "1": .system
        case "2": .replaced
        case "3": .developer
        default: nil
        }
    }
}
