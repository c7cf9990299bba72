import Encoding

extension PlayLife {
    /// The answer of the old resource `purchases.subscriptions` about a token at an instant; nil before the purchase.
    ///
    /// It knows one item only, and neither pauses nor account holds: both show as an expiry in the past.
    package func subscription(
        _ purchase: PlayPurchaseToken, at instant: Instant, _ rendering: PlayRendering
    ) -> [UInt8]? {
        guard let book = purchase.book(at: instant), let item = book.items.first else { return nil }
        let isAcknowledged = purchase.isAcknowledged(at: instant)
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("kind", "androidpublisher#subscriptionPurchase")
            writer.millisecondsText("startTimeMillis", book.startTime ?? purchase.history.first?.at)
            writer.millisecondsText("expiryTimeMillis", item.expiryTime ?? book.startTime)
            writer.millisecondsText("autoResumeTimeMillis", book.autoResumeTime)
            // Unlike the newer resource, this one writes false too.
            writer.member("autoRenewing", item.isAutoRenewing)
            writer.member("priceCurrencyCode", customer.storefront.currency)
            writer.member("priceAmountMicros", String(item.price * 1000))
            writeIntroductoryPrice(of: item, to: &writer)
            writer.member("countryCode", customer.region)
            writer.member("developerPayload", "")
            writer.member("paymentState", Self.paymentState(of: item, book))
            writeCancellation(of: book, to: &writer)
            writer.member("orderId", book.latestOrderId)
            writer.member("linkedPurchaseToken", book.linkedToken)
            if terms.isTest {
                writer.member("purchaseType", 0)
            } else if book.isPromotion {
                writer.member("purchaseType", 1)
            }
            writer.member("acknowledgementState", isAcknowledged ? 1 : 0)
            if book.isPromotion { writer.member("promotionType", 0) }
            writer.accounts(book.account)
        }
        return writer.bytes
    }

    /// 0 pending, 1 received, 2 free trial, 3 deferred change; nil for a subscription that is cancelled or has expired.
    private static func paymentState(of item: PlayItem, _ book: PlayBook) -> Int? {
        switch book.state {
        case .pending, .inGracePeriod, .onHold: 0
        case .active where item.deferredReplacement != nil: 3
        case .active where item.phase == .freeTrial: 2
        case .active, .paused: 1
        case .canceled, .expired, .pendingPurchaseCanceled: nil
        }
    }

    private func writeIntroductoryPrice(of item: PlayItem, to writer: inout JSONWriter) {
        guard let offer = item.offer, offer.phase == .introductoryPrice else { return }
        writer.key("introductoryPriceInfo")
        writer.object { writer in
            writer.member("introductoryPriceCurrencyCode", customer.storefront.currency)
            writer.member("introductoryPriceAmountMicros", String(item.price / 2 * 1000))
            writer.member("introductoryPricePeriod", offer.period.months > 0 ? "P\(offer.period.months)M" : "P1W")
            writer.member("introductoryPriceCycles", 1)
        }
    }

    private func writeCancellation(of book: PlayBook, to writer: inout JSONWriter) {
        guard let cancellation = book.cancellation else { return }
        switch cancellation.kind {
        case .user:
            writer.member("cancelReason", 0)
            writer.millisecondsText("userCancellationTimeMillis", cancellation.at)
        case .system: writer.member("cancelReason", 1)
        case .replacement: writer.member("cancelReason", 2)
        case .developer: writer.member("cancelReason", 3)
        }
        guard cancellation.surveyReason != nil else { return }
        writer.key("cancelSurveyResult")
        writer.object { $0.member("cancelSurveyReason", 2) }
    }
}
