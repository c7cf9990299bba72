import Encoding

extension PurchaseLine {
    /// The answers about the purchases as renewal info, oldest first. What was answered about a purchase after another one
    /// replaced it says nothing about the subscription's renewal, and neither does what is not paid for.
    var renewals: [SubscriptionFacts.RenewalStatement] {
        var statements: [SubscriptionFacts.RenewalStatement] = []
        var plan: String?
        for history in histories where !history.isProduct {
            var last = Instant.earliest
            plan = history.plan(after: plan)
            for answer in history.answers where !answer.snapshot.isPending {
                if let replacedAt = history.replacedAt, answer.statedAt >= replacedAt { continue }
                let renewal = renewal(answer, history, plan: plan)
                let isCommitted = renewal.autoRenewStatus == true
                statements.append(
                    SubscriptionFacts.RenewalStatement(
                        boxed: Boxed(renewal), statedAt: since(answer, after: last), isSigned: true,
                        position: answer.position,
                        commitmentEnd: isCommitted ? commitmentEnd(answer.snapshot, plan: plan) : nil))
                last = answer.statedAt
            }
        }
        return statements.enumerated()
            .sorted { ($0.element.statedAt, $0.offset) < ($1.element.statedAt, $1.offset) }.map(\.element)
    }

    /// Since when an answer holds. Answers say when renewal was cancelled; until an earlier answer, it was not. A prepaid
    /// purchase never renews.
    private func since(_ answer: PurchaseHistory.Answer, after last: Instant) -> Instant {
        let snapshot = answer.snapshot
        let isPrepaid = !snapshot.items.isEmpty && snapshot.items.allSatisfy(\.isPrepaid)
        let hasEnded = snapshot.state == .canceled || snapshot.state == .expired
        guard let since = isPrepaid ? snapshot.startTime : hasEnded ? snapshot.cancelTime : nil, last < since else {
            return answer.statedAt
        }
        return min(since, answer.statedAt)
    }

    /// When the commitment ends, if the subscription ends with it: after as many months as payments are left. While a
    /// payment is late that end is not known, and neither is that of a test purchase, whose months last minutes.
    private func commitmentEnd(_ snapshot: PurchaseSnapshot, plan: String?) -> Instant? {
        guard let item = renewing(snapshot, plan: plan).item, item.isEndingAfterCommitment else { return nil }
        guard snapshot.state == .active, let end = item.expiryTime, let payments = item.paymentsCommitted,
            let start = snapshot.startTime, start.advanced(by: .seconds(86_400)) < end
        else { return .latest }
        return end.advanced(byMonths: payments)
    }

    /// The item that renews, of several the one that renews first, of those the plan; and all that renew.
    private func renewing(
        _ snapshot: PurchaseSnapshot, plan: String?
    ) -> (item: PurchaseSnapshot.Item?, all: [PurchaseSnapshot.Item]) {
        let renewing = snapshot.items.filter { $0.isAutoRenewing == true && !$0.isRemoved }
        func order(_ item: PurchaseSnapshot.Item) -> (Instant, Int, String) {
            (item.expiryTime ?? .latest, item.productId == plan ? 0 : 1, item.productId)
        }
        return ((renewing.isEmpty ? snapshot.items : renewing).min { order($0) < order($1) }, renewing)
    }

