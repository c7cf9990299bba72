import Encoding

extension PlayLife {
    /// The answer of `purchases.subscriptionsv2` about a token at an instant; nil before the purchase.
    package func subscriptionV2(
        _ purchase: PlayPurchaseToken, at instant: Instant, _ rendering: PlayRendering
    ) -> [UInt8]? {
        guard let book = purchase.book(at: instant) else { return nil }
        let isAcknowledged = purchase.isAcknowledged(at: instant)
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("kind", "androidpublisher#subscriptionPurchaseV2")
            writer.time("startTime", book.startTime, rendering)
            writer.member("regionCode", customer.region)
            writer.member("subscriptionState", book.state.name)
            writer.member("latestOrderId", book.latestOrderId)
            writer.member("linkedPurchaseToken", book.linkedToken)
            writeContext(of: book, purchase, rendering, to: &writer)
            if terms.isTest { writer.emptyObject("testPurchase") }
            writer.member(
                "acknowledgementState",
                isAcknowledged ? "ACKNOWLEDGEMENT_STATE_ACKNOWLEDGED" : "ACKNOWLEDGEMENT_STATE_PENDING")
            writeAccounts(of: book, isAcknowledged: isAcknowledged, to: &writer)
            writer.key("lineItems")
            writer.array(book.items) { writer, item in
                writer.object { writeItem(item, book, rendering, to: &$0) }
            }
        }
        return writer.bytes
    }

    private func writeAccounts(of book: PlayBook, isAcknowledged: Bool, to writer: inout JSONWriter) {
        if !book.account.isEmpty {
            writer.key("externalAccountIdentifiers")
            writer.object { $0.accounts(book.account) }
        }
        // Vanishes with the acknowledgement.
        guard let outOfApp = book.outOfApp, !isAcknowledged else { return }
        writer.key("outOfAppPurchaseContext")
        writer.object { writer in
            writer.member("expiredPurchaseToken", outOfApp.expiredToken)
            guard !outOfApp.expiredAccount.isEmpty else { return }
            writer.key("expiredExternalAccountIdentifiers")
            writer.object { $0.accounts(outOfApp.expiredAccount) }
        }
    }

    private func writeContext(
        of book: PlayBook, _ purchase: PlayPurchaseToken, _ rendering: PlayRendering, to writer: inout JSONWriter
    ) {
        if book.state == .paused {
            writer.key("pausedStateContext")
            writer.object { $0.time("autoResumeTime", book.autoResumeTime, rendering) }
        }
        if rendering.showsStateContexts, [.inGracePeriod, .onHold].contains(book.state) {
            writer.key(book.state == .onHold ? "onHoldStateContext" : "inGracePeriodStateContext")
            writer.object { writer in
                writer.key("renewalDeclined")
                writer.object { $0.member("pendingOrderId", book.latestOrderId) }
            }
        }
        guard [.canceled, .expired].contains(book.state), let cancellation = book.cancellation else { return }
        writer.key("canceledStateContext")
        writer.object { writer in
            switch cancellation.kind {
            case .user:
                writer.key("userInitiatedCancellation")
                writer.object { writer in
                    if let reason = cancellation.surveyReason {
                        writer.key("cancelSurveyResult")
                        writer.object { $0.member("reason", "CANCEL_SURVEY_REASON_\(reason)") }
                    }
                    writer.time("cancelTime", cancellation.at, rendering)
                }
            case .system: writer.emptyObject("systemInitiatedCancellation")
            case .developer: writer.emptyObject("developerInitiatedCancellation")
            case .replacement: writer.emptyObject("replacementCancellation")
            }
        }
    }

    private func writeItem(
        _ item: PlayItem, _ book: PlayBook, _ rendering: PlayRendering, to writer: inout JSONWriter
    ) {
        writer.member("productId", item.plan.productId)
        writer.time("expiryTime", item.expiryTime, rendering)
        if !item.isDeferred { writer.member("latestSuccessfulOrderId", item.successfulOrderId) }
        if item.plan.isRenewing {
            writer.key("autoRenewingPlan")
            writer.object { writeRenewal(of: item, rendering, to: &$0) }
        } else {
            writer.key("prepaidPlan")
            writer.object { writer in
                if book.state == .active { writer.time("allowExtendAfterTime", book.startTime, rendering) }
            }
        }
        if !item.isDeferred {
            writer.key("offerDetails")
            writer.object { writer in
                writer.member("basePlanId", item.plan.basePlanId)
                // Stays after the discounted phase.
                writer.member("offerId", item.offer?.offerId)
                if let offer = item.offer {
                    writer.key("offerTags")
                    writer.array([offer.phase.rawValue]) { $0.value($1) }
                }
            }
        }
        if let replacement = item.deferredReplacement {
            writer.key("deferredItemReplacement")
            writer.object { $0.member("productId", replacement) }
        }
        if item.isRemovalDeferred { writer.emptyObject("deferredItemRemoval") }
        if book.isPromotion {
            writer.key("signupPromotion")
            writer.object { $0.emptyObject("oneTimeCode") }
        }
        if rendering.showsOfferPhase, !item.isDeferred, book.startTime != nil {
            writer.key("offerPhase")
            writer.object { $0.offerPhase(item.phase) }
        }
    }

    private func writeRenewal(of item: PlayItem, _ rendering: PlayRendering, to writer: inout JSONWriter) {
        let currency = customer.storefront.currency
        writer.flag("autoRenewEnabled", item.isAutoRenewing)
        writer.money("recurringPrice", currency, thousandths: item.price)
        if let change = item.priceChange {
            writer.key("priceChangeDetails")
            writer.object { writer in
                writer.money("newPrice", currency, thousandths: change.newPrice)
                writer.member("priceChangeMode", "PRICE_INCREASE")
                writer.member("priceChangeState", change.state.rawValue)
                writer.time("expectedNewPriceChargeTime", change.chargeTime, rendering)
            }
        }
        if let installments = item.installments {
            writer.key("installmentDetails")
            writer.object { writer in
                writer.member("initialCommittedPaymentsCount", installments.committed)
                if installments.remaining > 0 {
                    writer.member("remainingCommittedPaymentsCount", installments.remaining)
                }
                if installments.isCancellationPending { writer.emptyObject("pendingCancellation") }
            }
        }
    }
}

extension JSONWriter {
    fileprivate mutating func offerPhase(_ phase: PlayPhase) {
        switch phase {
        case .basePrice: emptyObject("basePrice")
        case .freeTrial: emptyObject("freeTrial")
        case .introductoryPrice: emptyObject("introductoryPrice")
        case .prorationPeriod: emptyObject("prorationPeriod")
        }
    }
}
