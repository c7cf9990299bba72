import Encoding

/// The renewal preferences and status of a subscription at one time. Never grants access by itself.
package struct RenewalInfo: Sendable, Hashable {
    package var originalTransactionId: String
    /// The current product.
    package var productId: String?
    /// The product of the next renewal.
    package var autoRenewProductId: String?
    /// When `autoRenewProductId` took effect, if that is not the time of the report. V1 only: its notifications contain
    /// no date of the choice, so it takes effect when it is received.
    package var autoRenewProductChangeDate: Instant?
    package var autoRenewStatus: Bool?
    /// When `autoRenewStatus` last changed. V1 only.
    package var autoRenewStatusChangeDate: Instant?
    /// 1: the customer cancelled, 2: billing error, 3: price increase not accepted, 4: product unavailable, 5: other.
    package var expirationIntent: Int?
    package var isInBillingRetryPeriod: Bool?
    package var gracePeriodExpiresDate: Instant?
    /// 0: the customer has not responded, 1: the customer agreed.
    package var priceIncreaseStatus: Int?
    package var promotionalOfferId: String?
    package var offerCodeRefName: String?
    /// Applies to the next renewal, like the other offer fields and the price.
    package var offerType: Int?
    package var offerIdentifier: String?
    package var offerDiscountType: String?
    package var offerPeriod: String?
    /// Start of the most recent streak, which ignores gaps of up to 60 days.
    package var recentSubscriptionStartDate: Instant?
    /// When the App Store will attempt the next renewal.
    package var renewalDate: Instant?
    /// In thousandths of the currency unit.
    package var renewalPrice: Int64?
    package var currency: String?
    package var eligibleWinBackOfferIds: [String]
    package var appAccountToken: String?
    package var appTransactionId: String?
    package var renewalBillingPlanType: String?
    /// The `status` of a notification that says that access is over, although an end that the notification states lies
    /// ahead: 2 or 5, or 3 if only grace is over. Nil if status and dates agree.
    package var endedStatus: Int?
    /// All other fields, including those that the App Store adds in the future.
    package var additional: CanonicalJSON?
    /// When Apple signed this renewal info; nil for unsigned ones. Not part of the fact's identity.
    package var signedDate: Instant?

    package init(originalTransactionId: String) {
        self.originalTransactionId = originalTransactionId
        self.eligibleWinBackOfferIds = []
    }

    /// Apple's `status` of a subscription that runs.
    package static let activeStatus: Int64 = 1
    /// Apple's `status` while it retries a renewal, without grace. The period that was paid for may not be over yet.
    package static let retryStatus = 3
}

extension RenewalInfo {
    /// True for the status of a notification without renewal info: it says whether access is over, and nothing else.
    var isStatusAlone: Bool {
        guard productId == nil, autoRenewProductId == nil, autoRenewStatus == nil else { return false }
        var status = RenewalInfo(originalTransactionId: originalTransactionId)
        (status.endedStatus, status.signedDate) = (endedStatus, signedDate)
        return self == status
    }

    /// Whether the subscription goes on after the commitment of twelve months that is billed monthly; nil if there is no
    /// commitment. A customer who cancels one switches this off: its months are still charged, so that ``autoRenewStatus``
    /// stays on.
    package var commitmentAutoRenewStatus: Bool? {
        guard let status = additional?.object("commitmentInfo")?["commitmentAutoRenewStatus"] else { return nil }
        switch status.int64 ?? status.string.flatMap({ Int64($0) }) {
        case 0: return false
        case 1: return true
        default: return status.bool
        }
    }

    /// When the commitment is over, and renewed or not; nil if there is none.
    var commitmentRenewalDate: Instant? {
        additional?.object("commitmentInfo")?["commitmentRenewalDate"]?.int64.flatMap { Instant(milliseconds: $0) }
    }