    /// - Parameter plan: The product to which other items are add-ons.
    private func renewal(
        _ answer: PurchaseHistory.Answer, _ history: PurchaseHistory, plan: String?
    ) -> RenewalInfo {
        let snapshot = answer.snapshot
        var renewal = RenewalInfo(originalTransactionId: originalTransactionId)
        renewal.appAccountToken = history.accountId ?? history.inherited
        renewal.recentSubscriptionStartDate = snapshot.startTime
        let renewing = self.renewing(snapshot, plan: plan)
        guard let item = renewing.item else { return renewal }
        renewal.productId = item.productKey
        renewal.autoRenewProductId = item.nextProductId ?? item.productKey
        let hasEnded = snapshot.state == .expired || snapshot.state == .canceled
        renewal.autoRenewStatus = !hasEnded && !renewing.all.isEmpty && item.isToBeCharged
        if renewal.autoRenewStatus == false { renewal.autoRenewStatusChangeDate = snapshot.cancelTime }
        switch snapshot.state {
        case .inGracePeriod:
            renewal.isInBillingRetryPeriod = true
            renewal.gracePeriodExpiresDate = item.expiryTime
        case .onHold: renewal.isInBillingRetryPeriod = true
        case .active where renewal.autoRenewStatus == true:
            renewal.isInBillingRetryPeriod = item.expiryTime.map { $0 <= answer.statedAt }
            renewal.renewalDate = item.expiryTime
        case .expired: renewal.expirationIntent = intent(snapshot, history)
        default: break
        }
        renewal.renewalPrice = price(ofRenewalWith: item, renewing.all)
        renewal.currency = item.currency
        renewal.priceIncreaseStatus = item.consent
        return renewal
    }

    /// What the store charges when an item renews, with the items that renew beside it; nil if the price of one is unknown.
    private func price(
        ofRenewalWith item: PurchaseSnapshot.Item, _ renewing: [PurchaseSnapshot.Item]
    ) -> Int64? {
        let others = renewing.filter { other in
            other.productId != item.productId && other.expiryTime == item.expiryTime && other.isToBeCharged
                && (other.currency == nil || other.currency == item.currency)
        }
        return others.reduce(item.priceOfRenewal) { sum, other in
            guard let sum, let price = other.priceOfRenewal else { return nil }
            let (total, overflow) = sum.addingReportingOverflow(price)
            return overflow ? nil : total
        }
    }

    /// Apple's number of the reason. A customer who cancels when access had ended had lost it by the payment that failed.
    private func intent(_ snapshot: PurchaseSnapshot, _ history: PurchaseHistory) -> Int? {
        switch snapshot.cancelReason {
        case .user: history.hasLapsed(at: snapshot.cancelTime) ? 2 : 1
        case .system: 2
        case .developer: 5
        case .replaced, nil: nil
        }
    }
}

extension PurchaseHistory {
    /// True on account hold, and while the payment is tried again before it.
    fileprivate func hasLapsed(at instant: Instant?) -> Bool {
        guard let instant else { return false }
        return suspensions.contains {
            ($0.kind == .hold || $0.kind == .retry) && $0.start < instant && instant <= $0.end
        }
    }
}

extension PurchaseSnapshot.Item {
    /// False for an item that ends with a commitment of which no payment is left.
    fileprivate var isToBeCharged: Bool { !isEndingAfterCommitment || paymentsCommitted ?? 0 > 0 }

    /// The modes of a change of price that the customer need not agree to.
    ///
    /// - Source: platform-2026 4.
    package static let changesAnyway: Set<String> = ["OPT_OUT_PRICE_INCREASE", "PRICE_DECREASE"]

    private var isChangedAnyway: Bool { newPriceMode.map(Self.changesAnyway.contains) ?? false }

    private var needsConsent: Bool { newPriceMode == nil || newPriceMode == "PRICE_INCREASE" }

    /// Whether the next renewal has the new price already: Google can announce it for a later one.
    private var isNewPriceDue: Bool {
        guard let newPriceTime, let expiryTime else { return true }
        // Google can charge a day early.
        return newPriceTime < expiryTime.advanced(by: .seconds(86_400))
    }

    /// What the next renewal costs, in thousandths.
    fileprivate var priceOfRenewal: Int64? {
        switch newPriceState {
        // Without consent, nothing is charged when the new price is due. Answers that do not say when that is name the price
        // before.
        case "OUTSTANDING" where isChangedAnyway || (needsConsent && newPriceTime != nil), "CONFIRMED":
            isNewPriceDue ? newPrice ?? price : price
        default: price
        }
    }

    /// Whether the customer agreed to a higher price, in Apple's numbers; nil if no one asks.
    fileprivate var consent: Int? {
        guard needsConsent else { return nil }
        return switch newPriceState {
        case "OUTSTANDING": 0
        case "CONFIRMED", "APPLIED": 1
        default: nil
        }
    }
}
