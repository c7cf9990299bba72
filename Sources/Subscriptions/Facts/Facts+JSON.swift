import Encoding

// The JSON form of facts: stored in the log beside a body, printed by `inspect` and served to readers.

extension Transaction {
    package func write(to writer: inout JSONWriter) {
        writer.object { writeMembers(to: &$0) }
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("transactionId", transactionId)
        writer.member("originalTransactionId", originalTransactionId)
        writer.member("webOrderLineItemId", webOrderLineItemId)
        writer.member("productId", productId)
        writer.member("subscriptionGroupIdentifier", subscriptionGroupIdentifier)
        writer.member("quantity", quantity)
        writer.member("purchaseDate", purchaseDate)
        writer.member("originalPurchaseDate", originalPurchaseDate)
        writer.member("expiresDate", expiresDate)
        writer.member("revocationDate", revocationDate)
        writer.member("revocationReason", revocationReason)
        writer.member("isUpgraded", isUpgraded ? true : nil)
        writer.member("statesRevocation", statesRevocation ? nil : false)
        writer.member("isTrialPeriod", isTrialPeriod)
        writer.member("isInIntroOfferPeriod", isInIntroOfferPeriod)
        writer.member("inAppOwnershipType", inAppOwnershipType)
        writer.member("promotionalOfferId", promotionalOfferId)
        writer.member("offerCodeRefName", offerCodeRefName)
        writer.member("appAccountToken", appAccountToken)
        writer.member("type", type)
        writer.member("revocationType", revocationType)
        writer.member("revocationPercentage", revocationPercentage)
        writer.member("offerType", offerType)
        writer.member("offerIdentifier", offerIdentifier)
        writer.member("offerDiscountType", offerDiscountType)
        writer.member("offerPeriod", offerPeriod)
        writer.member("storefront", storefront)
        writer.member("storefrontId", storefrontId)
        writer.member("transactionReason", transactionReason)
        writer.member("price", price)
        writer.member("currency", currency)
        writer.member("appTransactionId", appTransactionId)
        writer.member("previousOriginalTransactionId", previousOriginalTransactionId)
        writer.member("billingPlanType", billingPlanType)
        writer.member("additional", additional)
        writer.member("signedDate", signedDate)
    }

    init(json: JSONValue) throws(FactsError) {
        let json = json.indexed
        self.init(
            transactionId: try json.required("transactionId"),
            originalTransactionId: try json.required("originalTransactionId"))
        webOrderLineItemId = json.string("webOrderLineItemId")
        productId = json.string("productId")
        subscriptionGroupIdentifier = json.string("subscriptionGroupIdentifier")
        quantity = json.integer("quantity")
        purchaseDate = try json.instant("purchaseDate")
        originalPurchaseDate = try json.instant("originalPurchaseDate")
        expiresDate = try json.instant("expiresDate")
        revocationDate = try json.instant("revocationDate")
        revocationReason = json.integer("revocationReason")
        isUpgraded = json.bool("isUpgraded") ?? false
        statesRevocation = json.bool("statesRevocation") ?? true
        isTrialPeriod = json.bool("isTrialPeriod")
        isInIntroOfferPeriod = json.bool("isInIntroOfferPeriod")
        inAppOwnershipType = json.string("inAppOwnershipType")
        promotionalOfferId = json.string("promotionalOfferId")
        offerCodeRefName = json.string("offerCodeRefName")
        appAccountToken = json.string("appAccountToken")
        type = json.string("type")
        revocationType = json.string("revocationType")
        revocationPercentage = json.integer("revocationPercentage")
        offerType = json.integer("offerType")
        offerIdentifier = json.string("offerIdentifier")
        offerDiscountType = json.string("offerDiscountType")
        offerPeriod = json.string("offerPeriod")
        storefront = json.string("storefront")
        storefrontId = json.string("storefrontId")
        transactionReason = json.string("transactionReason")
        price = json["price"]?.int64
        currency = json.string("currency")
        appTransactionId = json.string("appTransactionId")
        previousOriginalTransactionId = json.string("previousOriginalTransactionId")
        billingPlanType = json.string("billingPlanType")
        additional = json["additional"].map { CanonicalJSON(stored: $0) }
        signedDate = try json.instant("signedDate")
    }
}

