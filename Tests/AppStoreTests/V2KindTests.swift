import AppStore
import Subscriptions
import Testing

/// A row of Apple's table of notification types.
struct V2TypeRow: Sendable, CustomTestStringConvertible {
    var type: String
    var subtype: String?
    var kind: EventKind
    var body: V2Body

    var testDescription: String { [type, subtype].compactMap { $0 }.joined(separator: "/") }

    private init(_ kind: EventKind, _ type: String, _ subtype: String?, _ body: V2Body) {
        (self.kind, self.type, self.subtype, self.body) = (kind, type, subtype, body)
    }

    private static let date = "2024-06-01"
    private static let row = v2Row("2000000000000002", "2024-06-01", "2024-07-01")

    private static func line(
        _ kind: EventKind, _ type: String, _ subtype: String? = nil, row: JSON = row, renewal: JSON? = v2Renewal(),
        data: KeyValuePairs<String, JSON> = ["status": 1]
    ) -> V2TypeRow {
        V2TypeRow(kind, type, subtype, V2Body(type, subtype, at: date, row, renewal, data: data))
    }

    static let lines: [V2TypeRow] = [
        line(.purchase, "SUBSCRIBED", "INITIAL_BUY"),
        line(.purchase, "SUBSCRIBED", "RESUBSCRIBE"),
        line(.planChange, "DID_CHANGE_RENEWAL_PREF", "UPGRADE"),
        line(.planChange, "DID_CHANGE_RENEWAL_PREF", "DOWNGRADE", renewal: v2Renewal(next: premium)),
        line(.planChange, "DID_CHANGE_RENEWAL_PREF"),
        line(.autoRenewChange, "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED"),
        line(
            .autoRenewChange, "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", renewal: v2Renewal(autoRenew: false)),
        line(.autoRenewChange, "DID_CHANGE_RENEWAL_STATUS", renewal: v2Renewal(autoRenew: false)),
        line(.offer, "OFFER_REDEEMED"),
        line(.renewal, "DID_RENEW"),
        line(.recovery, "DID_RENEW", "BILLING_RECOVERY"),
        line(.expiration, "EXPIRED", "VOLUNTARY"),
        line(.expiration, "EXPIRED", "BILLING_RETRY"),
        line(.expiration, "EXPIRED", "PRICE_INCREASE"),
        line(.expiration, "EXPIRED", "PRODUCT_NOT_FOR_SALE"),
        line(.expiration, "EXPIRED"),
        line(.renewalFailure, "DID_FAIL_TO_RENEW", renewal: v2Renewal().failing()),
        line(
            .renewalFailure, "DID_FAIL_TO_RENEW", "GRACE_PERIOD", renewal: v2Renewal().failing(graceUntil: "2024-07-17")
        ),
        line(.graceEnd, "GRACE_PERIOD_EXPIRED", renewal: v2Renewal().failing()),
        line(.priceConsent, "PRICE_INCREASE", "PENDING", renewal: v2Renewal().with(["priceIncreaseStatus": 0])),
        line(.priceConsent, "PRICE_INCREASE", "ACCEPTED", renewal: v2Renewal().with(["priceIncreaseStatus": 1])),
        line(.priceChange, "PRICE_CHANGE"),
        line(.metadataUpdate, "METADATA_UPDATE"),
        line(.migration, "MIGRATION", row: row.with(["previousOriginalTransactionId": "1999"])),
        line(.migration, "MIGRATE", row: row.with(["previousOriginalTransactionId": "1999"])),
        line(.refund, "REFUND", row: row.refunded("2024-06-01")),
        line(.refundDeclined, "REFUND_DECLINED"),
        line(.refundReversal, "REFUND_REVERSED"),
        line(
            .consumptionRequest, "CONSUMPTION_REQUEST", renewal: nil,
            data: ["consumptionRequestReason": "UNINTENDED_PURCHASE"]),
        line(.extension, "RENEWAL_EXTENDED"),
        line(.extensionReport, "RENEWAL_EXTENSION", "FAILURE"),
        line(.revoke, "REVOKE", row: row.refunded("2024-06-01").with(["inAppOwnershipType": "FAMILY_SHARED"])),
        line(.purchase, "ONE_TIME_CHARGE", row: v2Purchase("3", "2024-06-01", type: "Consumable"), renewal: nil),
        // Not in the table: added after this version.
        line(.other, "SOMETHING_NEW"),
        line(.other, "SOMETHING_NEW", "OF_A_KIND"),
        line(.renewal, "DID_RENEW", "SOMETHING_NEW"),
        line(.purchase, "SUBSCRIBED", "SOMETHING_NEW"),
        line(.expiration, "EXPIRED", "SOMETHING_NEW"),
    ]

    /// An offer that changes the plan may count as an offer or as a change of plan.
    static let offers: [V2TypeRow] = [
        line(.planChange, "OFFER_REDEEMED", "UPGRADE"), line(.planChange, "OFFER_REDEEMED", "DOWNGRADE"),
    ]

    static let summary: JSON = [
        "requestIdentifier": "758883e8-151b-47b7-abd0-60c4d804c2f5", "environment": "Production",
        "appAppleId": .raw(String(testAppleId)), "bundleId": .text(testBundle), "productId": .text(monthly),
        "storefrontCountryCodes": ["JPN", "USA"], "succeededCount": 5_000_000_000, "failedCount": 2,
    ]

