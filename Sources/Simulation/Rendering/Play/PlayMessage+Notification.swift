import Encoding

extension PlayMessage {
    /// The `DeveloperNotification` of the message.
    package func notification(_ rendering: PlayRendering) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("version", "1.0")
            writer.member("packageName", rendering.packageName)
            // Documented as a number, sent as a text.
            writer.millisecondsText("eventTimeMillis", eventTime)
            writer.key(section)
            writer.object { writeSection(rendering, to: &$0) }
        }
        return writer.bytes
    }

    /// What the answer to a question about a charge-back repeats.
    var refundReviewToken: String { "review-\(messageId)" }

    private var section: String {
        switch content {
        case .subscription: "subscriptionNotification"
        case .oneTime: "oneTimeProductNotification"
        case .voided: "voidedPurchaseNotification"
        case .refundReview: "pendingRefundReviewNotification"
        case .test: "testNotification"
        }
    }

    private func writeSection(_ rendering: PlayRendering, to writer: inout JSONWriter) {
        switch content {
        case .subscription(let type, let productId):
            writer.member("version", "1.0")
            writer.member("notificationType", type.rawValue)
            writer.member("purchaseToken", purchaseToken)
            if rendering.sendsSubscriptionId { writer.member("subscriptionId", productId) }
        case .oneTime(let type, let sku):
            writer.member("version", "1.0")
            writer.member("notificationType", type.rawValue)
            writer.member("purchaseToken", purchaseToken)
            writer.member("sku", sku)
        case .voided(let orderId, let isSubscription, let isPartial):
            writer.member("purchaseToken", purchaseToken)
            writer.member("orderId", orderId)
            writer.member("productType", isSubscription ? 1 : 2)
            writer.member("refundType", isPartial ? 2 : 1)
        case .refundReview(let orderId, let account):
            writer.member("version", "1.0")
            writer.member("pendingRefundToken", refundReviewToken)
            writer.member("orderId", orderId)
            writer.member("refundReason", 7)
            writer.member("obfuscatedExternalAccountId", account.obfuscatedAccountId)
            writer.member("obfuscatedExternalProfileId", account.obfuscatedProfileId)
        case .test: writer.member("version", "1.0")
        }
    }
}
