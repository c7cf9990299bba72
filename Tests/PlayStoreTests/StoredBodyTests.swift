import Encoding
import Subscriptions
import TestSupport
import Testing

@testable import PlayStore

/// `subledger verify` decodes the stored body again, so nothing beside it may count.
@Suite("The stored body of any push or answer is the same event")
struct StoredBodyTests {
    private static let inputs = TestScale.count(6_000, full: 20_000)

    @Test("of a push, wrapped or not, with any headers")
    func pushes() throws {
        var random = TestSeed.generator()
        let apps = PushVerifier(apps: [PlayApp(packageName: "com.example.app", pushAuthentication: .none)])
        var decoded = 0
        for number in 0..<Self.inputs {
            let body = Self.push(&random)
            let headers = PushHeaders(
                messageId: Self.text(&random), publishTime: Self.text(&random), subscription: Self.text(&random))
            guard let message = try? PushMessage(decoding: body, headers: headers) else { continue }
            decoded += 1
            let again = try PushMessage(decoding: message.evidence.bytes)
            let problem: Comment = "input \(number): \(String(decoding: body, as: UTF8.self)) \(headers)"
            try #require(again.event() == message.event(), problem)
            try #require(again.event().dedupeKey == message.event().dedupeKey, problem)
            try #require(again.notification?.content == message.notification?.content, problem)
            try #require(again.isAmbiguous == message.isAmbiguous, problem)
            guard let push = try? apps.verify(message, authorization: nil, keys: .empty, now: TestKeys.now) else {
                continue
            }
            try #require(push.event == again.event() && push.bodyDigest == again.evidence.sha256, problem)
        }
        #expect(decoded > Self.inputs / 4)
    }

    @Test("of an answer of the Play Developer API")
    func answers() throws {
        var random = TestSeed.generator(1)
        let token = try #require(PurchaseToken("token-1"))
        var stated = 0
        for number in 0..<Self.inputs {
            let body = Self.answer(&random)
            let subject = PlayStatement.Subject(
                packageName: "com.example.app", purchaseToken: token,
                environment: [nil, .production, .sandbox].randomElement(using: &random) ?? nil)
            let resource = PlayResource.allCases.randomElement(using: &random) ?? .subscriptionV2
            guard
                let statement = try? PlayStatement.answer(
                    body, of: resource, about: subject, answeredAt: TestKeys.now)
            else { continue }
            stated += 1
            let again = try PlayStatement.event(
                decoding: statement.evidence.bytes, source: .googleAPI, environment: statement.stream.environment,
                answeredAt: TestKeys.now)
            let problem: Comment = "input \(number): \(String(decoding: body, as: UTF8.self))"
            try #require(again == statement.event && again.dedupeKey == statement.event.dedupeKey, problem)
        }
        #expect(stated > Self.inputs / 20)
    }

    // MARK: Inputs

    private static func text(_ random: inout SeededGenerator) -> String? {
        let texts = [
            nil, "", "1", "17129512956071616", "\u{0}", "\u{e9}", "e\u{301}", "\"\\", "2025-10-21T05:00:00.123Z",
            "projects/p/subscriptions/s", String(repeating: "x", count: 3000),
        ]
        return texts.randomElement(using: &random) ?? nil
    }

    /// A JSON value as text.
    private static func value(_ random: inout SeededGenerator) -> String {
        let values = [
            "null", "1", "-1", "1e400", "12345678901234567890123456789012345678901", "\"4\"", "4", "\"\"", "[]", "{}",
            "true", "\"\\u0000\"", "\"\\ud800\"", "\"token-1\"", "\"com.example.app\"", "\"1761022799877\"",
            "{\"version\":\"1.0\"}", "\"2026-11-01T00:00:00Z\"", "\"GPA.1\"",
        ]
        return values.randomElement(using: &random) ?? "null"
    }

