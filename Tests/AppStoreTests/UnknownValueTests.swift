import AppStore
import Encoding
import Subscriptions
import Testing

/// Goes over the list of fields that decide, with values that the App Store has never sent.
@Suite("A value that this version does not know ends access at the stated date at most")
struct UnknownValueTests {
    private static let fields = UnknownValue.Field.allCases.filter { $0.store == .apple }
    private static let invented: [UnknownValue.Field: JSON] = [
        .revocationReason: 77, .offerType: 78, .expirationIntent: 79, .priceIncreaseStatus: 80, .subscriptionStatus: 81,
    ]

    private static func value(of field: UnknownValue.Field) -> JSON { invented[field] ?? "SOMETHING_NEW" }

    /// The body with the value, after the purchase of February 20 and its renewal on March 20.
    private static func body(_ field: UnknownValue.Field) -> V2Body {
        var row = V2Action.rowB
        var renewal = V2Action.on
        switch field {
        case .revocationType, .revocationReason, .inAppOwnershipType:
            row = row.with(["revocationDate": ms("2018-04-01"), field.name.description: value(of: field)])
        case .expirationIntent, .priceIncreaseStatus:
            renewal = renewal.with([field.name.description: value(of: field)])
        case .subscriptionStatus:
            return V2Body("SOMETHING_NEW", at: "2018-04-01", row, renewal, data: ["status": value(of: field)])
        default: row = row.with([field.name.description: value(of: field)])
        }
        return V2Body("SOMETHING_NEW", at: "2018-04-01", row, renewal)
    }

    private static func subscription(_ field: UnknownValue.Field) throws -> Subscription {
        let bodies = [
            V2Body("SUBSCRIBED", "INITIAL_BUY", at: "2018-02-20", V2Action.rowA, V2Action.on), V2Action.renewed,
            body(field),
        ]
        return try MemoryLedger(arriving: bodies.map { try $0.event() }).subscription()
    }

    @Test("access before it stays, and ends at the stated date at most", arguments: fields)
    func access(_ field: UnknownValue.Field) throws {
        let subscription = try Self.subscription(field)

        let isRevocation = [.revocationType, .revocationReason, .inAppOwnershipType].contains(field)
        #expect(subscription.spans == [Span("2018-02-20", isRevocation ? "2018-04-01" : "2018-04-20")])
        #expect(subscription.refunded.isEmpty)
        #expect(subscription.transactions.allSatisfy { $0.settled.refundedPart(of: 1000, at: .latest) == 0 })
    }

    @Test("a defect names field and value, for the metric too", arguments: fields)
    func defect(_ field: UnknownValue.Field) throws {
        let event = try Self.body(field).event()

        let named = event.defects.compactMap(UnknownValue.named)
        #expect(named.map(\.field) == [field])
        #expect(named.map(\.value) == [Self.value(of: field).written.filter { $0 != "\"" }])
        #expect(event.defects.allSatisfy { $0.problem.hasSuffix(field.effect) })
    }

    @Test("known values of the fields are no defects")
    func known() throws {
        for field in Self.fields {
            for value in field.known {
                let isNumber = Int(value) != nil
                let row = V2Action.rowB.with([field.name.description: isNumber ? .raw(value) : .text(value)])
                let event = try V2Body("DID_RENEW", at: "2018-04-01", row, V2Action.on).event()
                #expect(event.defects.allSatisfy { UnknownValue.named(by: $0) == nil }, "\(field) \(value)")
            }
        }
    }

    @Test("a purchase of another product with an unknown reason does not cut the one before it")
    func replacement() throws {
        let other = V2Action.upgradeRow.with(["transactionReason": "SOMETHING_NEW"])
        let subscription = try MemoryLedger(
            arriving: [
                V2Body("SUBSCRIBED", "INITIAL_BUY", at: "2018-02-20", V2Action.rowA, V2Action.on),
                V2Body("SOMETHING_NEW", at: "2018-03-01", other, V2Action.on),
            ].map { try $0.event() }
        ).subscription()

        #expect(subscription.access.map(\.cut) == [nil, nil])
    }
}
