import Encoding
import Subscriptions

extension PurchaseSnapshot {
    /// Reads an answer of `purchases.subscriptionsv2`.
    init(subscriptionV2 fields: inout JSONFields, _ token: PurchaseToken) throws(UnreadableJSON) {
        guard let state = fields.name("subscriptionState", without: "SUBSCRIPTION_STATE_") else {
            throw .missing("subscriptionState")
        }
        self.init(token, kind: .subscription, stateName: state)
        startTime = fields.instant("startTime")
        region = fields.text("regionCode").map(Region.alpha3(of:))
        linkedPurchaseToken = fields.purchaseToken("linkedPurchaseToken")?.key
        isAcknowledged = fields.acknowledgement("acknowledgementState")
        readAccounts(&fields)
        readCancellation(&fields)
        if var paused = fields.object("pausedStateContext") {
            autoResumeTime = paused.instant("autoResumeTime")
            fields.add(paused)
        }
        for var item in fields.objects("lineItems", limit: Limits.itemsMax) {
            if let read = Item(subscriptionV2: &item) { items.append(read) }
            fields.add(item)
        }
        readOrderOfAnswer(&fields)
        // An answer without an end gives nobody access.
        guard [.active, .inGracePeriod, .canceled].contains(self.state) else { return }
        if items.isEmpty {
            fields.note("lineItems", "is empty or missing, although the subscription is \(state)")
        } else if items.allSatisfy({ $0.expiryTime == nil }) {
            fields.note("lineItems", "have no expiryTime, although the subscription is \(state)")
        }
    }

    /// Answers of before 2025, when items did not name their orders, name the newest one only. While nothing is owed, that one
    /// was paid; in grace and on hold, and after that, it may be the one that failed.
    private mutating func readOrderOfAnswer(_ fields: inout JSONFields) {
        guard items.count == 1, items[0].orderId == nil, items[0].nextProductId == nil,
            let order = fields.identifier("latestOrderId")
        else { return }
        let isEndedByChoice = state == .expired && cancelReason.map { $0 != .system } ?? false
        if state == .active || state == .canceled || isEndedByChoice {
            items[0].orderId = order
        } else if state != .pending {
            items[0].isOrderUnknown = true
        }
    }

    private mutating func readAccounts(_ fields: inout JSONFields) {
        if var accounts = fields.object("externalAccountIdentifiers") {
            obfuscatedAccountId =
                accounts.identifier("obfuscatedExternalAccountId") ?? accounts.identifier("externalAccountId")
            obfuscatedProfileId = accounts.identifier("obfuscatedExternalProfileId")
            fields.add(accounts)
        }
        guard var outside = fields.object("outOfAppPurchaseContext") else { return }
        expiredPurchaseToken = outside.purchaseToken("expiredPurchaseToken")?.key
        if var expired = outside.object("expiredExternalAccountIdentifiers") {
            expiredAccountId =
                expired.identifier("obfuscatedExternalAccountId") ?? expired.identifier("obfuscatedExternalProfileId")
                ?? expired.identifier("externalAccountId")
            outside.add(expired)
        }
        fields.add(outside)
    }

    private mutating func readCancellation(_ fields: inout JSONFields) {
        guard var context = fields.object("canceledStateContext") else { return }
        let kinds: [(key: StaticString, reason: CancelReason)] = [
            ("userInitiatedCancellation", .user), ("systemInitiatedCancellation", .system),
            ("developerInitiatedCancellation", .developer), ("replacementCancellation", .replaced),
        ]
        for (key, reason) in kinds {
            guard var cancellation = context.object(key) else { continue }
            cancelReason = reason
            cancelTime = cancellation.instant("cancelTime")
            context.add(cancellation)
            break
        }
        fields.add(context)
    }

    init(_ token: PurchaseToken, kind: Kind, stateName: String) {
        self.init(purchaseToken: token.key, kind: kind, stateName: stateName)
        if token.isLong { longPurchaseToken = token.text }
    }
}

extension JSONFields {
    /// Whether a purchase is acknowledged: a name, or a number in old resources. Nil if it is missing or not known.
    mutating func acknowledgement(_ key: StaticString) -> Bool? {
        let state = name(key, without: "ACKNOWLEDGEMENT_STATE_")
        note(state == "UNSPECIFIED" ? nil : state, of: .acknowledgementState)
        return switch state {
        case "ACKNOWLEDGED", "1": true
        case "PENDING", "0": false
        default: nil
        }
    }
}

extension PurchaseSnapshot.Item {
    fileprivate init?(subscriptionV2 fields: inout JSONFields) {
        guard let productId = fields.identifier("productId") else {
            fields.note("productId", "is missing or unreadable")
            return nil
        }
        self.init(productId: productId)
        expiryTime = fields.instant("expiryTime")
        orderId = fields.identifier("latestSuccessfulOrderId")
        if var offer = fields.object("offerDetails") {
            basePlanId = offer.identifier("basePlanId")
            offerId = offer.identifier("offerId")
            fields.add(offer)
        }
        if fields.raw("prepaidPlan") != nil {
            isPrepaid = true
            isAutoRenewing = false
        } else if var plan = fields.object("autoRenewingPlan") {
            read(&plan)
            fields.add(plan)
        }
        phase = Self.phase(&fields)
        if var next = fields.object("deferredItemReplacement") {
            nextProductId = next.identifier("productId")
            fields.add(next)
        }
        isRemoved = fields.raw("deferredItemRemoval") != nil
    }

    private mutating func read(_ plan: inout JSONFields) {
        isAutoRenewing = plan.flag("autoRenewEnabled") ?? false
        if var money = plan.object("recurringPrice") {
            (price, currency) = money.money()
            plan.add(money)
        }
        if var change = plan.object("priceChangeDetails") {
            newPriceState = change.name("priceChangeState", without: "")
            change.note(newPriceState, of: .priceChangeState)
            newPriceMode = change.name("priceChangeMode", without: "")
            change.note(newPriceMode, of: .priceChangeMode)
            newPrice = change.amount("newPrice")
            newPriceTime = change.instant("expectedNewPriceChargeTime")
            plan.add(change)
        }
        if var installments = plan.object("installmentDetails") {
            paymentsCommitted = installments.integer("remainingCommittedPaymentsCount") ?? 0
            // Empty: its presence is the statement.
            isEndingAfterCommitment = installments.raw("pendingCancellation") != nil
            plan.add(installments)
        }
    }

    private static func phase(_ fields: inout JSONFields) -> String? {
        guard var phase = fields.object("offerPhase") else { return nil }
        if phase.raw("freeTrial") != nil { return "FREE_TRIAL" }
        if phase.raw("introductoryPrice") != nil { return "INTRODUCTORY_PRICE" }
        if phase.raw("prorationPeriod") != nil { return "PRORATION_PERIOD" }
        return phase.raw("basePrice") != nil ? "BASE_PRICE" : nil
    }
}