    /// An object with some of the members, some of them twice or of another type.
    private static func object(
        _ members: [(name: String, usual: String)], _ random: inout SeededGenerator
    ) -> String {
        var written: [String] = []
        for (name, usual) in members where !random.chance(15) {
            written.append("\"\(name)\":\(random.chance(12) ? value(&random) : usual)")
            if random.chance(5) { written.append("\"\(name)\":\(value(&random))") }
        }
        if random.chance(20) { written.append("\"unknown\":\(value(&random))") }
        if random.chance(20) { written.shuffle(using: &random) }
        return "{\(written.joined(separator: ","))}"
    }

    private static func damage(_ bytes: inout [UInt8], _ random: inout SeededGenerator) {
        bytes[Int.random(in: bytes.indices, using: &random)] = UInt8.random(in: 0...255, using: &random)
    }

    private static func push(_ random: inout SeededGenerator) -> [UInt8] {
        let type = "\(Int.random(in: 0...30, using: &random))"
        let kinds = [
            (
                "subscriptionNotification",
                [("version", "\"1.0\""), ("notificationType", type), ("purchaseToken", "\"token-1\"")]
            ),
            (
                "oneTimeProductNotification",
                [("notificationType", type), ("purchaseToken", "\"token-1\""), ("sku", "\"coins\"")]
            ),
            (
                "voidedPurchaseNotification",
                [
                    ("purchaseToken", "\"token-1\""), ("orderId", "\"GPA.1\""), ("productType", "1"),
                    ("refundType", "1"),
                ]
            ),
            ("pendingRefundReviewNotification", [("orderId", "\"GPA.1\"")]), ("testNotification", []),
        ]
        let (kind, members) = kinds.randomElement(using: &random) ?? kinds[0]
        let notification = object(
            [
                ("version", "\"1.0\""), ("packageName", "\"com.example.app\""),
                ("eventTimeMillis", "\"1761022799877\""), (kind, object(members, &random)),
            ], &random)
        var data = Array(notification.utf8)
        if random.chance(5) { damage(&data, &random) }
        if random.chance(25) { return data }
        let message = object(
            [
                ("data", "\"\(Base64.text(data))\""), ("messageId", "\"1\""), ("message_id", "\"1\""),
                ("publishTime", "\"2025-10-21T05:00:00.123Z\""), ("publish_time", "\"2025-10-21T05:00:00.123Z\""),
            ], &random)
        var body = Array(
            object(
                [
                    ("message", message), ("subscription", "\"projects/p/subscriptions/s\""), ("deliveryAttempt", "1"),
                ], &random
            ).utf8)
        if random.chance(5) { damage(&body, &random) }
        return body
    }

    private static func answer(_ random: inout SeededGenerator) -> [UInt8] {
        let items = object(
            [
                ("productId", "\"gold\""), ("expiryTime", "\"2026-12-01T00:00:00Z\""),
                ("latestSuccessfulOrderId", "\"GPA.1\""), ("autoRenewingPlan", "{\"autoRenewEnabled\":true}"),
                ("offerDetails", "{\"basePlanId\":\"monthly\"}"),
            ], &random)
        return Array(
            object(
                [
                    ("kind", "\"androidpublisher#subscriptionPurchaseV2\""), ("startTime", "\"2026-11-01T00:00:00Z\""),
                    ("regionCode", "\"DE\""), ("subscriptionState", "\"SUBSCRIPTION_STATE_ACTIVE\""),
                    ("latestOrderId", "\"GPA.1\""), ("linkedPurchaseToken", "\"token-0\""),
                    ("acknowledgementState", "\"ACKNOWLEDGEMENT_STATE_ACKNOWLEDGED\""), ("testPurchase", "{}"),
                    ("externalAccountIdentifiers", "{\"obfuscatedExternalAccountId\":\"a\"}"),
                    ("lineItems", "[\(items)]"), ("purchaseTimeMillis", "\"1761022799877\""), ("purchaseState", "0"),
                    ("purchaseType", "0"), ("productLineItem", "[\(items)]"),
                ], &random
            ).utf8)
    }
}
