import Encoding

/// A purchase or renewal as reported by the App Store: one charge, one period of access.
///
/// Field names are those of Apple's signed transactions; V1's names are translated into them (`cancellation_date`
/// is `revocationDate`).
package struct Transaction: Sendable, Hashable {
    package var transactionId: String
    /// The subscription that the transaction belongs to; stable across renewals, cancellation and resubscription.
    package var originalTransactionId: String
    /// Identifies a period across devices: a restored row has a new `transactionId` and the same `webOrderLineItemId`.
    package var webOrderLineItemId: String?
    package var productId: String?
    package var subscriptionGroupIdentifier: String?
    package var quantity: Int?
    package var purchaseDate: Instant?
    package var originalPurchaseDate: Instant?
    /// Auto-renewable subscriptions only.
    package var expiresDate: Instant?
    /// When the transaction was refunded, revoked or replaced by an upgrade.
    package var revocationDate: Instant?
    /// 1: an issue in the app; 0: any other reason.
    package var revocationReason: Int?
    package var isUpgraded: Bool
    /// True if an absent revocation or upgrade means that there is none. True for signed transactions and unified
    /// receipts; rows of older receipts carry them only in the notification of the cancellation itself.
    package var statesRevocation: Bool
    package var isTrialPeriod: Bool?
    package var isInIntroOfferPeriod: Bool?
    /// `PURCHASED`, `FAMILY_SHARED`, `ASSIGNED`, ``granted``, or another text that is newer than this version.
    package var inAppOwnershipType: String?
    package var promotionalOfferId: String?
    package var offerCodeRefName: String?
    package var appAccountToken: String?
    /// A ``ProductType``, or another text that is newer than this version.
    package var type: String?
    /// `REFUND_FULL`, `REFUND_PRORATED`, `FAMILY_REVOKE` or `ASSIGNMENT_REVOKE`; ``earlyEnd`` for a purchase on Google
    /// Play; ``unreadable``; or another text that is newer than this version.
    package var revocationType: String?
    /// In thousandths of a percent: 50000 is one half.
    package var revocationPercentage: Int?
    /// 1: introductory, 2: promotional, 3: offer code, 4: win-back.
    package var offerType: Int?
    package var offerIdentifier: String?
    /// `FREE_TRIAL`, `PAY_AS_YOU_GO`, `PAY_UP_FRONT` or `ONE_TIME`.
    package var offerDiscountType: String?
    /// ISO 8601 duration.
    package var offerPeriod: String?
    /// ISO 3166-1 alpha-3.
    package var storefront: String?
    package var storefrontId: String?
    /// `PURCHASE` or `RENEWAL`.
    package var transactionReason: String?
    /// In thousandths of the currency unit: 10990 is 10.99.
    package var price: Int64?
    /// ISO 4217.
    package var currency: String?
    /// One per Apple Account and app.
    package var appTransactionId: String?
    /// The subscription that this one was migrated from.
    package var previousOriginalTransactionId: String?
    /// `BILLED_UPFRONT` or `MONTHLY`.
    package var billingPlanType: String?
    /// What Google's order says was paid back, in thousandths; nil if a share of ``price`` was.
    package var refundedPrice: Int64?
    /// The part of ``price`` that is tax, in thousandths, as Google's order states it.
    package var tax: Int64?
    /// What the developer receives, in thousandths, as Google's order states it: without taxes, fees and refunds so far.
    package var developerRevenue: Int64?
    /// What a whole period of the plan costs, in thousandths, as Google's answer states it; ``price`` is lower for an offer, and
    /// for the rest of a period after a change of plan.
    package var planPrice: Int64?
    /// The end that was paid for, where a later report of Apple moved ``expiresDate`` by at least a day: the developer gave the
    /// days away.
    package var paidUntil: Instant?
    /// All other fields, including those that the App Store adds in the future.
    package var additional: CanonicalJSON?
    /// When Apple signed this transaction; nil for unsigned ones. Not part of the fact's identity.
    package var signedDate: Instant?

    package init(transactionId: String, originalTransactionId: String) {
        self.transactionId = transactionId
        self.originalTransactionId = originalTransactionId
        self.isUpgraded = false
        self.statesRevocation = true
    }

    /// The raw values are Apple's.
    package enum ProductType: String, Sendable, CaseIterable {
        case autoRenewable = "Auto-Renewable Subscription"
        case nonRenewing = "Non-Renewing Subscription"
        case consumable = "Consumable"
        case nonConsumable = "Non-Consumable"
    }

    /// The ``revocationType`` of a purchase that counts as never made.
    static let fullRefund = "REFUND_FULL"

    /// The ``revocationType`` of a period that Google ended before its time, without saying that it was refunded.
    static let earlyEnd = "REVOKED"

    /// The ``revocationType`` of a one-time purchase of which units were refunded: a ``revocationPercentage`` of them. What
    /// was not refunded stays, and a product that is owned stays owned.
    static let unitRefund = "REFUND_UNITS"

    /// The ``revocationType`` of a purchase of Google of which an amount was paid back: ``refundedPrice``. Access does not
    /// change.
    static let amountRefund = "REFUND_AMOUNT"

    /// The ``revocationType`` of a revocation whose kind or reason could not be read, and the ``inAppOwnershipType`` of a
    /// transaction whose own could not be: as unknown as a text that is newer than this version.
    package static let unreadable = "UNREADABLE"

    package var isFamilyShared: Bool { inAppOwnershipType == "FAMILY_SHARED" }

    /// True if an organization or the purchaser of a group gave a seat to the customer.
    package var isAssigned: Bool { inAppOwnershipType == "ASSIGNED" }

    /// The ``inAppOwnershipType`` of access that an operator or a backend gives away. No store states it.
    package static let granted = "GRANTED"

    /// True if no purchase is behind it: access was given by hand.
    package var isGranted: Bool { inAppOwnershipType == Self.granted }

    /// True if the transaction is one of several for one period, because seats were added to it.
    package var isForAddedSeats: Bool { additional?.field("additionalTransactionReason")?.string == "SEAT_ADDITION" }

    /// True if another person or an organization pays, or nobody does, so that the row has no payer, and its account token
    /// may be that of the purchaser.
    package var isPaidByAnother: Bool { isFamilyShared || isAssigned || isGranted }

    /// V2 names the discount; V1 has a flag.
    package var isFreeTrial: Bool { offerDiscountType.map { $0 == "FREE_TRIAL" } ?? isTrialPeriod ?? false }

    /// What a revocation does.
    package enum Revocation: Sendable, Hashable {
        /// The purchase counts as never made.
        case refundedInFull
        /// Only the rest of the period was refunded.
        case refundedInPart
        /// Units of a one-time purchase were refunded. Access does not change.
        case unitsRefunded
        /// An amount was paid back. Access does not change.
        case amountRefunded
        /// Access by Family Sharing was revoked. The member never paid.
        case familyRevoked
        /// An organization or the purchaser of a group took the seat back. The member never paid.
        case assignmentRevoked
        /// Google ended the period before its time. What was used of it counts.
        case endedEarly
        /// V1 uses the same field for the date of an upgrade.
        case upgraded
        /// A kind, a reason or an ownership that this version does not know: access ends at the date, and nothing else
        /// follows.
        case unknown
    }

    /// Nil if the transaction was not revoked.
    package var revocation: Revocation? {
        guard revocationDate != nil else { return nil }
        if isFamilyShared || revocationType == "FAMILY_REVOKE" { return .familyRevoked }
        if isAssigned || revocationType == "ASSIGNMENT_REVOKE" { return .assignmentRevoked }
        switch revocationType {
        case "REFUND_PRORATED": return .refundedInPart
        case Self.earlyEnd: return .endedEarly
        case Self.unitRefund: return .unitsRefunded
        case Self.amountRefund: return .amountRefunded
        case Self.fullRefund: return .refundedInFull
        case _ where isUpgraded: return .upgraded
        // Without a kind, as in V1 and before it was introduced, every revocation was a refund.
        default: return unknownValues.isEmpty ? .refundedInFull : .unknown
        }
    }

    /// The fields that decide how access ends, with values that this version does not know.
    package var unknownValues: [(field: UnknownValue.Field, value: String)] {
        [
            UnknownValue.Field.revocationType.unknown(revocationType),
            // Of a known kind, the reason decides nothing: Google's voids have many.
            UnknownValue.Field.revocationReason.unknown(
                revocationType == nil ? revocationReason.map { String($0) } : nil),
            UnknownValue.Field.inAppOwnershipType.unknown(inAppOwnershipType),
        ].compactMap(\.self)
    }

    /// The fields and values that this version does not know, as an explanation names them; nil if there are none.
    var unknownValueText: String? {
        let values = unknownValues.map { "\($0.field.name) \($0.value)" }
        return values.isEmpty ? nil : values.joined(separator: ", ")
    }

    /// When and how the revocation ends the grace period after the transaction; nil if it takes it back, or if there is
    /// none.
    ///
    /// - Parameter start: Of the grace period.
    func cutOfGrace(from start: Instant) -> (at: Instant, reason: AccessPeriod.Cut)? {
        guard let revocationDate, start < revocationDate else { return nil }
        switch revocation {
        case .assignmentRevoked: return (revocationDate, .assignmentRevoked)
        case .unknown: return (revocationDate, .unknownRevocation)
        case .refundedInFull, .refundedInPart, .unitsRefunded, .amountRefunded, .familyRevoked, .endedEarly, .upgraded,
            nil:
            return nil
        }
    }

    /// True if access by Family Sharing was revoked. The member never paid.
    package var isFamilyRevoked: Bool { revocation == .familyRevoked }

    /// True if the purchase counts as never made.
    package var isRefunded: Bool { revocation == .refundedInFull }

    /// True if only the rest of the period was refunded.
    package var isRefundedInPart: Bool { revocation == .refundedInPart }

    private static let dayMilliseconds: Int64 = 86_400_000

    /// How long a store retries a failed renewal, if nothing else is known of the plan.
    package static let retryMilliseconds = 60 * dayMilliseconds

    /// How long the store retries the renewal that follows the transaction: longer for a commitment that is billed monthly.
    package var retryMilliseconds: Int64 {
        billingPlanType == Self.monthlyCommitment ? Self.retryMillisecondsMax : Self.retryMilliseconds
    }

    /// How long a store retries a failed renewal of any plan at most.
    package static let retryMillisecondsMax = 90 * dayMilliseconds

    /// The end of the commitment that the transaction is a month of; nil if there is none.
    var commitmentExpiresDate: Instant? {
        additional?.object("commitmentInfo")?["commitmentExpiresDate"]?.int64.flatMap { Instant(milliseconds: $0) }
    }

    /// The ``billingPlanType`` of a commitment of twelve months that is billed monthly.
    package static let monthlyCommitment = "MONTHLY"

    /// The ``revocationPercentage`` of a full refund.
    private static let wholePercentage = 100_000

    /// The units of a consumable that remain at an instant after the purchase.
    ///
    /// A full refund removes all units, as if they had never been bought. A partial refund removes its share of them
    /// from its date on, in whole units: a unit that is still partly paid for remains. Without a percentage it removes
    /// all units.
    package func unitsLeft(at instant: Instant) -> Int {
        let bought = quantity ?? 1
        guard let revocationDate else { return bought }
        if isRefunded { return 0 }
        if instant < revocationDate { return bought }
        let isOfUnits = revocation == .unitsRefunded
        guard isRefundedInPart || isOfUnits else { return 0 }
        // The percentage of refunded units is that of their number, rounded.
        return bought
            - Int(
                Self.share(
                    revocationPercentage ?? Self.wholePercentage, of: Int64(bought), isRounded: isOfUnits))
    }

    /// The part of a price that was refunded by the instant; of a partial refund without a percentage, nothing.
    package func refundedPart(of price: Int64, at instant: Instant) -> Int64 {
        guard let revocationDate, revocationDate <= instant else { return 0 }
        if let refundedPrice { return min(refundedPrice, price) }
        if isRefunded { return price }
        return isRefundedInPart || revocation == .unitsRefunded ? Self.share(revocationPercentage ?? 0, of: price) : 0
    }

    /// - Parameters:
    ///   - percentage: In thousandths of a percent; clamped.
    ///   - isRounded: To the nearest; otherwise down.
    private static func share(_ percentage: Int, of amount: Int64, isRounded: Bool = false) -> Int64 {
        let share = Int64(min(max(percentage, 0), wholePercentage))
        // The same as the product divided by the whole, without its overflow.
        let (wholes, rest) = amount.quotientAndRemainder(dividingBy: Int64(wholePercentage))
        return wholes * share + (rest * share + (isRounded ? Int64(wholePercentage / 2) : 0)) / Int64(wholePercentage)
    }
}

