import Encoding

/// What an answer of the Google Play Developer API said about a purchase: of a subscription, or of one-time products.
///
/// True at the time of the answer. Names are Google's, in the units of the rest of the ledger: prices in thousandths,
/// regions as ISO 3166-1 alpha-3.
package struct PurchaseSnapshot: Sendable, Hashable {
    static let name = "snapshot"

    package enum Kind: String, Sendable {
        case subscription
        /// One-time products, consumable or not.
        case product
    }

    /// The states that decide access. Google's names without `SUBSCRIPTION_STATE_`; products have ``purchased``,
    /// ``cancelled`` and ``pending``.
    package enum State: String, Sendable, CaseIterable {
        case pending = "PENDING"
        case active = "ACTIVE"
        case paused = "PAUSED"
        case inGracePeriod = "IN_GRACE_PERIOD"
        case onHold = "ON_HOLD"
        case canceled = "CANCELED"
        case expired = "EXPIRED"
        case pendingPurchaseCanceled = "PENDING_PURCHASE_CANCELED"
        /// A product that is paid for.
        case purchased = "PURCHASED"
        /// A product that was never paid for, or no longer is.
        case cancelled = "CANCELLED"
    }

    /// Who ended renewal, as far as Google says it: a developer's refund is reported as the user's.
    package enum CancelReason: String, Sendable {
        case user = "USER"
        case system = "SYSTEM"
        case developer = "DEVELOPER"
        /// Another purchase of the subscription replaced this one.
        case replaced = "REPLACED"
    }

    /// The key of the purchase: its purchase token, or a digest of a token that is too long for an index.
    package var purchaseToken: String
    /// The purchase token itself, if it is too long to be the key.
    package var longPurchaseToken: String?
    package var kind: Kind
    /// The raw value of a ``State``, or Google's name of a state that this version does not know.
    package var stateName: String
    /// When the purchase began. Renewals and recoveries do not change it. Missing while it is pending.
    package var startTime: Instant?
    /// Alpha-3, or what Google sent if that is unknown.
    package var region: String?
    /// The key of the purchase that this one replaced or continued.
    package var linkedPurchaseToken: String?
    /// The key of an expired purchase that the customer bought again in Google Play: another subscription of the same
    /// customer.
    package var expiredPurchaseToken: String?
    package var cancelReason: CancelReason?
    package var cancelTime: Instant?
    package var autoResumeTime: Instant?
    /// Nil if the answer does not say it.
    package var isAcknowledged: Bool?
    package var obfuscatedAccountId: String?
    package var obfuscatedProfileId: String?
    /// Of a purchase before an expired one was bought again, see ``expiredPurchaseToken``.
    package var expiredAccountId: String?
    /// In the order of the answer.
    package var items: [Item]

    package init(purchaseToken: String, kind: Kind, stateName: String) {
        self.purchaseToken = purchaseToken
        self.kind = kind
        self.stateName = stateName
        items = []
    }

    /// Nil for a state that this version does not know.
    package var state: State? { State(rawValue: stateName) }

    /// True if nothing was ever paid for the purchase.
    package var isPending: Bool { state == .pending || state == .pendingPurchaseCanceled }

    /// Whether a one-time purchase was paid for at some time: one that was cancelled since then has a time of completion, one
    /// that never was paid has none.
    package var wasPaid: Bool { state == .purchased || state == .cancelled && startTime != nil }

    /// The app user as stated by the app at the purchase; nil if it stated none.
    package var accountId: String? { obfuscatedAccountId ?? obfuscatedProfileId }

    /// A product of the purchase.
    package struct Item: Sendable, Hashable {
        package var productId: String
        package var basePlanId: String?
        package var offerId: String?
        /// Nil for a one-time product, and for an item that is not paid for yet.
        package var expiryTime: Instant?
        /// The order that paid for the item last; nil for promotions and deferred items.
        package var orderId: String?
        /// True if the answer does not say which order paid for the item: it names one beside the items, which may not be paid.
        package var isOrderUnknown = false
        /// Nil for one-time products and for items that do not renew by themselves.
        package var isAutoRenewing: Bool?
        /// True for a plan that the customer tops up.
        package var isPrepaid = false
        /// The list price of the next renewal, in thousandths; for products the price is that of the order.
        package var price: Int64?
        package var currency: String?
        /// Google's name of the phase: `FREE_TRIAL`, `INTRODUCTORY_PRICE`, `BASE_PRICE` or `PRORATION_PERIOD`; nil if the
        /// answer does not say it.
        package var phase: String?
        /// The product that replaces this one at the next renewal.
        package var nextProductId: String?
        /// True if the item ends with its period.
        package var isRemoved = false
        /// A new price that the next renewals have, and Google's word for its state.
        package var newPrice: Int64?
        package var newPriceState: String?
        /// When Google expects to charge the new price first; nil if it does not say.
        package var newPriceTime: Instant?
        /// Google's word for who has to agree: `PRICE_INCREASE`, `OPT_OUT_PRICE_INCREASE` or `PRICE_DECREASE`. Nil in answers
        /// before 2025, where the customer has to.
        package var newPriceMode: String?
        /// The payments that the customer still owes; nil without installments.
        package var paymentsCommitted: Int?
        /// The subscription ends after the committed payments.
        package var isEndingAfterCommitment = false
        /// Products only; nil means 1.
        package var quantity: Int?
        package var refundableQuantity: Int?
        package var isConsumed: Bool?
        /// Products only: the id of the option by which it was bought, such as for a rental.
        package var purchaseOptionId: String?
        /// True for a product that was rented. No answer says for how long.
        package var isRental = false
        /// When a product that was ordered in advance is released.
        package var releaseTime: Instant?

        package init(productId: String) {
            self.productId = productId
        }

        /// The product and its base plan, such as `premium:monthly`: each base plan has a price and a period of its own.
        package var productKey: String { Self.key(productId, basePlanId) }

        static func key(_ productId: String, _ basePlanId: String?) -> String {
            basePlanId.map { "\(productId):\($0)" } ?? productId
        }
    }
}