extension RenewalInfo {
    package func write(to writer: inout JSONWriter) {
        writer.object { writeMembers(to: &$0) }
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("originalTransactionId", originalTransactionId)
        writer.member("productId", productId)
        writer.member("autoRenewProductId", autoRenewProductId)
        writer.member("autoRenewProductChangeDate", autoRenewProductChangeDate)
        writer.member("autoRenewStatus", autoRenewStatus)
        writer.member("autoRenewStatusChangeDate", autoRenewStatusChangeDate)
        writer.member("expirationIntent", expirationIntent)
        writer.member("isInBillingRetryPeriod", isInBillingRetryPeriod)
        writer.member("gracePeriodExpiresDate", gracePeriodExpiresDate)
        writer.member("priceIncreaseStatus", priceIncreaseStatus)
        writer.member("promotionalOfferId", promotionalOfferId)
        writer.member("offerCodeRefName", offerCodeRefName)
        writer.member("offerType", offerType)
        writer.member("offerIdentifier", offerIdentifier)
        writer.member("offerDiscountType", offerDiscountType)
        writer.member("offerPeriod", offerPeriod)
        writer.member("recentSubscriptionStartDate", recentSubscriptionStartDate)
        writer.member("renewalDate", renewalDate)
        writer.member("renewalPrice", renewalPrice)
        writer.member("currency", currency)
        if !eligibleWinBackOfferIds.isEmpty {
            writer.key("eligibleWinBackOfferIds")
            writer.array(eligibleWinBackOfferIds) { $0.value($1) }
        }
        writer.member("appAccountToken", appAccountToken)
        writer.member("appTransactionId", appTransactionId)
        writer.member("renewalBillingPlanType", renewalBillingPlanType)
        writer.member("additional", additional)
        writer.member("signedDate", signedDate)
    }

    init(json: JSONValue) throws(FactsError) {
        let json = json.indexed
        self.init(originalTransactionId: try json.required("originalTransactionId"))
        productId = json.string("productId")
        autoRenewProductId = json.string("autoRenewProductId")
        autoRenewProductChangeDate = try json.instant("autoRenewProductChangeDate")
        autoRenewStatus = json.bool("autoRenewStatus")
        autoRenewStatusChangeDate = try json.instant("autoRenewStatusChangeDate")
        expirationIntent = json.integer("expirationIntent")
        isInBillingRetryPeriod = json.bool("isInBillingRetryPeriod")
        gracePeriodExpiresDate = try json.instant("gracePeriodExpiresDate")
        priceIncreaseStatus = json.integer("priceIncreaseStatus")
        promotionalOfferId = json.string("promotionalOfferId")
        offerCodeRefName = json.string("offerCodeRefName")
        offerType = json.integer("offerType")
        offerIdentifier = json.string("offerIdentifier")
        offerDiscountType = json.string("offerDiscountType")
        offerPeriod = json.string("offerPeriod")
        recentSubscriptionStartDate = try json.instant("recentSubscriptionStartDate")
        renewalDate = try json.instant("renewalDate")
        renewalPrice = json["renewalPrice"]?.int64
        currency = json.string("currency")
        eligibleWinBackOfferIds = json["eligibleWinBackOfferIds"]?.elements.compactMap(\.string) ?? []
        appAccountToken = json.string("appAccountToken")
        appTransactionId = json.string("appTransactionId")
        renewalBillingPlanType = json.string("renewalBillingPlanType")
        additional = json["additional"].map { CanonicalJSON(stored: $0) }
        signedDate = try json.instant("signedDate")
    }
}