// MARK: - Fields

extension Transaction {
    /// Visits all fields but the two ids, `additional` and `signedDate`, in the order of the canonical JSON.
    ///
    /// A new field is a property above and a line here; a column of its name in `schema.sql`; and a new projection version.
    private static func visitFields(
        from: Transaction, to: inout Transaction, with visitor: inout some FieldVisitor
    ) {
        visitor.visit(.identifier("webOrderLineItemId"), from.webOrderLineItemId, &to.webOrderLineItemId)
        visitor.visit("productId", from.productId, &to.productId)
        visitor.visit(
            .identifier("subscriptionGroupIdentifier"), from.subscriptionGroupIdentifier,
            &to.subscriptionGroupIdentifier)
        visitor.visit("quantity", from.quantity, &to.quantity)
        visitor.visit("purchaseDate", from.purchaseDate, &to.purchaseDate)
        visitor.visit("originalPurchaseDate", from.originalPurchaseDate, &to.originalPurchaseDate)
        visitor.visit("expiresDate", from.expiresDate, &to.expiresDate)
        visitor.visit(.revocation("revocationDate"), from.revocationDate, &to.revocationDate)
        visitor.visit(.revocation("revocationReason"), from.revocationReason, &to.revocationReason)
        visitor.visit(.revocation("isUpgraded"), from.isUpgraded, &to.isUpgraded, absent: false)
        visitor.visit(.derived("statesRevocation"), from.statesRevocation, &to.statesRevocation, absent: true)
        visitor.visit(.unsigned("isTrialPeriod"), from.isTrialPeriod, &to.isTrialPeriod)
        visitor.visit(.unsigned("isInIntroOfferPeriod"), from.isInIntroOfferPeriod, &to.isInIntroOfferPeriod)
        visitor.visit("inAppOwnershipType", from.inAppOwnershipType, &to.inAppOwnershipType)
        visitor.visit(.unsigned("promotionalOfferId"), from.promotionalOfferId, &to.promotionalOfferId)
        visitor.visit(.unsigned("offerCodeRefName"), from.offerCodeRefName, &to.offerCodeRefName)
        visitor.visit(.accountToken("appAccountToken"), from.appAccountToken, &to.appAccountToken)
        visitor.visit("type", from.type, &to.type)
        visitor.visit(.revocation("revocationType"), from.revocationType, &to.revocationType)
        visitor.visit(.revocation("revocationPercentage"), from.revocationPercentage, &to.revocationPercentage)
        visitor.visit("offerType", from.offerType, &to.offerType)
        visitor.visit("offerIdentifier", from.offerIdentifier, &to.offerIdentifier)
        visitor.visit("offerDiscountType", from.offerDiscountType, &to.offerDiscountType)
        visitor.visit("offerPeriod", from.offerPeriod, &to.offerPeriod)
        visitor.visit("storefront", from.storefront, &to.storefront)
        visitor.visit("storefrontId", from.storefrontId, &to.storefrontId)
        visitor.visit("transactionReason", from.transactionReason, &to.transactionReason)
        visitor.visit("price", from.price, &to.price)
        visitor.visit("currency", from.currency, &to.currency)
        visitor.visit("appTransactionId", from.appTransactionId, &to.appTransactionId)
        visitor.visit(
            .identifier("previousOriginalTransactionId"), from.previousOriginalTransactionId,
            &to.previousOriginalTransactionId)
        visitor.visit("billingPlanType", from.billingPlanType, &to.billingPlanType)
        visitor.visit(.ofOrder("refundedPrice"), from.refundedPrice, &to.refundedPrice)
        visitor.visit(.ofOrder("tax"), from.tax, &to.tax)
        visitor.visit(.ofOrder("developerRevenue"), from.developerRevenue, &to.developerRevenue)
        visitor.visit(.ofOrder("planPrice"), from.planPrice, &to.planPrice)
        visitor.visit(.folded("paidUntil"), from.paidUntil, &to.paidUntil)
    }

