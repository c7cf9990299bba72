import AppStore
import Encoding
import Subscriptions
import Testing

@Suite("Unknown and undocumented content of signed notifications")
struct V2OddBodyTests {
    private let body = V2FieldTests.body

    @Test("unknown fields are kept and listed at every level")
    func unknownFields() throws {
        let event = try body.changing {
            $0.payload["newOuter"] = "1st"
            $0.payload["data", "newData"] = ["a": "2nd"]
            $0.transaction?["newTransaction"] = ["3rd", 4]
            $0.renewal?["newRenewal"] = "5th"
        }.event()

        #expect(try written("newOuter", of: event) == ["\"1st\""])
        #expect(try written("newData", of: event) == [#"{"a":"2nd"}"#])
        #expect(try written("newTransaction", of: event) == [#"["3rd",4]"#])
        #expect(try written("newRenewal", of: event) == ["\"5th\""])
        #expect(event.unknownFields.count == 4)
        for name in ["newOuter", "newData", "newTransaction", "newRenewal"] {
            #expect(event.unknownFields.contains { $0.split(separator: ".").last == Substring(name) }, "\(name)")
        }
        #expect(event.defects == [])
    }

    @Test(
        "unknown fields of other subjects are kept and listed", arguments: Unknown.elsewhere)
    func unknownFieldsElsewhere(unknown: Unknown) throws {
        let event = try unknown.body.event()

        #expect(try written("new", of: event) == ["\"value\""])
        #expect(event.unknownFields.count == 1)
        #expect(event.unknownFields.first?.hasSuffix("new") == true)
    }

    @Test("a notification about an unknown subject keeps all fields")
    func newSubject() throws {
        let event = try V2Body(
            "SOMETHING_NEW", at: "2024-06-01", about: "newData",
            ["bundleId": .text(testBundle), "environment": "Sandbox", "amount": 7]
        ).event()

        #expect(event.kind == .other)
        #expect(event.type == "SOMETHING_NEW")
        #expect(try written("amount", of: event) == ["7"])
        #expect(event.unknownFields.contains { $0.hasPrefix("newData") })
    }

    @Test("dates with a fraction, as Xcode signs them, are read to the millisecond before")
    func fractions() throws {
        let event = try body.changing {
            $0.payload["signedDate"] = .raw("1740816001000.25")
            $0.transaction?["purchaseDate"] = .raw("1740816000049.7297")
            $0.transaction?["expiresDate"] = .raw("1743494400049.9999")
            $0.transaction?["revocationDate"] = 0
        }.event()

        let transaction = try #require(event.transactions.first)
        #expect(event.occurredAt?.milliseconds == 1_740_816_001_000)
        #expect(transaction.purchaseDate?.milliseconds == 1_740_816_000_049)
        #expect(transaction.expiresDate?.milliseconds == 1_743_494_400_049)
        #expect(transaction.revocationDate == nil && transaction.statesRevocation)
        #expect(event.defects.map(\.path) == ["data.signedTransactionInfo.revocationDate"])
    }

    @Test("a subscription that renews and states no end is a defect")
    func withoutEnd() throws {
        let event = try body.changing { $0.transaction?["expiresDate"] = nil }.event()

        #expect(event.defects.map(\.path) == ["data.signedTransactionInfo.expiresDate"])
    }

