import Encoding

extension PlayOneTimeLife {
    /// The answer of `purchases.productsv2` at an instant; nil before the purchase.
    package func productV2(at instant: Instant, _ rendering: PlayRendering) -> [UInt8]? {
        guard let book = book(at: instant) else { return nil }
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("kind", "androidpublisher#productPurchaseV2")
            writer.key("productLineItem")
            writer.array([book]) { writer, book in
                writer.object { writeItem(book, to: &$0) }
            }
            writer.key("purchaseStateContext")
            writer.object { writer in
                switch book.state {
                case .pending: writer.member("purchaseState", "PENDING")
                case .purchased: writer.member("purchaseState", "PURCHASED")
                case .cancelled: writer.member("purchaseState", "CANCELLED")
                }
            }
            if isTest {
                writer.key("testPurchaseContext")
                writer.object { $0.member("fopType", "TEST") }
            }
            writer.member("orderId", orderId)
            writer.accounts(customer.account)
            writer.member("regionCode", customer.region)
            writer.time("purchaseCompletionTime", book.completionTime, rendering)
            writer.member(
                "acknowledgementState",
                isAcknowledged(at: instant)
                    ? "ACKNOWLEDGEMENT_STATE_ACKNOWLEDGED" : "ACKNOWLEDGEMENT_STATE_PENDING")
        }
        return writer.bytes
    }

    private func writeItem(_ book: Book, to writer: inout JSONWriter) {
        writer.member("productId", sku)
        writer.key("productOfferDetails")
        writer.object { writer in
            writer.member("purchaseOptionId", "buy")
            writer.member("quantity", quantity)
            if book.refundableQuantity > 0 { writer.member("refundableQuantity", book.refundableQuantity) }
            writer.member(
                "consumptionState",
                book.isConsumed ? "CONSUMPTION_STATE_CONSUMED" : "CONSUMPTION_STATE_YET_TO_BE_CONSUMED")
        }
    }

    /// The answer of the old resource `purchases.products` at an instant; nil before the purchase.
    package func product(at instant: Instant) -> [UInt8]? {
        guard let book = book(at: instant) else { return nil }
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("kind", "androidpublisher#productPurchase")
            writer.millisecondsText("purchaseTimeMillis", book.completionTime ?? history.first?.at)
            switch book.state {
            case .purchased: writer.member("purchaseState", 0)
            case .cancelled: writer.member("purchaseState", 1)
            case .pending: writer.member("purchaseState", 2)
            }
            writer.member("consumptionState", book.isConsumed ? 1 : 0)
            writer.member("developerPayload", "")
            writer.member("orderId", orderId)
            if isTest { writer.member("purchaseType", 0) }
            writer.member("acknowledgementState", isAcknowledged(at: instant) ? 1 : 0)
            if quantity > 1 { writer.member("quantity", quantity) }
            if quantity > 1, book.refundableQuantity > 0 {
                writer.member("refundableQuantity", book.refundableQuantity)
            }
            writer.accounts(customer.account)
            writer.member("regionCode", customer.region)
        }
        return writer.bytes
    }
}
