import Encoding
import Subscriptions

/// A request to the Google Play Developer API.
///
/// A `GET` answers a ``PlayStatement`` or ``VoidedPurchasePage``; see there how its body is read. An acknowledgement has
/// an empty answer.
package struct PlayRequest: Sendable, Hashable {
    /// Google counts the requests of each minute in these groups.
    package enum Quota: String, Sendable, Hashable, CaseIterable {
        case subscriptions
        case subscriptionUpdates = "subscription_updates"
        case oneTimePurchases = "one_time_purchases"
        case orders

        /// What Google accepts in a minute.
        package var perMinute: Int { 3000 }
    }

    package let method: String
    /// From the host's root on, with the query; percent-encoded.
    package let path: String
    /// JSON; nil for a request without a body.
    package let body: [UInt8]?
    package let quota: Quota

    private init(
        _ package: String, _ path: String, _ quota: Quota, method: String = "GET", body: [UInt8]? = nil
    ) {
        self.method = method
        self.path = "\(Self.base)/\(PercentEncoding.encoded(package))/\(path)"
        self.body = body
        self.quota = quota
    }

    private static let base = "/androidpublisher/v3/applications"

    /// What is known of a subscription purchase, all items.
    package static func subscription(_ token: PurchaseToken, of package: String) -> PlayRequest {
        PlayRequest(
            package, "purchases/subscriptionsv2/tokens/\(PercentEncoding.encoded(token.text))", .subscriptions)
    }

    /// What is known of a purchase of one-time products.
    package static func product(_ token: PurchaseToken, of package: String) -> PlayRequest {
        PlayRequest(
            package, "purchases/productsv2/tokens/\(PercentEncoding.encoded(token.text))", .oneTimePurchases)
    }

    /// One order: when its period began, what was paid.
    package static func order(_ orderId: String, of package: String) -> PlayRequest {
        PlayRequest(package, "orders/\(PercentEncoding.encoded(orderId))", .orders)
    }

    /// Several orders, at most 1,000. If Google does not know one of them, it answers about none.
    ///
    /// - Source: Google, "Method: orders.batchget".
    package static func orders(_ orderIds: [String], of package: String) -> PlayRequest {
        let query = orderIds.map { "orderIds=\(PercentEncoding.encoded($0))" }.joined(separator: "&")
        return PlayRequest(package, "orders:batchGet?\(query)", .orders)
    }

    /// Acknowledges a subscription purchase, which Google refunds after three days otherwise. Only after the customer has
    /// what was bought, and never a pending one.
    ///
    /// - Parameters:
    ///   - productId: Optional since 2025, and unwise for a purchase with several items.
    ///   - accountId: The app user of a purchase outside the app, which cannot state one itself. Google states it from then
    ///     on.
    package static func acknowledgeSubscription(
        _ token: PurchaseToken, productId: String?, accountId: String? = nil, of package: String
    ) -> PlayRequest {
        let product = productId.map { "\(PercentEncoding.encoded($0))/" } ?? ""
        var body = JSONWriter()
        body.object { body in
            guard let accountId else { return }
            body.key("externalAccountIds")
            body.object { $0.member("obfuscatedAccountId", accountId) }
        }
        return PlayRequest(
            package, "purchases/subscriptions/\(product)tokens/\(PercentEncoding.encoded(token.text)):acknowledge",
            .subscriptions, method: "POST", body: body.bytes)
    }

    /// Acknowledges a purchase of a one-time product.
    package static func acknowledgeProduct(
        _ token: PurchaseToken, productId: String, of package: String
    ) -> PlayRequest {
        let product = PercentEncoding.encoded(productId)
        return PlayRequest(
            package, "purchases/products/\(product)/tokens/\(PercentEncoding.encoded(token.text)):acknowledge",
            .oneTimePurchases, method: "POST", body: Array("{}".utf8))
    }

    /// Stops the renewal of a subscription. The customer has what was paid for, and can restore it.
    ///
    /// - Source: Google, "Method: purchases.subscriptionsv2.cancel".
    package static func cancel(_ token: PurchaseToken, of package: String) -> PlayRequest {
        update(token, "cancel", of: package) { body in
            body.key("cancellationContext")
            body.object { $0.member("cancellationType", "USER_REQUESTED_STOP_RENEWALS") }
        }
    }

    /// Ends a subscription now, and refunds what was paid for its period, or the rest of it.
    ///
    /// - Source: Google, "Method: purchases.subscriptionsv2.revoke".
    package static func revoke(_ token: PurchaseToken, isProrated: Bool, of package: String) -> PlayRequest {
        update(token, "revoke", of: package) { body in
            body.key("revocationContext")
            body.object { context in
                context.key(isProrated ? "proratedRefund" : "fullRefund")
                context.object { _ in }
            }
        }
    }

    /// Moves the next charge of a subscription, and the end of its access with it.
    ///
    /// - Parameter etag: That of the answer about the purchase. If the purchase has changed since, Google refuses.
    /// - Source: Google, "Method: purchases.subscriptionsv2.defer".
    package static func `defer`(
        _ token: PurchaseToken, days: Int, etag: String, of package: String
    ) -> PlayRequest {
        update(token, "defer", of: package) { body in
            body.key("deferralContext")
            body.object { context in
                context.member("etag", etag)
                context.member("deferDuration", "\(days * 86_400)s")
            }
        }
    }

    /// Refunds an order of at most three years ago.
    ///
    /// - Parameter revokes: Whether access ends as well.
    /// - Source: Google, "Method: orders.refund".
    package static func refund(_ orderId: String, revokes: Bool, of package: String) -> PlayRequest {
        PlayRequest(
            package, "orders/\(PercentEncoding.encoded(orderId)):refund?revoke=\(revokes)", .orders, method: "POST",
            body: Array("{}".utf8))
    }

    private static func update(
        _ token: PurchaseToken, _ verb: String, of package: String, _ body: (inout JSONWriter) -> Void
    ) -> PlayRequest {
        var writer = JSONWriter()
        writer.object { body(&$0) }
        return PlayRequest(
            package, "purchases/subscriptionsv2/tokens/\(PercentEncoding.encoded(token.text)):\(verb)",
            .subscriptionUpdates, method: "POST", body: writer.bytes)
    }

    /// Answers Google's question about a chargeback of an order. Google takes the first answer, and ignores all later ones.
    ///
    /// Google knows no refund in part: a developer who prefers one has no preference. How an order was used is not said by
    /// events, which would name places and addresses of the customer.
    ///
    /// - Parameter token: That of the notification with the question.
    /// - Source: Google, "Method: orders.reviewrefund".
    package static func reviewRefund(
        of orderId: String, token: String, _ answer: ConsumptionAnswer, of package: String
    ) -> PlayRequest {
        var body = JSONWriter()
        body.object { body in
            body.member("pendingRefundToken", token)
            body.member("sampleContentProvided", answer.isSampleProvided)
            body.member("refundPreference", answer.preferenceOfGoogle)
            body.member("consumptionPercentageMilliunits", answer.percentage)
        }
        return PlayRequest(
            package, "orders/\(PercentEncoding.encoded(orderId)):reviewrefund", .orders, method: "POST",
            body: body.bytes)
    }

    /// A page of the purchases that were voided, oldest first, subscriptions as well.
    ///
    /// - Parameters:
    ///   - start: Counts the time at which Google saw the void, up to 30 days back.
    ///   - pageToken: That of the previous page; nil for the first. The other parameters must be the same.
    package static func voidedPurchases(
        from start: Instant, until end: Instant, pageToken: String?, of package: String
    ) -> PlayRequest {
        // Milliseconds: Google answers seconds with 403.
        var query = "startTime=\(start.milliseconds)&endTime=\(end.milliseconds)&type=1"
        query += "&includeQuantityBasedPartialRefund=true"
        if let pageToken { query += "&token=\(PercentEncoding.encoded(pageToken))" }
        return PlayRequest(package, "purchases/voidedpurchases?\(query)", .orders)
    }
}

extension ConsumptionAnswer {
    fileprivate var preferenceOfGoogle: String {
        switch preference {
        case .decline: "DECLINE"
        case .grantFull: "APPROVE"
        case .grantProrated, nil: "NEUTRAL"
        }
    }
}

/// The resources of the API that are about one purchase or order. The raw values are those of the log.
package enum PlayResource: String, Sendable, Hashable, CaseIterable {
    case subscriptionV2 = "subscriptionsv2"
    case productV2 = "productsv2"
    case order = "orders"
}