// MARK: - JSON

extension PurchaseSnapshot {
    func writeMembers(to writer: inout JSONWriter) {
        writer.member("fact", Self.name)
        writer.member("purchaseToken", purchaseToken)
        writer.member("longPurchaseToken", longPurchaseToken)
        writer.member("kind", kind.rawValue)
        writer.member("state", stateName)
        writer.member("startTime", startTime)
        writer.member("region", region)
        writer.member("linkedPurchaseToken", linkedPurchaseToken)
        writer.member("expiredPurchaseToken", expiredPurchaseToken)
        writer.member("cancelReason", cancelReason?.rawValue)
        writer.member("cancelTime", cancelTime)
        writer.member("autoResumeTime", autoResumeTime)
        writer.member("acknowledged", isAcknowledged)
        writer.member("obfuscatedAccountId", obfuscatedAccountId)
        writer.member("obfuscatedProfileId", obfuscatedProfileId)
        writer.member("expiredAccountId", expiredAccountId)
        writer.key("items")
        writer.array(items) { writer, item in writer.object { item.writeMembers(to: &$0) } }
    }

    init(json: JSONValue) throws(FactsError) {
        guard let kind = Kind(rawValue: try json.required("kind")) else { throw FactsError(member: "kind") }
        self.init(
            purchaseToken: try json.required("purchaseToken"), kind: kind, stateName: try json.required("state"))
        longPurchaseToken = json.string("longPurchaseToken")
        startTime = try json.instant("startTime")
        region = json.string("region")
        linkedPurchaseToken = json.string("linkedPurchaseToken")
        expiredPurchaseToken = json.string("expiredPurchaseToken")
        cancelReason = json.string("cancelReason").flatMap { CancelReason(rawValue: $0) }
        cancelTime = try json.instant("cancelTime")
        autoResumeTime = try json.instant("autoResumeTime")
        isAcknowledged = json.bool("acknowledged")
        obfuscatedAccountId = json.string("obfuscatedAccountId")
        obfuscatedProfileId = json.string("obfuscatedProfileId")
        expiredAccountId = json.string("expiredAccountId")
        for element in try json.requiredElements("items") { items.append(try Item(json: element)) }
    }
}

extension PurchaseSnapshot.Item {
    fileprivate func writeMembers(to writer: inout JSONWriter) {
        writer.member("productId", productId)
        writer.member("basePlanId", basePlanId)
        writer.member("offerId", offerId)
        writer.member("expiryTime", expiryTime)
        writer.member("orderId", orderId)
        writer.member("orderUnknown", isOrderUnknown ? true : nil)
        writer.member("autoRenewing", isAutoRenewing)
        writer.member("prepaid", isPrepaid ? true : nil)
        writer.member("price", price)
        writer.member("currency", currency)
        writer.member("phase", phase)
        writer.member("nextProductId", nextProductId)
        writer.member("removed", isRemoved ? true : nil)
        writer.member("newPrice", newPrice)
        writer.member("newPriceState", newPriceState)
        writer.member("newPriceMode", newPriceMode)
        writer.member("newPriceTime", newPriceTime)
        writer.member("paymentsCommitted", paymentsCommitted)
        writer.member("endingAfterCommitment", isEndingAfterCommitment ? true : nil)
        writer.member("quantity", quantity)
        writer.member("refundableQuantity", refundableQuantity)
        writer.member("consumed", isConsumed)
        writer.member("purchaseOptionId", purchaseOptionId)
        writer.member("rental", isRental ? true : nil)
        writer.member("releaseTime", releaseTime)
    }

    fileprivate init(json: JSONValue) throws(FactsError) {
        self.init(productId: try json.required("productId"))
        basePlanId = json.string("basePlanId")
        offerId = json.string("offerId")
        expiryTime = try json.instant("expiryTime")
        orderId = json.string("orderId")
        isOrderUnknown = json.bool("orderUnknown") ?? false
        isAutoRenewing = json.bool("autoRenewing")
        isPrepaid = json.bool("prepaid") ?? false
        price = json["price"]?.int64
        currency = json.string("currency")
        phase = json.string("phase")
        nextProductId = json.string("nextProductId")
        isRemoved = json.bool("removed") ?? false
        newPrice = json["newPrice"]?.int64
        newPriceState = json.string("newPriceState")
        newPriceMode = json.string("newPriceMode")
        newPriceTime = try json.instant("newPriceTime")
        paymentsCommitted = json.integer("paymentsCommitted")
        isEndingAfterCommitment = json.bool("endingAfterCommitment") ?? false
        quantity = json.integer("quantity")
        refundableQuantity = json.integer("refundableQuantity")
        isConsumed = json.bool("consumed")
        purchaseOptionId = json.string("purchaseOptionId")
        isRental = json.bool("rental") ?? false
        releaseTime = try json.instant("releaseTime")
    }
}