    @Test("grace that has begun without an end is a defect, and nothing else in that body is")
    func graceWithoutEnd() throws {
        let row = V2Action.failureAfterUpgrade[2]

        let event = try row.changing { $0.renewal?["gracePeriodExpiresDate"] = nil }.event()

        #expect(try row.event().defects == [])
        #expect(
            event.defects == [
                Defect(
                    path: "data.signedRenewalInfo.gracePeriodExpiresDate",
                    problem: "is missing although grace has begun, so that it gives no access")
            ])
        #expect(event.renewals.map(\.gracePeriodExpiresDate) == [nil])
    }

    @Test(
        "a status that says that access is over is a defect if the transaction ends later",
        arguments: [(1, false), (2, true), (3, false), (4, false), (5, true)])
    func statusBeforeTheEnd(status: Int64, isDefect: Bool) throws {
        let year = V2Action.failureAfterUpgrade[0]
        let start = year.transaction?["purchaseDate"]

        let ahead = try year.changing { $0.payload["data", "status"] = .raw(String(status)) }.event()
        let over = try year.changing {
            $0.payload["data", "status"] = .raw(String(status))
            $0.transaction?["expiresDate"] = start
        }.event()

        #expect(ahead.defects.map(\.path) == (isDefect ? ["data.status"] : []))
        #expect(ahead.renewals.map(\.endedStatus) == [isDefect ? Int(status) : nil])
        #expect(over.renewals.map(\.endedStatus) == [nil])
        #expect(!over.defects.contains { $0.path == "data.status" })
    }

    @Test(
        "without a status, the type says that access is over; a status of a running subscription counts before the type",
        arguments: [("EXPIRED", nil, 2), ("EXPIRED", 1, nil), ("DID_FAIL_TO_RENEW", nil, nil), ("EXPIRED", 6, 2)]
            as [(String, Int64?, Int?)])
    func typeBeforeTheEnd(type: String, status: Int64?, ended: Int?) throws {
        let event = try V2Action.failureAfterUpgrade[0].changing {
            $0.payload["notificationType"] = .text(type)
            $0.payload["data", "status"] = status.map { .raw(String($0)) }
        }.event()

        #expect(event.renewals.map(\.endedStatus) == [ended])
        #expect(event.defects.contains { $0.path == "data.status" } == (ended != nil))
    }

    @Test(
        "grace that is over before its stated end is a defect, unless the customer switched renewal off",
        arguments: [(nil, 3), (3, 3), (2, 2), (4, nil), (1, nil)] as [(Int64?, Int?)])
    func graceOver(status: Int64?, ended: Int?) throws {
        let body = V2Action.failureAfterUpgrade[2].changing {
            $0.payload["notificationType"] = "GRACE_PERIOD_EXPIRED"
            $0.payload["subtype"] = nil
            $0.payload["data", "status"] = status.map { .raw(String($0)) }
        }
        let event = try body.event()
        let atItsEnd = try body.changing { $0.renewal?["gracePeriodExpiresDate"] = ms("2018-12-20") }.event()
        let off = try body.changing { $0.renewal?["autoRenewStatus"] = 0 }.event()
        let undated = try body.changing { $0.renewal?["gracePeriodExpiresDate"] = nil }.event()

        #expect(event.renewals.map(\.endedStatus) == [ended])
        #expect(event.defects.map(\.path) == (ended == nil ? [] : ["data.status"]))
        // Nothing contradicts it in the same body, and an earlier one may have.
        #expect(undated.renewals.map(\.endedStatus) == [ended] && undated.defects.isEmpty)
        for other in [atItsEnd, off] {
            #expect(other.renewals.map(\.endedStatus) == [nil] && other.defects.isEmpty)
        }
    }

    @Test("a status that says that access is over counts without renewal info")
    func endedWithoutRenewal() throws {
        let event = try V2Action.failureAfterUpgrade[0].changing {
            $0.renewal = nil
            $0.payload["data", "status"] = 2
        }.event()

        #expect(event.renewals.map(\.endedStatus) == [2])
        #expect(event.renewals.map(\.signedDate) == event.transactions.map(\.signedDate))
    }

    @Test(
        "a status of a running subscription counts without renewal info, if the stated end agrees",
        arguments: [
            ("1", "2019-01-20", true), ("\"1\"", "2019-01-20", true), ("1", "2018-11-20", false),
            ("4", "2019-01-20", false),
        ])
    func runningWithoutRenewal(status: String, end: String, isStated: Bool) throws {
        let body = V2Body(
            "DID_CHANGE_RENEWAL_STATUS", at: "2018-12-20", v2Row("1000000000000009", "2018-10-20", end),
            data: ["status": .raw(status)])
        let refunded = body.changing { $0.transaction?["revocationDate"] = ms("2018-12-10") }

        let event = try body.event()

        #expect(event.renewals.map(\.originalTransactionId) == (isStated ? [testSubscription] : []))
        #expect(event.renewals.allSatisfy { $0.signedDate == day("2018-12-20") && $0.endedStatus == nil })
        #expect(event.defects == [])
        #expect(try refunded.event().renewals.isEmpty)
    }

    @Test("unknown values of known fields are kept with their spelling")
    func unknownValues() throws {
        let event = try body.changing {
            $0.transaction?["type"] = "Timed Lease"
            $0.transaction?["revocationType"] = "SOMETHING_NEW"
            $0.transaction?["offerType"] = 99
            $0.transaction?["inAppOwnershipType"] = "LENT"
            $0.renewal?["expirationIntent"] = 77
        }.event()

        #expect(event.transactions.first?.type == "Timed Lease")
        #expect(event.transactions.first?.revocationType == "SOMETHING_NEW")
        #expect(event.transactions.first?.offerType == 99)
        #expect(event.transactions.first?.inAppOwnershipType == "LENT")
        #expect(event.renewals.first?.expirationIntent == 77)
    }

    @Test("the nil UUID as account token stays in the transaction and the renewal, each with a defect")
    func nilAccountToken() throws {
        let none = "00000000-0000-0000-0000-000000000000"
        let event = try body.changing {
            $0.transaction?["appAccountToken"] = .text(none)
            $0.renewal?["appAccountToken"] = .text(none)
        }.event()

        #expect(event.transactions.map(\.appAccountToken) == [none])
        #expect(event.renewals.map(\.appAccountToken) == [none])
        #expect(
            Set(event.defects.map(\.path)) == [
                "data.signedTransactionInfo.appAccountToken", "data.signedRenewalInfo.appAccountToken",
            ])
        #expect(event.defects.allSatisfy { $0.problem == "is the nil UUID, which identifies no account" })
    }

    static let transactionFields = [
        "webOrderLineItemId", "productId", "subscriptionGroupIdentifier", "purchaseDate", "originalPurchaseDate",
        "expiresDate", "quantity", "type", "appAccountToken", "inAppOwnershipType", "signedDate", "revocationDate",
        "revocationReason", "revocationType", "revocationPercentage", "isUpgraded", "offerType", "offerIdentifier",
        "offerDiscountType", "offerPeriod", "storefront", "storefrontId", "transactionReason", "price", "currency",
        "appTransactionId", "previousOriginalTransactionId", "billingPlanType",
    ]

    @Test(
        "a transaction field of the wrong type is a defect, and the rest is decoded", arguments: transactionFields,
        [JSON.raw("{}"), .raw("[1]")])
    func wrongTransactionField(key: String, value: JSON) throws {
        let event = try body.changing { $0.transaction?[key] = value }.event()
        let without = try body.changing { $0.transaction?[key] = nil }.event()

        #expect(event.defects.count == 1)
        #expect(event.defects.first?.path.hasSuffix(key) == true, "\(event.defects)")
        let read = try #require(event.transactions.first)
        // What decides how access ends is as unknown as a newer value.
        var expected = without.transactions.first?.comparable
        if key == "revocationType" { expected?.revocationType = Transaction.unreadable }
        if key == "inAppOwnershipType" { expected?.inAppOwnershipType = Transaction.unreadable }
        #expect(read.comparable == expected)
        // An unreadable value states nothing; only an absent revocation states that there is none.
        #expect(read.statesRevocation == !["revocationDate", "isUpgraded"].contains(key))
        #expect(event.renewals == without.renewals)
    }

    static let renewalFields = [
        "productId", "autoRenewProductId", "autoRenewStatus", "expirationIntent", "isInBillingRetryPeriod",
        "gracePeriodExpiresDate", "priceIncreaseStatus", "offerType", "offerIdentifier", "offerDiscountType",
        "offerPeriod", "recentSubscriptionStartDate", "renewalDate", "currency", "renewalPrice",
        "eligibleWinBackOfferIds", "appAccountToken", "appTransactionId", "signedDate", "renewalBillingPlanType",
    ]

    @Test("a renewal field of the wrong type is a defect, and the rest is decoded", arguments: renewalFields)
    func wrongRenewalField(key: String) throws {
        let event = try body.changing { $0.renewal?[key] = .raw("{}") }.event()
        let without = try body.changing { $0.renewal?[key] = nil }.event()

        #expect(event.defects.count == 1)
        #expect(event.defects.first?.path.hasSuffix(key) == true, "\(event.defects)")
        #expect(event.renewals == without.renewals)
        #expect(event.transactions == without.transactions)
    }

    @Test(
        "an invalid date or number is a defect",
        arguments: [
            ("expiresDate", "-1"), ("expiresDate", "1e400"), ("expiresDate", "99999999999999999999"),
            ("expiresDate", "\"soon\""), ("expiresDate", "true"), ("price", "1e400"),
            ("price", "9223372036854775808"), ("price", "\"free\""), ("quantity", "\"one\""), ("quantity", "1.5"),
        ])
    func absurd(key: String, value: String) throws {
        let event = try body.changing { $0.transaction?[key] = .raw(value) }.event()

        #expect(event.defects.contains { $0.path.hasSuffix(key) })
        #expect(event.transactions.count == 1)
        #expect(event.defects.allSatisfy { !$0.problem.contains(value) })
    }

    @Test("a null field counts as absent", arguments: transactionFields)
    func null(key: String) throws {
        let event = try body.changing { $0.transaction?[key] = .raw("null") }.event()
        let without = try body.changing { $0.transaction?[key] = nil }.event()

        #expect(event.transactions == without.transactions)
        #expect(event.defects == without.defects)
    }

    @Test(
        "a transaction without an id is a defect, and the notification is kept",
        arguments: [nil, JSON.raw("{}"), ""] as [JSON?])
    func noTransactionId(value: JSON?) throws {
        let event = try body.changing { $0.transaction?["transactionId"] = value }.event()

        #expect(event.transactions.isEmpty)
        #expect(event.defects.contains { $0.path.hasSuffix("transactionId") })
        #expect(event.renewals.count == 1)
    }

    @Test("a notification without a signing time keeps its facts")
    func noSignedDate() throws {
        let event = try body.changing { $0.payload["signedDate"] = nil }.event()

        #expect(event.occurredAt == event.transactions.first?.signedDate)
        #expect(event.transactions.count == 1)
        #expect(event.renewals.count == 1)
        #expect(event.type == "DID_RENEW")
    }

    @Test(
        "an event with an unreadable type keeps its facts", arguments: [JSON.raw("[]"), .raw("{}"), ""])
    func unreadableType(value: JSON) throws {
        let event = try body.changing { $0.payload["notificationType"] = value }.event()

        #expect(event.type == nil)
        #expect(event.kind == .other)
        #expect(event.transactions.count == 1)
        #expect(event.defects.contains { $0.path.hasSuffix("notificationType") })
    }

    @Test(
        "a signed object without a type is rejected as not a notification",
        arguments: [nil, JSON.raw("null")] as [JSON?])
    func noType(value: JSON?) async {
        let body = body.changing { $0.payload["notificationType"] = value }

        #expect(throws: UndecodableBody.notANotification) { try AppleNotification(decoding: body.unsigned) }
        #expect(await V2Receiver().refusal(body.signed()) == .undecodable(.notANotification))
        #expect(Refusal.undecodable(.notANotification).label == "not_a_notification")
    }

    @Test(
        "a signed part that is not a string is a defect", arguments: ["signedTransactionInfo", "signedRenewalInfo"],
        ["7", "{}"])
    func partThatIsNoText(key: String, value: String) throws {
        let event = try V2Body("DID_RENEW", at: "2024-06-01").changing { $0.payload["data", key] = .raw(value) }.event()

        #expect(event.transactions.isEmpty && event.renewals.isEmpty)
        #expect(event.defects.contains { $0.path.hasSuffix(key) })
    }

    @Test("the last of several equal members is used, or the repetition is a defect")
    func repeated() throws {
        let row = JSON.object([
            ("transactionId", "2"), ("originalTransactionId", .text(testSubscription)), ("price", 1), ("price", 2),
        ])
        let event = try V2Body("DID_RENEW", at: "2024-06-01").changing { $0.transaction = row }.event()

        #expect(event.transactions.first?.price == 2 || !event.defects.isEmpty)
    }

    @Test("an event with data that is not an object has no app", arguments: ["[]", "1", "\"a\"", "null"])
    func noData(value: String) throws {
        let event = try V2Body("TEST", at: "2024-06-01").changing { $0.payload["data"] = .raw(value) }.event()

        #expect(event.app == nil)
        #expect(event.kind == .test)
    }

    @Test("a payload with only a type is decoded to an empty event")
    func empty() throws {
        let body = envelope(unsignedJWS(["notificationType": "TEST"]))

        let event = try AppleNotification(decoding: body).event(receivedAt: day("2026-01-01"))

        #expect(event.app == nil && event.kind == .test && event.transactions.isEmpty && event.renewals.isEmpty)
        #expect(event.environment == .unknown)
    }
}

/// A field that was added after this version, in one place.
struct Unknown: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var body: V2Body

    private init(_ place: String, _ body: V2Body, _ change: (inout V2Body) -> Void) {
        testDescription = place
        self.body = body.changing(change)
    }

    static let elsewhere: [Unknown] = [
        Unknown(
            "summary", V2Body("RENEWAL_EXTENSION", "SUMMARY", at: "2024-06-01", about: "summary", V2TypeRow.summary)
        ) {
            $0.payload["summary", "new"] = "value"
        },
        Unknown(
            "externalPurchaseToken",
            V2Body("EXTERNAL_PURCHASE_TOKEN", at: "2024-06-01", about: "externalPurchaseToken", V2TypeRow.token)
        ) { $0.payload["externalPurchaseToken", "new"] = "value" },
        Unknown("appData", rescinded(at: "2024-06-01")) { $0.payload["appData", "new"] = "value" },
        Unknown("signedAppTransactionInfo", rescinded(at: "2024-06-01")) { $0.appTransaction?["new"] = "value" },
    ]
}

extension Transaction {
    /// Without the flag whether it states a revocation.
    fileprivate var comparable: Transaction {
        var copy = self
        copy.statesRevocation = true
        return copy
    }
}
