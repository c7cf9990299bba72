import Encoding
import PlayStore
import Subscriptions
import Testing

@Suite("A value of Google Play that this version does not know is a defect that names it")
struct UnknownPlayValueTests {
    private static let fields = UnknownValue.Field.allCases.filter { $0.store == .google }

    private static func defects(_ field: UnknownValue.Field) throws -> [Defect] {
        switch field {
        case .subscriptionState:
            try statement(PlayAnswerTests.active.replacing("SUBSCRIPTION_STATE_ACTIVE", with: "SOMETHING_NEW"))
                .event.defects
        case .acknowledgementState:
            try statement(
                PlayAnswerTests.active.replacing("ACKNOWLEDGEMENT_STATE_PENDING", with: "SOMETHING_NEW")
            ).event.defects
        case .priceChangeState:
            try statement(PlayAnswerTests.active.replacing("OUTSTANDING", with: "SOMETHING_NEW")).event.defects
        case .priceChangeMode:
            try statement(PlayAnswerTests.active.replacing("PRICE_INCREASE", with: "SOMETHING_NEW")).event.defects
        case .purchaseState:
            try statement(
                #"{"purchaseStateContext":{"purchaseState":"SOMETHING_NEW"},"productLineItem":[]}"#, .productV2
            ).event.defects
        case .consumptionState:
            try statement(
                #"{"purchaseStateContext":{"purchaseState":"PURCHASED"},"productLineItem":[{"productId":"coins","#
                    + #""productOfferDetails":{"consumptionState":"SOMETHING_NEW"}}]}"#, .productV2
            ).event.defects
        case .orderState:
            try statement(#"{"orderId":"GPA.1","state":"SOMETHING_NEW"}"#, .order, environment: .production).event
                .defects
        case .refundReason:
            try statement(
                #"{"orderId":"GPA.1","state":"REFUNDED","orderHistory":{"refundEvent":{"eventTime":"2026-05-10T00:00:00Z","#
                    + #""refundReason":"SOMETHING_NEW","refundDetails":{"total":{"units":"4"}}}}}"#, .order,
                environment: .production
            ).event.defects
        case .refundState:
            try statement(
                #"{"orderId":"GPA.1","state":"PARTIALLY_REFUNDED","orderHistory":{"partialRefundEvents":[{"state":"#
                    + #""SOMETHING_NEW","refundDetails":{"total":{"units":"4"}}}]}}"#, .order, environment: .production
            ).event.defects
        default: []
        }
    }

    @Test("in answers", arguments: fields.filter { $0 != .refundType })
    func defect(_ field: UnknownValue.Field) throws {
        let named = try Self.defects(field).compactMap(UnknownValue.named)

        #expect(named.map(\.field) == [field])
        #expect(named.map(\.value) == ["SOMETHING_NEW"])
    }

    @Test("an unknown state gives access until the stated expiry and no longer")
    func state() throws {
        let event = try statement(
            PlayAnswerTests.active.replacing("SUBSCRIPTION_STATE_ACTIVE", with: "SOMETHING_NEW")
        ).event
        var facts = SubscriptionFacts(originalTransactionId: "token-1")
        facts.fold(event.facts, occurredAt: event.occurredAt, receivedAt: TestKeys.now, position: 1)

        #expect(Subscription(facts).access.map(\.end).max() ?? .earliest <= at("2025-11-21T05:00:00.123Z"))
    }
}
