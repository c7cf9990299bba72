import Encoding

/// A value that this version does not know, in a field that decides access, ownership or money: access ends at the stated
/// date at most, nothing is taken back because of it, and a defect and a metric name it.
package enum UnknownValue {
    /// Every field of either store that decides access, ownership or money by a word or a code.
    ///
    /// The list is closed: code that decides by such a field has a case here, with the values that it knows.
    package enum Field: String, Sendable, Hashable, CaseIterable {
        // Apple. The raw values are the names in signed payloads.
        case revocationType, revocationReason, inAppOwnershipType
        case productType = "type"
        case transactionReason, offerType, offerDiscountType, billingPlanType
        case expirationIntent, priceIncreaseStatus
        case subscriptionStatus = "status"
        // Google. The raw values are the names in answers.
        case subscriptionState, purchaseState, acknowledgementState, consumptionState, priceChangeState
        case priceChangeMode
        case orderState = "state"
        case refundType, refundReason
        /// `state` of a refund by amount.
        case refundState

        package enum Store: Sendable, Hashable {
            case apple, google
        }

        package var store: Store {
            switch self {
            case .revocationType, .revocationReason, .inAppOwnershipType, .productType, .transactionReason, .offerType,
                .offerDiscountType, .billingPlanType, .expirationIntent, .priceIncreaseStatus, .subscriptionStatus:
                .apple
            case .subscriptionState, .purchaseState, .acknowledgementState, .consumptionState, .priceChangeState,
                .priceChangeMode, .orderState, .refundType, .refundReason, .refundState:
                .google
            }
        }

        /// The values that this version knows, Google's without their prefix.
        package var known: Set<String> {
            switch self {
            case .revocationType:
                [
                    "REFUND_FULL", "REFUND_PRORATED", "FAMILY_REVOKE", "ASSIGNMENT_REVOKE", Transaction.earlyEnd,
                    Transaction.unitRefund, Transaction.amountRefund,
                ]
            case .revocationReason: ["0", "1"]
            case .inAppOwnershipType: ["PURCHASED", "FAMILY_SHARED", "ASSIGNED", Transaction.granted]
            case .productType: Set(Transaction.ProductType.allCases.map(\.rawValue))
            case .transactionReason: ["PURCHASE", "RENEWAL"]
            case .offerType: ["1", "2", "3", "4"]
            case .offerDiscountType: ["FREE_TRIAL", "PAY_AS_YOU_GO", "PAY_UP_FRONT", "ONE_TIME"]
            case .billingPlanType: ["BILLED_UPFRONT", "MONTHLY"]
            case .expirationIntent: ["1", "2", "3", "4", "5"]
            case .priceIncreaseStatus: ["0", "1"]
            case .subscriptionStatus: ["1", "2", "3", "4", "5"]
            case .subscriptionState, .purchaseState: Set(PurchaseSnapshot.State.allCases.map(\.rawValue))
            case .acknowledgementState: ["PENDING", "ACKNOWLEDGED", "0", "1"]
            case .consumptionState: ["YET_TO_BE_CONSUMED", "CONSUMED"]
            case .priceChangeState: ["OUTSTANDING", "CONFIRMED", "APPLIED", "CANCELED"]
            case .priceChangeMode: PurchaseSnapshot.Item.changesAnyway.union(["PRICE_INCREASE"])
            case .orderState:
                [
                    "PENDING", "PROCESSED", "CANCELED", "PENDING_REFUND", PurchaseOrder.partiallyRefunded,
                    PurchaseOrder.refunded,
                ]
            case .refundType: ["0", "1", "2"]
            case .refundReason: ["OTHER", PurchaseOrder.Refund.chargeback]
            case .refundState: ["PENDING", PurchaseOrder.Refund.done]
            }
        }

        /// What follows from an unknown value.
        package var effect: String {
            switch self {
            case .revocationType, .revocationReason, .inAppOwnershipType:
                "a revocation ends access at its date and nothing else"
            case .productType: "access ends at the stated expiry, and without one there is none"
            case .transactionReason: "the purchase replaces no other one"
            case .offerType, .offerDiscountType: "the period is paid for"
            case .billingPlanType: "the price is that of the whole period"
            case .expirationIntent: "the reason of the end has no name"
            case .priceIncreaseStatus: "the customer's consent is not known"
            case .subscriptionStatus: "access ends at the stated end"
            case .subscriptionState: "access ends at the stated expiry"
            case .purchaseState: "it gives and ends no access"
            case .acknowledgementState: "the purchase is not acknowledged"
            case .consumptionState: "the purchase counts as not used up"
            case .priceChangeState: "the price stays as it is"
            case .priceChangeMode: "the price stays as it is, and the customer's consent is not known"
            case .orderState: "the order counts as paid"
            case .refundType: "the purchase is not taken back by it"
            case .refundReason: "the refund has no reason"
            case .refundState: "the amount counts as not paid back"
            }
        }

        /// The name in signed payloads or in answers.
        package var name: StaticString {
            switch self {
            case .revocationType: "revocationType"
            case .revocationReason: "revocationReason"
            case .inAppOwnershipType: "inAppOwnershipType"
            case .productType: "type"
            case .transactionReason: "transactionReason"
            case .offerType: "offerType"
            case .offerDiscountType: "offerDiscountType"
            case .billingPlanType: "billingPlanType"
            case .expirationIntent: "expirationIntent"
            case .priceIncreaseStatus: "priceIncreaseStatus"
            case .subscriptionStatus: "status"
            case .subscriptionState: "subscriptionState"
            case .purchaseState: "purchaseState"
            case .acknowledgementState: "acknowledgementState"
            case .consumptionState: "consumptionState"
            case .priceChangeState: "priceChangeState"
            case .priceChangeMode: "priceChangeMode"
            case .orderState: "state"
            case .refundType: "refundType"
            case .refundReason: "refundReason"
            case .refundState: "refundState"
            }
        }

        /// The name in receipts.
        package var receiptName: StaticString {
            switch self {
            case .revocationType: "cancellation_date_ms"
            case .revocationReason: "cancellation_reason"
            case .inAppOwnershipType: "in_app_ownership_type"
            case .expirationIntent: "expiration_intent"
            case .priceIncreaseStatus: "price_consent_status"
            default: name
            }
        }

        /// The field with the value, if this version does not know it.
        func unknown(_ value: String?) -> (field: Field, value: String)? {
            guard let value, !known.contains(value) else { return nil }
            return (self, UnknownValue.short(value))
        }
    }

    /// Longest value that a defect or an explanation repeats.
    private static let charactersMax = 60

    /// The value as a defect or an explanation names it: ASCII without quotes and control characters, cut if it is long.
    package static func short(_ value: String) -> String {
        String(
            value.unicodeScalars.prefix(charactersMax).map { scalar -> Character in
                scalar.isASCII && scalar.value >= 0x20 && scalar.value != 0x7F && scalar != "\""
                    ? Character(scalar) : "?"
            })
    }

    /// The problem of a defect about the value.
    package static func problem(_ value: String, of field: Field) -> String {
        "is \"\(short(value))\"\(mark)\(field.effect)"
    }

    private static let mark = ", which this version does not know: "

    /// The field and the value that a defect names; nil for a defect about something else.
    package static func named(by defect: Defect) -> (field: Field, value: String)? {
        guard defect.problem.hasPrefix("is \""), let end = defect.problem.firstRange(of: "\"\(mark)") else {
            return nil
        }
        let key = defect.path.split(separator: ".").last.map(String.init) ?? ""
        let field = Field.allCases.first { $0.name.description == key || $0.receiptName.description == key }
        return field.map { ($0, String(defect.problem[..<end.lowerBound].dropFirst(4))) }
    }
}

extension Transaction {
    /// The fields that decide who pays for the purchase and what it replaces, with values that this version does not know.
    var unknownOfPurchase: [(field: UnknownValue.Field, value: String)] {
        [
            UnknownValue.Field.productType.unknown(type),
            UnknownValue.Field.transactionReason.unknown(transactionReason),
            UnknownValue.Field.offerType.unknown(offerType.map { String($0) }),
            UnknownValue.Field.offerDiscountType.unknown(offerDiscountType),
            UnknownValue.Field.billingPlanType.unknown(billingPlanType),
        ].compactMap(\.self)
    }

    /// All fields with values that this version does not know.
    package var allUnknownValues: [(field: UnknownValue.Field, value: String)] { unknownValues + unknownOfPurchase }
}

extension RenewalInfo {
    /// The fields that decide how the subscription goes on, with values that this version does not know.
    package var unknownValues: [(field: UnknownValue.Field, value: String)] {
        [
            UnknownValue.Field.expirationIntent.unknown(expirationIntent.map { String($0) }),
            UnknownValue.Field.priceIncreaseStatus.unknown(priceIncreaseStatus.map { String($0) }),
        ].compactMap(\.self)
    }
}