    /// Fills in the fields that only signed reports contain. Those about the next renewal apply only while its product is
    /// the same.
    mutating func keepSignedFields(of earlier: RenewalInfo) {
        recentSubscriptionStartDate = recentSubscriptionStartDate ?? earlier.recentSubscriptionStartDate
        if eligibleWinBackOfferIds.isEmpty { eligibleWinBackOfferIds = earlier.eligibleWinBackOfferIds }
        appAccountToken = appAccountToken ?? earlier.appAccountToken
        appTransactionId = appTransactionId ?? earlier.appTransactionId
        additional = additional ?? earlier.additional
        let next = autoRenewProductId ?? earlier.autoRenewProductId
        guard next == earlier.autoRenewProductId ?? next else { return }
        offerType = offerType ?? earlier.offerType
        offerIdentifier = offerIdentifier ?? earlier.offerIdentifier
        offerDiscountType = offerDiscountType ?? earlier.offerDiscountType
        offerPeriod = offerPeriod ?? earlier.offerPeriod
        renewalDate = renewalDate ?? earlier.renewalDate
        renewalPrice = renewalPrice ?? earlier.renewalPrice
        currency = currency ?? earlier.currency
        renewalBillingPlanType = renewalBillingPlanType ?? earlier.renewalBillingPlanType
    }
}

// MARK: - Fields

extension RenewalInfo {
    /// Visits all fields but the id, `additional` and `signedDate`, in the order of the canonical JSON.
    ///
    /// A new field is a property above and a line here.
    private static func visitFields(
        from: RenewalInfo, to: inout RenewalInfo, with visitor: inout some FieldVisitor
    ) {
        visitor.visit("productId", from.productId, &to.productId)
        visitor.visit("autoRenewProductId", from.autoRenewProductId, &to.autoRenewProductId)
        visitor.visit(
            .unsigned("autoRenewProductChangeDate"), from.autoRenewProductChangeDate, &to.autoRenewProductChangeDate)
        visitor.visit("autoRenewStatus", from.autoRenewStatus, &to.autoRenewStatus)
        visitor.visit(
            .unsigned("autoRenewStatusChangeDate"), from.autoRenewStatusChangeDate, &to.autoRenewStatusChangeDate)
        visitor.visit("expirationIntent", from.expirationIntent, &to.expirationIntent)
        visitor.visit("isInBillingRetryPeriod", from.isInBillingRetryPeriod, &to.isInBillingRetryPeriod)
        visitor.visit("gracePeriodExpiresDate", from.gracePeriodExpiresDate, &to.gracePeriodExpiresDate)
        visitor.visit("priceIncreaseStatus", from.priceIncreaseStatus, &to.priceIncreaseStatus)
        visitor.visit(.unsigned("promotionalOfferId"), from.promotionalOfferId, &to.promotionalOfferId)
        visitor.visit(.unsigned("offerCodeRefName"), from.offerCodeRefName, &to.offerCodeRefName)
        visitor.visit("offerType", from.offerType, &to.offerType)
        visitor.visit("offerIdentifier", from.offerIdentifier, &to.offerIdentifier)
        visitor.visit("offerDiscountType", from.offerDiscountType, &to.offerDiscountType)
        visitor.visit("offerPeriod", from.offerPeriod, &to.offerPeriod)
        visitor.visit("recentSubscriptionStartDate", from.recentSubscriptionStartDate, &to.recentSubscriptionStartDate)
        visitor.visit("renewalDate", from.renewalDate, &to.renewalDate)
        visitor.visit("renewalPrice", from.renewalPrice, &to.renewalPrice)
        visitor.visit("currency", from.currency, &to.currency)
        visitor.visit("eligibleWinBackOfferIds", from.eligibleWinBackOfferIds, &to.eligibleWinBackOfferIds)
        visitor.visit(.accountToken("appAccountToken"), from.appAccountToken, &to.appAccountToken)
        visitor.visit("appTransactionId", from.appTransactionId, &to.appTransactionId)
        visitor.visit("renewalBillingPlanType", from.renewalBillingPlanType, &to.renewalBillingPlanType)
        visitor.visit(.derived("endedStatus"), from.endedStatus, &to.endedStatus)
    }

    /// Passes every field to a visitor that writes.
    package func visitFields(with visitor: inout some FieldVisitor) {
        var unused = RenewalInfo(originalTransactionId: "")
        Self.visitFields(from: self, to: &unused, with: &visitor)
    }

    /// Passes every field to a visitor that reads.
    package mutating func setFields(with visitor: inout some FieldVisitor) {
        Self.visitFields(from: RenewalInfo(originalTransactionId: ""), to: &self, with: &visitor)
    }
}
