import AppStore
import Foundation
import Simulation
import Subscriptions
import Testing

/// The parts of a body of version 2, split without checking signatures.
struct SignedBody {
    let outer: SplitJWS
    let payload: [String: Any]

    init(_ body: [UInt8]) throws {
        let object = try #require(try JSONSerialization.jsonObject(with: Data(body)) as? [String: Any])
        try #require(object.count == 1)
        let text = try #require(object["signedPayload"] as? String)
        outer = try SplitJWS(text.utf8)
        payload = try outer.json
    }

    var data: [String: Any] { payload["data"] as? [String: Any] ?? [:] }

    func inner(_ key: String) throws -> SplitJWS {
        try SplitJWS(try #require(data[key] as? String).utf8)
    }
}

@Suite("Bodies have Apple's form")
struct RenderingTests {
    private func body(_ life: SubscriptionLife, _ number: Int) throws -> SignedBody {
        let notification = try #require(
            life.notifications[number].version2Notification(app: testApp, customer: life.customer))
        return try SignedBody(notification.body(JWSSigner(.standard)))
    }

    private func grace() -> SubscriptionLife {
        var life = newLife()
        life.subscribe(to: monthly, at: day("2025-02-20"), offer: Offer(.introductory, "FREE_TRIAL", period: "P1W"))
        life.renew()
        life.failToRenew(graceDays: 16)
        return life
    }

    @Test("version 2: the notification, the transaction and the renewal info are signed separately")
    func version2() throws {
        let life = grace()

        let body = try body(life, 2)

        let key = TestCertificates.standard.leafKey.publicKey
        #expect(body.outer.isSigned(by: key))
        #expect(body.payload["notificationType"] as? String == "DID_FAIL_TO_RENEW")
        #expect(body.payload["subtype"] as? String == "GRACE_PERIOD")
        #expect(body.payload["version"] as? String == "2.0")
        #expect(body.payload["signedDate"] as? Int64 == day("2025-03-27").milliseconds)
        #expect(body.payload["notificationUUID"] as? String == life.notifications[2].notificationUUID)
        #expect(body.data["status"] as? Int == 4)
        #expect(body.data["bundleId"] as? String == testApp.bundleId)
        #expect(body.data["appAppleId"] as? Int64 == 1_400_000_001)
        #expect(body.data["environment"] as? String == "Production")
        let transaction = try body.inner("signedTransactionInfo")
        let renewal = try body.inner("signedRenewalInfo")
        #expect(transaction.isSigned(by: key) && renewal.isSigned(by: key))
        #expect(transaction.header == body.outer.header)
        #expect(try renewal.json["gracePeriodExpiresDate"] as? Int64 == day("2025-04-12").milliseconds)
        #expect(try renewal.json["isInBillingRetryPeriod"] as? Bool == true)
        #expect(try renewal.json["autoRenewStatus"] as? Int == 1)
        #expect(try renewal.json["expirationIntent"] as? Int == 2)
    }

    @Test("version 2: a transaction contains the fields of its purchase")
    func transaction() throws {
        let life = grace()

        let trial = try body(life, 0).inner("signedTransactionInfo").json
        let renewal = try body(life, 1).inner("signedTransactionInfo").json

        #expect(trial["transactionId"] as? String == life.originalTransactionId)
        #expect(trial["type"] as? String == "Auto-Renewable Subscription")
        #expect(trial["offerType"] as? Int == 1)
        #expect(trial["offerDiscountType"] as? String == "FREE_TRIAL")
        #expect(trial["offerPeriod"] as? String == "P1W")
        #expect(trial["price"] as? Int64 == 0)
        #expect(trial["transactionReason"] as? String == "PURCHASE")
        #expect(renewal["originalTransactionId"] as? String == life.originalTransactionId)
        #expect(renewal["transactionId"] as? String == life.purchases[1].transactionId)
        #expect(renewal["transactionReason"] as? String == "RENEWAL")
        #expect(renewal["purchaseDate"] as? Int64 == day("2025-02-27").milliseconds)
        #expect(renewal["expiresDate"] as? Int64 == day("2025-03-27").milliseconds)
        #expect(renewal["originalPurchaseDate"] as? Int64 == day("2025-02-20").milliseconds)
        #expect(renewal["inAppOwnershipType"] as? String == "PURCHASED")
        #expect(renewal["storefront"] as? String == "JPN")
        #expect(renewal["currency"] as? String == "JPY")
        // 2.99 * 3 / 2 dollars at 150 yen, in thousandths of a yen and whole tens of yen.
        #expect(renewal["price"] as? Int64 == 670_000)
        #expect(renewal["offerType"] == nil && renewal["revocationDate"] == nil && renewal["isUpgraded"] == nil)
    }