    /// Passes every field to a visitor that writes.
    package func visitFields(with visitor: inout some FieldVisitor) {
        var unused = Transaction(transactionId: "", originalTransactionId: "")
        Self.visitFields(from: self, to: &unused, with: &visitor)
    }

    /// Passes every field to a visitor that reads.
    package mutating func setFields(with visitor: inout some FieldVisitor) {
        let empty = Transaction(transactionId: "", originalTransactionId: "")
        Self.visitFields(from: empty, to: &self, with: &visitor)
    }

    /// Returns this transaction, with missing fields filled in from an earlier report of the same transaction.
    ///
    /// Fields that describe the purchase stay known once reported. Revocation and upgrade are taken from this report,
    /// even if absent, when ``statesRevocation`` is true: the absence of a refund reports its reversal. Its kind stays
    /// known as well: unsigned reports have only its date. A statement about access that was given by hand is complete: without
    /// an end, it has none.
    package func completed(by earlier: Transaction) -> Transaction {
        guard !isGranted else { return self }
        var result = withKindOfRevocation(of: earlier)
        var completion = Completion(keepsRevocation: statesRevocation)
        Self.visitFields(from: earlier, to: &result, with: &completion)
        result.additional = additional ?? earlier.additional
        return result
    }

    /// Returns this transaction with the end that was paid for, if it ends at least a day later than in an earlier report.
    func withFreeDays(after earlier: Transaction) -> Transaction {
        guard !isGranted, let before = earlier.expiresDate, let expiresDate,
            expiresDate.milliseconds - before.milliseconds >= 86_400_000
        else { return self }
        var result = self
        result.paidUntil = earlier.paidUntil ?? before
        return result
    }

    /// Returns this transaction with the kind, the share and the reason of a revocation that another report has of the same
    /// date, if it has none itself.
    func withKindOfRevocation(of other: Transaction) -> Transaction {
        guard revocationType == nil, let revocationDate, revocationDate == other.revocationDate else { return self }
        var result = self
        result.revocationType = other.revocationType
        result.revocationPercentage = other.revocationPercentage
        result.revocationReason = revocationReason ?? other.revocationReason
        return result
    }

    /// Fills in missing values.
    private struct Completion: FieldVisitor {
        /// True if an absent revocation is not filled in.
        let keepsRevocation: Bool

        private func completes(_ field: Field) -> Bool { field.kind != .revocation || !keepsRevocation }

        mutating func visit<Value>(_ field: Field, _ source: Value?, _ target: inout Value?) {
            if target == nil, completes(field) { target = source }
        }

        mutating func visit(_ field: Field, _ source: [String], _ target: inout [String]) {
            if target.isEmpty, completes(field) { target = source }
        }

        mutating func visit(_ field: Field, _ source: Bool, _ target: inout Bool, absent: Bool) {
            if completes(field) { target = target || source }
        }
    }
}
