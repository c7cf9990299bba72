import Encoding
import Subscriptions

extension PurchaseOrder {
    /// Reads an answer of `orders`.
    ///
    /// - Parameter token: The token of the purchase whose order was asked about. If the answer names another one, that
    ///   counts.
    init(_ fields: inout JSONFields, _ token: PurchaseToken) throws(UnreadableJSON) {
        guard let orderId = fields.identifier("orderId") else { throw .missing("orderId") }
        guard let state = fields.name("state", without: "") else { throw .missing("state") }
        fields.note(state, of: .orderState)
        let named = fields.purchaseToken("purchaseToken") ?? token
        self.init(orderId: orderId, purchaseToken: named.key, stateName: state)
        createTime = fields.instant("createTime")
        if var money = fields.object("total") {
            (total, currency) = money.money()
            fields.add(money)
        }
        tax = fields.amount("tax")
        developerRevenue = fields.amount("developerRevenueInBuyerCurrency")
        if var history = fields.object("orderHistory") {
            refunds = Self.refunds(&history)
            fields.add(history)
        } else {
            readRefundWithoutHistory(&fields)
        }
        for var line in fields.objects("lineItems", limit: Limits.itemsMax) {
            defer { fields.add(line) }
            guard let productId = line.identifier("productId") else {
                line.note("productId", "is missing or unreadable")
                continue
            }
            var item = Item(productId: productId)
            item.total = line.amount("total")
            item.tax = line.amount("tax")
            if var details = line.object("subscriptionDetails") {
                item.basePlanId = details.identifier("basePlanId")
                item.offerId = details.identifier("offerId")
                item.periodStart = details.instant("servicePeriodStartTime")
                item.periodEnd = details.instant("servicePeriodEndTime")
                item.phase = Self.phase(&details)
                line.add(details)
            }
            items.append(item)
        }
    }

    /// The state says that money was paid back, and no history says how much.
    private mutating func readRefundWithoutHistory(_ fields: inout JSONFields) {
        switch stateName {
        case Self.refunded:
            guard let total, total > 0, let lastEventAt = fields.instant("lastEventTime") else {
                fields.note("orderHistory", "is missing, although the order was refunded")
                return
            }
            refunds = [Refund(at: lastEventAt, amount: total)]
        case Self.partiallyRefunded:
            fields.note("orderHistory", "is missing, although the order was refunded in part")
        default: break
        }
    }

    /// What was paid back: by the refund of the whole order, and by those of amounts that are done.
    private static func refunds(_ history: inout JSONFields) -> [Refund] {
        var refunds: [Refund] = []
        if var whole = history.object("refundEvent") {
            let reason = whole.name("refundReason", without: "")
            if let reason { whole.note(reason, of: .refundReason) }
            if let refund = refund(&whole, at: whole.instant("eventTime"), reason: reason) { refunds.append(refund) }
            history.add(whole)
        }
        for var part in history.objects("partialRefundEvents", limit: Limits.refundsMax) {
            let state = part.name("state", without: "")
            if let state { part.note(state, of: .refundState) }
            let processedAt = part.instant("processTime")
            if state == nil || state == Refund.done,
                let refund = refund(&part, at: processedAt ?? part.instant("createTime"), reason: nil)
            {
                refunds.append(refund)
            }
            history.add(part)
        }
        return refunds.sorted { ($0.at, $0.amount) < ($1.at, $1.amount) }
    }

    private static func refund(_ event: inout JSONFields, at instant: Instant?, reason: String?) -> Refund? {
        guard var details = event.object("refundDetails") else { return nil }
        let amount = details.amount("total")
        event.add(details)
        guard let instant, let amount, amount > 0 else {
            event.note("refundDetails", "states no time or no amount")
            return nil
        }
        return Refund(at: instant, amount: amount, reasonName: reason)
    }

    /// The phase as a name or as one member of an object.
    private static func phase(_ details: inout JSONFields) -> String? {
        if details.raw("offerPhase")?.isString == true { return details.text("offerPhase") }
        guard var phase = details.object("offerPhaseDetails") else { return nil }
        if phase.raw("freeTrialDetails") != nil || phase.raw("freeTrial") != nil { return "FREE_TRIAL" }
        if phase.raw("introductoryPriceDetails") != nil || phase.raw("introductoryPrice") != nil {
            return "INTRODUCTORY_PRICE"
        }
        if phase.raw("prorationPeriodDetails") != nil || phase.raw("prorationPeriod") != nil {
            return "PRORATION_PERIOD"
        }
        return phase.raw("baseDetails") != nil || phase.raw("basePrice") != nil ? "BASE_PRICE" : nil
    }
}
