import Encoding
import Subscriptions

/// A developer notification of Google Play: says that something changed, and not what is true now. The Google Play
/// Developer API answers that.
///
/// - Source: Google, "Real-time developer notifications reference guide".
package struct DeveloperNotification: Sendable {
    /// What the notification is about.
    package enum Content: Sendable, Hashable {
        case subscription(SubscriptionNotificationType, PurchaseToken?)
        case oneTimeProduct(ProductNotificationType, PurchaseToken?, productId: String?)
        case voidedPurchase(VoidNotice, PurchaseToken?)
        /// A question about a refund that Google asks the developer. Changes no access.
        case pendingRefundReview(orderId: String?)
        case test
        /// None of the above: of a kind that this version does not know, or empty.
        case unknown
    }

    /// What a notification says about a voided purchase.
    package struct VoidNotice: Sendable, Hashable {
        package let orderId: String?
        /// False for a one-time product.
        package let isOfSubscription: Bool
        /// Only some units were refunded, or a part that this version does not know.
        package let isPartial: Bool
    }

    package let packageName: String?
    /// When the event happened. Two notifications about one purchase may arrive in any order.
    package let eventTime: Instant?
    package let content: Content
    /// The whole notification.
    let details: CanonicalJSON
    let defects: [Defect]

    private static let keys: [StaticString] = [
        "subscriptionNotification", "oneTimeProductNotification", "voidedPurchaseNotification",
        "pendingRefundReviewNotification", "testNotification",
    ]

    /// True if a body looks like a notification and not like a message around one.
    static func isOne(_ root: JSONValue) -> Bool {
        root["packageName"]?.isString == true && (root["version"] != nil || keys.contains { root[$0] != nil })
    }

    init(_ root: JSONValue) {
        var fields = JSONFields(root)
        packageName = fields.identifier("packageName")
        if packageName == nil { fields.note("packageName", "is missing or unreadable") }
        eventTime = fields.milliseconds("eventTimeMillis")
        if eventTime == nil { fields.note("eventTimeMillis", "is missing or unreadable") }
        details = CanonicalJSON(root)
        if let content = Self.content(&fields) {
            self.content = content
        } else {
            content = .unknown
            fields.note("subscriptionNotification", "is missing, and so is every other known kind of notification")
        }
        defects = fields.defects
    }

    private static func content(_ fields: inout JSONFields) -> Content? {
        if var inner = fields.object("subscriptionNotification") {
            let type = SubscriptionNotificationType(name: inner.text("notificationType"))
            let token = inner.requiredToken()
            fields.add(inner)
            return .subscription(type, token)
        }
        if var inner = fields.object("oneTimeProductNotification") {
            let type = ProductNotificationType(name: inner.text("notificationType"))
            let (token, product) = (inner.requiredToken(), inner.identifier("sku"))
            fields.add(inner)
            return .oneTimeProduct(type, token, productId: product)
        }
        if var inner = fields.object("voidedPurchaseNotification") {
            // Only a full refund takes the purchase back. The answer about the purchase says what another one did.
            let refundType = inner.text("refundType")
            inner.note(refundType, of: .refundType)
            let notice = VoidNotice(
                orderId: inner.identifier("orderId"), isOfSubscription: inner.text("productType") != "2",
                isPartial: refundType.map { !["0", "1"].contains($0) } ?? false)
            let token = inner.requiredToken()
            fields.add(inner)
            return .voidedPurchase(notice, token)
        }
        if var inner = fields.object("pendingRefundReviewNotification") {
            let orderId = inner.identifier("orderId")
            fields.add(inner)
            return .pendingRefundReview(orderId: orderId)
        }
        return fields.object("testNotification") == nil ? nil : .test
    }

    /// The purchase that the notification is about; nil if it is about none, or its token is unreadable.
    package var purchaseToken: PurchaseToken? {
        switch content {
        case .subscription(_, let token), .oneTimeProduct(_, let token, _), .voidedPurchase(_, let token): token
        case .pendingRefundReview, .test, .unknown: nil
        }
    }

    /// True if the purchase is a one-time product, about which another resource of the API answers.
    package var isAboutProduct: Bool {
        switch content {
        case .oneTimeProduct: true
        case .voidedPurchase(let notice, _): !notice.isOfSubscription
        case .subscription, .pendingRefundReview, .test, .unknown: false
        }
    }

    /// What no answer of the API contains, for the event of the answer that the notification leads to: a void, the time of
    /// a recovery, and that of a revocation.
    ///
    /// A notification does not say whether the purchase is a test purchase, so it cannot be folded itself: the answer's
    /// environment decides where these facts belong. For a void without an answer, see ``PlayStatement``.
    package var facts: [PurchaseFact] {
        guard let token = purchaseToken?.key, let eventTime else { return [] }
        switch content {
        case .subscription(.recovered, _):
            return [.notice(PurchaseNotice(purchaseToken: token, kind: .recovered, at: eventTime))]
        case .subscription(.revoked, _):
            return [.notice(PurchaseNotice(purchaseToken: token, kind: .revoked, at: eventTime))]
        case .voidedPurchase(let notice, _):
            return [
                .void(
                    PurchaseVoid(
                        purchaseToken: token, orderId: notice.orderId, voidedAt: eventTime, isExactTime: false,
                        isPartial: notice.isPartial))
            ]
        case .subscription, .oneTimeProduct, .pendingRefundReview, .test, .unknown: return []
        }
    }
}

extension JSONFields {
    fileprivate mutating func requiredToken() -> PurchaseToken? {
        let token = purchaseToken("purchaseToken")
        if token == nil, raw("purchaseToken") == nil { note("purchaseToken", "is missing") }
        return token
    }
}
