import Encoding

extension PlayOrder {
    /// The answer of `orders.get` at an instant; nil before the order exists.
    package func answer(at instant: Instant, _ rendering: PlayRendering) -> [UInt8]? {
        guard let state = state(at: instant) else { return nil }
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("orderId", orderId)
            writer.member("purchaseToken", purchaseToken)
            writer.member("state", state.rawValue)
            writer.time("createTime", createTime, rendering)
            writer.time("lastEventTime", changes.last { $0.at <= instant }?.at, rendering)
            writer.money("total", currency, thousandths: total)
            if statesShares { writer.money("tax", currency, thousandths: tax) }
            // An order that was never charged brings nothing.
            if statesShares, state != .pending, state != .canceled {
                writer.money("developerRevenueInBuyerCurrency", currency, thousandths: proceeds(at: instant))
            }
            writer.key("lineItems")
            writer.array(items) { writer, item in
                writer.object { writeItem(item, state, rendering, to: &$0) }
            }
            writer.key("orderHistory")
            writer.object { writeHistory(at: instant, rendering, to: &$0) }
        }
        return writer.bytes
    }

    private func writeItem(_ item: Item, _ state: State, _ rendering: PlayRendering, to writer: inout JSONWriter) {
        writer.member("productId", item.productId)
        writer.money("total", currency, thousandths: item.price)
        if statesShares { writer.money("tax", currency, thousandths: item.tax) }
        guard let basePlanId = item.basePlanId else { return writer.emptyObject("oneTimePurchaseDetails") }
        writer.key("subscriptionDetails")
        writer.object { writer in
            writer.member("basePlanId", basePlanId)
            writer.member("offerId", item.offerId)
            // The service period is that of the payment. An order that was never paid has none.
            if state != .pending, state != .canceled {
                writer.time("servicePeriodStartTime", servicePeriod?.lowerBound, rendering)
                writer.time("servicePeriodEndTime", servicePeriod?.upperBound, rendering)
            }
            guard let phase = item.phase else { return }
            writer.key("offerPhaseDetails")
            writer.object { writer in
                switch phase {
                case .basePrice: writer.emptyObject("baseDetails")
                case .freeTrial: writer.emptyObject("freeTrialDetails")
                case .introductoryPrice: writer.emptyObject("introductoryPriceDetails")
                case .prorationPeriod: writer.emptyObject("prorationPeriodDetails")
                }
            }
        }
    }

    private func writeHistory(at instant: Instant, _ rendering: PlayRendering, to writer: inout JSONWriter) {
        let (partial, full) = (refunds.filter(\.isPartial), refunds.first { !$0.isPartial })
        for change in changes where change.at <= instant {
            switch change.state {
            case .pending, .partiallyRefunded, .refunded: break
            case .processed:
                writer.key("processedEvent")
                writer.object { $0.time("eventTime", change.at, rendering) }
            case .canceled:
                writer.key("cancellationEvent")
                writer.object { $0.time("eventTime", change.at, rendering) }
            }
        }
        let shown = partial.filter { $0.at <= instant }
        if !shown.isEmpty {
            writer.key("partialRefundEvents")
            writer.array(shown) { writer, refund in
                writer.object { writer in
                    writer.time("createTime", refund.at, rendering)
                    writer.time("processTime", refund.at, rendering)
                    writer.member("state", "PROCESSED_SUCCESSFULLY")
                    writeDetails(refund, to: &writer)
                }
            }
        }
        guard let full, full.at <= instant else { return }
        writer.key("refundEvent")
        writer.object { writer in
            writer.time("eventTime", full.at, rendering)
            writer.member("refundReason", full.reason.rawValue)
            writeDetails(full, to: &writer)
        }
    }

    private func writeDetails(_ refund: Refund, to writer: inout JSONWriter) {
        writer.key("refundDetails")
        writer.object { writer in
            writer.money("total", currency, thousandths: refund.amount)
            writer.money("tax", currency, thousandths: refund.amount / 10)
        }
    }
}

extension PlayVoid {
    /// Writes a row of the list of voided purchases.
    func write(_ rendering: PlayRendering, to writer: inout JSONWriter) {
        writer.member("kind", "androidpublisher#voidedPurchase")
        writer.member("purchaseToken", purchaseToken)
        writer.millisecondsText("purchaseTimeMillis", purchaseTime)
        writer.millisecondsText("voidedTimeMillis", voidedTime)
        writer.member("orderId", orderId)
        if rendering.hasVoidCodesAsText {
            writer.member("voidedSource", String(source.rawValue))
            writer.member("voidedReason", String(reason.rawValue))
        } else {
            writer.member("voidedSource", source.rawValue)
            writer.member("voidedReason", reason.rawValue)
        }
        writer.member("voidedQuantity", quantity)
    }

    /// The answer of `purchases.voidedpurchases`.
    ///
    /// - Parameter nextPageToken: Nil on the last page.
    package static func answer(_ voids: [PlayVoid], nextPageToken: String?, _ rendering: PlayRendering) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            if let nextPageToken {
                writer.key("tokenPagination")
                writer.object { $0.member("nextPageToken", nextPageToken) }
            }
            // Empty lists are left out too.
            guard !voids.isEmpty else { return }
            writer.key("voidedPurchases")
            writer.array(voids) { writer, void in
                writer.object { void.write(rendering, to: &$0) }
            }
        }
        return writer.bytes
    }
}