    @Test("version 2: a refund contains date, reason, type and percentage; the reversal contains none of them")
    func refund() throws {
        var life = grace()
        life.recover(at: day("2025-04-01"))
        let id = life.purchases[1].transactionId
        life.refund(id, at: day("2025-04-02"))
        life.reverseRefund(of: id, at: day("2025-04-05"))

        let refund = try body(life, 4).inner("signedTransactionInfo").json
        let reversal = try body(life, 5).inner("signedTransactionInfo").json

        #expect(refund["transactionId"] as? String == id)
        #expect(refund["revocationDate"] as? Int64 == day("2025-04-02").milliseconds)
        #expect(refund["revocationType"] as? String == "REFUND_FULL")
        #expect(refund["revocationPercentage"] as? Int == 100_000)
        #expect(reversal["transactionId"] as? String == id)
        #expect(reversal.keys.allSatisfy { !$0.hasPrefix("revocation") })
    }

    @Test("version 2: summary and externalPurchaseToken replace data")
    func otherContents() throws {
        let summary = V2Summary(
            app: testApp, requestIdentifier: "r-1", productId: monthly.id, storefrontCountryCodes: ["JPN", "USA"],
            succeededCount: 5, failedCount: 1)
        var notification = V2Notification(
            "RENEWAL_EXTENSION", "SUMMARY", notificationUUID: "u-1", signedDate: day("2025-02-20"),
            content: .summary(summary))

        let first = try SignedBody(notification.body(JWSSigner(.standard))).payload
        notification.content = .externalPurchaseToken(json: Array("{\"externalPurchaseId\":\"SANDBOX_1\"}".utf8))
        let second = try SignedBody(notification.body(JWSSigner(.standard))).payload

        let object = try #require(first["summary"] as? [String: Any])
        #expect(object["storefrontCountryCodes"] as? [String] == ["JPN", "USA"])
        #expect(object["succeededCount"] as? Int == 5)
        #expect(first["data"] == nil && second["summary"] == nil)
        #expect((second["externalPurchaseToken"] as? [String: String]) == ["externalPurchaseId": "SANDBOX_1"])
    }

    @Test("version 1: a snapshot of the subscription, newest purchase first, decodes without defects")
    func version1() throws {
        let life = grace()
        let receipt = ReceiptSeal(seed: 7).receipt(
            of: SimulatedAccount.Key(story: 0, number: 0), app: testApp, createdAt: day("2025-03-27"))

        let body = try #require(
            life.notifications[2].version1Body(app: testApp, customer: life.customer, latestReceipt: receipt))

        #expect((17_000...25_000).contains(body.count))
        let event = try AppleNotification(decoding: body).event(receivedAt: day("2025-03-28"))
        #expect(event.defects.isEmpty)
        #expect(event.app == testApp.bundleId && event.environment == .production)
        #expect(event.type == "DID_FAIL_TO_RENEW")
        #expect(event.occurredAt == day("2025-03-27"))
        #expect(event.transactions.map(\.transactionId) == life.purchases.reversed().map(\.transactionId))
        #expect(event.transactions.map(\.isTrialPeriod) == [false, true])
        #expect(event.renewals.map(\.gracePeriodExpiresDate) == [day("2025-04-12")])
        let json = try #require(try JSONSerialization.jsonObject(with: Data(body)) as? [String: Any])
        #expect(json["environment"] as? String == "PROD")
        #expect(json["password"] as? String == testApp.sharedSecret)
        let unified = try #require(json["unified_receipt"] as? [String: Any])
        #expect((unified["latest_receipt"] as? String)?.count == testApp.receiptCharacters)
    }

    @Test("version 1: a replaced purchase is cancelled and marked as upgraded")
    func version1Upgrade() throws {
        var life = newLife()
        life.subscribe(to: monthly, at: day("2025-02-20"))
        life.upgrade(to: premium, at: day("2025-03-01"))

        let body = try #require(life.notifications[1].version1Body(app: testApp, customer: life.customer))

        let event = try AppleNotification(decoding: body).event(receivedAt: day("2025-03-02"))
        #expect(event.transactions.map(\.isUpgraded) == [false, true])
        #expect(event.transactions.map(\.revocationDate) == [nil, day("2025-03-01")])
    }

    @Test(
        "version 1: an instant has three renderings, with daylight saving time in California",
        arguments: [
            ("2019-11-08T08:13:55Z", "2019-11-08 08:13:55 Etc/GMT", "2019-11-08 00:13:55 America/Los_Angeles"),
            ("2025-03-09T09:59:59Z", "2025-03-09 09:59:59 Etc/GMT", "2025-03-09 01:59:59 America/Los_Angeles"),
            ("2025-03-09T10:00:00Z", "2025-03-09 10:00:00 Etc/GMT", "2025-03-09 03:00:00 America/Los_Angeles"),
            ("2025-11-02T08:59:59Z", "2025-11-02 08:59:59 Etc/GMT", "2025-11-02 01:59:59 America/Los_Angeles"),
            ("2025-11-02T09:00:00Z", "2025-11-02 09:00:00 Etc/GMT", "2025-11-02 01:00:00 America/Los_Angeles"),
            ("2026-01-01T00:00:00Z", "2026-01-01 00:00:00 Etc/GMT", "2025-12-31 16:00:00 America/Los_Angeles"),
        ])
    func dates(_ instant: String, _ gmt: String, _ pacific: String) {
        #expect(V1Date.gmt(day(instant)) == gmt)
        #expect(V1Date.pacific(day(instant)) == pacific)
    }
}