    static let token: JSON = [
        "externalPurchaseId": "b2158121-7af9-49d4-9561-1f588205523e", "tokenCreationDate": 1_698_148_950_000,
        "appAppleId": .raw(String(testAppleId)), "bundleId": .text(testBundle),
        "tokenExpirationDate": 1_700_000_000_000, "tokenType": "ACQUISITION",
    ]

    private static func tokenRow(_ subtype: String) -> V2TypeRow {
        V2TypeRow(
            .externalPurchase, "EXTERNAL_PURCHASE_TOKEN", subtype,
            V2Body("EXTERNAL_PURCHASE_TOKEN", subtype, at: date, about: "externalPurchaseToken", token))
    }

    /// Types without a purchase.
    static let others: [V2TypeRow] = [
        V2TypeRow(
            .extensionReport, "RENEWAL_EXTENSION", "SUMMARY",
            V2Body("RENEWAL_EXTENSION", "SUMMARY", at: date, about: "summary", summary)),
        tokenRow("UNREPORTED"), tokenRow("CREATED"), tokenRow("ACTIVE_TOKEN_REMINDER"),
        V2TypeRow(.consentRescinded, "RESCIND_CONSENT", nil, rescinded(at: date)),
        V2TypeRow(.test, "TEST", nil, V2Body("TEST", at: date)),
    ]
}

@Suite("Types of signed notifications")
struct V2KindTests {
    @Test(
        "every type and subtype of Apple's table has its kind, and unknown ones keep their spelling",
        arguments: V2TypeRow.lines + V2TypeRow.others)
    func kinds(row: V2TypeRow) throws {
        let event = try row.body.event()

        #expect(event.kind == row.kind)
        #expect(event.type == row.type)
        #expect(event.subtype == row.subtype)
        #expect(event.source == .appleV2)
        #expect(event.app == testBundle)
        #expect(event.environment == .production)
        #expect(event.occurredAt == day("2024-06-01"))
        #expect(event.defects == [])
        #expect(event.unknownFields == [])
    }

    @Test("an offer that changes the plan has kind offer or planChange", arguments: V2TypeRow.offers)
    func offers(row: V2TypeRow) throws {
        let event = try row.body.event()

        #expect([.offer, .planChange].contains(event.kind))
        #expect(event.subtype == row.subtype)
    }

    @Test("signed parts become facts for every type", arguments: V2TypeRow.lines + V2TypeRow.offers)
    func facts(row: V2TypeRow) throws {
        let event = try row.body.event()

        #expect(event.transactions.map(\.transactionId) == [try #require(row.body.transaction?["transactionId"]).plain])
        #expect(event.renewals.map(\.originalTransactionId) == (row.body.renewal == nil ? [] : [testSubscription]))
        #expect(event.transactions.allSatisfy { $0.signedDate == day("2024-06-01") && $0.statesRevocation })
    }

    @Test("notifications without a purchase have no facts", arguments: V2TypeRow.others)
    func noFacts(row: V2TypeRow) throws {
        let event = try row.body.event()

        #expect(event.transactions.isEmpty)
        #expect(event.renewals.isEmpty)
    }

    @Test("an empty or null subtype is absent", arguments: [JSON.text(""), nil] as [JSON?])
    func emptySubtype(value: JSON?) throws {
        let body = V2Body("DID_RENEW", at: "2024-06-01").changing { $0.payload["subtype"] = value ?? .raw("null") }

        let event = try body.event()

        #expect(event.subtype == nil)
        #expect(event.kind == .renewal)
    }

    @Test(
        "a sandbox token is recognized by its prefix",
        arguments: [
            ("SANDBOX_b2158121", Environment.sandbox), ("SANDBOX", .sandbox), ("b2158121", .production),
            ("x-SANDBOX", .production), ("", .production),
        ])
    func tokens(id: String, environment: Environment) throws {
        let token = V2TypeRow.token.with(["externalPurchaseId": .text(id)])

        let event = try V2Body(
            "EXTERNAL_PURCHASE_TOKEN", "CREATED", at: "2024-06-01", about: "externalPurchaseToken", token
        ).event()

        #expect(event.environment == environment)
        #expect(event.app == testBundle)
    }

    @Test(
        "the environment is read from every kind of subject",
        arguments: [
            ("Sandbox", Environment.sandbox), ("Xcode", .xcode), ("LocalTesting", .localTesting), ("?", .unknown),
        ])
    func environments(name: String, environment: Environment) throws {
        let summary = V2TypeRow.summary.with(["environment": .text(name)])
        let extended = V2Body("RENEWAL_EXTENSION", "SUMMARY", at: "2024-06-01", about: "summary", summary)

        #expect(try V2Body("TEST", at: "2024-06-01", environment: name).event().environment == environment)
        #expect(try rescinded(at: "2024-06-01", environment: name).event().environment == environment)
        #expect(try extended.event().environment == environment)
    }
}

extension JSON {
    /// The value of the text or number.
    var plain: String {
        switch self {
        case .text(let text): text
        default: written
        }
    }
}