/// The facts of one event as stored in the log: `{"transactions":[…],"renewals":[…]}`, with `"link":{…}` if a backend
/// sent one.
package struct Facts: Sendable, Hashable {
    package var transactions: [Transaction]
    package var renewals: [RenewalInfo]
    package var link: LinkStatement?

    package init(transactions: [Transaction], renewals: [RenewalInfo], link: LinkStatement? = nil) {
        self.transactions = transactions
        self.renewals = renewals
        self.link = link
    }

    package init(json: JSONValue) throws(FactsError) {
        transactions = []
        renewals = []
        for element in try json.requiredElements("transactions") { transactions.append(try Transaction(json: element)) }
        for element in try json.requiredElements("renewals") { renewals.append(try RenewalInfo(json: element)) }
        if let json = json["link"] { link = try LinkStatement(json: json) }
    }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.key("transactions")
        writer.array(transactions) { $1.write(to: &$0) }
        writer.key("renewals")
        writer.array(renewals) { $1.write(to: &$0) }
        if let link {
            writer.key("link")
            link.write(to: &writer)
        }
    }

    /// The smallest subscription id, if the event contains several: all subscriptions in one notification belong to one
    /// Apple Account. Nil if there is only one.
    package var companion: String? {
        let ids = Set(
            transactions.map { ByteString($0.originalTransactionId) }
                + renewals.map { ByteString($0.originalTransactionId) })
        return ids.count > 1 ? ids.min()?.text : nil
    }

    /// The facts of each subscription, by `originalTransactionId`.
    package var bySubscription: [String: Facts] {
        // Nearly always there is only one.
        if let subscription = transactions.first?.originalTransactionId ?? renewals.first?.originalTransactionId,
            transactions.allSatisfy({ $0.originalTransactionId == subscription }),
            renewals.allSatisfy({ $0.originalTransactionId == subscription })
        {
            return [subscription: self]
        }
        var subscriptions: [String: Facts] = [:]
        for transaction in transactions {
            subscriptions[transaction.originalTransactionId, default: Facts(transactions: [], renewals: [])]
                .transactions.append(transaction)
        }
        for renewal in renewals {
            subscriptions[renewal.originalTransactionId, default: Facts(transactions: [], renewals: [])]
                .renewals.append(renewal)
        }
        return subscriptions
    }
}

extension Event {
    package var facts: Facts { Facts(transactions: transactions, renewals: renewals, link: link) }

    /// Writes the members that the log stores as facts: the projected facts, and under `notification` all other fields.
    package func writeFacts(to writer: inout JSONWriter) {
        facts.writeMembers(to: &writer)
        writer.member("notification", details)
    }

    /// Writes the members that `inspect` prints.
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("source", source.rawValue)
        writer.member("environment", environment.rawValue)
        writer.member("app", app)
        writer.member("type", type)
        writer.member("subtype", subtype)
        writer.member("kind", kind.rawValue)
        writer.member("dedupeKey", dedupeKey.hexadecimal)
        writer.member("notificationUUID", notificationUUID)
        writer.member("occurredAt", occurredAt)
        writeFacts(to: &writer)
        writer.key("defects")
        writer.array(defects) { $1.write(to: &$0) }
    }
}

extension Defect {
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("path", path)
            writer.member("problem", problem)
        }
    }
}

/// Stored facts that this version cannot read because they are damaged or a newer version wrote them.
package struct FactsError: Error, Hashable, CustomStringConvertible {
    package let member: String

    package init(member: String) {
        self.member = member
    }

    package var description: String { "stored facts are unreadable at \"\(member)\"" }
}

extension JSONValue {
    func required(_ key: StaticString) throws(FactsError) -> String {
        guard let value = string(key) else { throw FactsError(member: key.description) }
        return value
    }

    func requiredElements(_ key: StaticString) throws(FactsError) -> [JSONValue] {
        guard let value = self[key], value.isArray else { throw FactsError(member: key.description) }
        return value.elements
    }

    func integer(_ key: StaticString) -> Int? {
        self[key]?.int64.flatMap { Int(exactly: $0) }
    }

    func instant(_ key: StaticString) throws(FactsError) -> Instant? {
        guard let value = self[key] else { return nil }
        if let instant = value.canonicalInstant { return instant }
        guard let text = value.string, let instant = Instant(iso8601: text) else {
            throw FactsError(member: key.description)
        }
        return instant
    }
}
