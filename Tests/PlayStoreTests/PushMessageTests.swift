import Encoding
import Subscriptions
import Testing

@testable import PlayStore

/// A push with a developer notification in its data.
func push(
    _ notification: String, messageId: String? = "17129512956071616", extra: String = "", outer: String = ""
) -> [UInt8] {
    let id = messageId.map { "\"messageId\":\"\($0)\"," } ?? ""
    return Array(
        """
        {"message":{"data":"\(Base64.text(Array(notification.utf8)))",\(id)"publishTime":"2025-10-21T05:00:00.123Z"\
        \(extra)},"subscription":"projects/p/subscriptions/s"\(outer)}
        """.utf8)
}

func subscriptionNotification(_ type: String, token: String = "token-1") -> String {
    """
    {"version":"1.0","packageName":"com.example.app","eventTimeMillis":"1761022799877","subscriptionNotification":\
    {"version":"1.0","notificationType":\(type),"purchaseToken":"\(token)","subscriptionId":"premium"}}
    """
}

@Suite("A push")
struct PushMessageTests {
    @Test(
        "of a voided purchase, only a full refund takes it all back; an unknown kind of refund is named and does not",
        arguments: [
            ("1", false, true), (#""1""#, false, true), ("0", false, true), ("2", true, true), ("9", true, false),
            (#""SOMETHING""#, true, false),
        ])
    func refundType(_ type: String, _ isPartial: Bool, _ isKnown: Bool) throws {
        let message = try PushMessage(
            decoding: push(
                """
                {"version":"1.0","packageName":"com.example.app","eventTimeMillis":"1761022799877",\
                "voidedPurchaseNotification":{"purchaseToken":"token-1","orderId":"GPA.1","productType":1,\
                "refundType":\(type)}}
                """))

        guard case .voidedPurchase(let notice, let token)? = message.notification?.content else {
            Issue.record("\(message)")
            return
        }
        #expect(notice.isPartial == isPartial)
        #expect(notice.orderId == "GPA.1" && notice.isOfSubscription && token?.text == "token-1")
        let unknown = message.event().defects.compactMap(UnknownValue.named)
        #expect(unknown.map(\.field) == (isKnown ? [] : [.refundType]))
    }

    @Test("names the app, the purchase, the type and the time of the event")
    func names() throws {
        let message = try PushMessage(decoding: push(subscriptionNotification("4")))
        let event = message.event()

        #expect(message.packageName == "com.example.app")
        #expect(message.messageId == "17129512956071616")
        #expect(message.subscription == "projects/p/subscriptions/s")
        #expect(message.notification?.purchaseToken?.text == "token-1")
        #expect(event.source == .googleRTDN)
        #expect(event.type == "SUBSCRIPTION_PURCHASED")
        #expect(event.kind == .purchase)
        #expect(event.occurredAt == Instant(milliseconds: 1_761_022_799_877))
        #expect(event.subscriptions == [ByteString("token-1")])
        #expect(event.environment == .unknown)
        #expect(event.defects.isEmpty)
        #expect(event.facts == Facts(transactions: [], renewals: []))
    }

    @Test("is read in either alphabet of Base64, with and without padding and line breaks")
    func alphabets() throws {
        let notification = subscriptionNotification("4", token: "?>?>~~a")
        let standard = Base64.text(Array(notification.utf8))
        let url = Base64.text(Array(notification.utf8), .url)
        #expect(standard.contains("/") && standard.hasSuffix("=") && url.contains("_"))
        let broken = standard.prefix(64) + #"\r\n"# + standard.dropFirst(64) + #"\n"#

        let padding = String(repeating: "=", count: standard.utf8.count - url.utf8.count)
        for data in [standard, url, standard.replacing("=", with: ""), url + padding, String(broken)] {
            let message = try PushMessage(decoding: Array(#"{"message":{"data":"\#(data)","messageId":"1"}}"#.utf8))

            #expect(message.notification?.purchaseToken?.text == "?>?>~~a")
            #expect(message.event().defects.isEmpty)
        }
    }

    @Test(
        "has a name for every type that Google documents, and keeps the number of any other",
        arguments: [
            (1, "SUBSCRIPTION_RECOVERED", EventKind.recovery), (2, "SUBSCRIPTION_RENEWED", .renewal),
            (3, "SUBSCRIPTION_CANCELED", .autoRenewChange), (4, "SUBSCRIPTION_PURCHASED", .purchase),
            (5, "SUBSCRIPTION_ON_HOLD", .hold), (6, "SUBSCRIPTION_IN_GRACE_PERIOD", .renewalFailure),
            (7, "SUBSCRIPTION_RESTARTED", .autoRenewChange), (8, "SUBSCRIPTION_PRICE_CHANGE_CONFIRMED", .priceConsent),
            (9, "SUBSCRIPTION_DEFERRED", .extension), (10, "SUBSCRIPTION_PAUSED", .pause),
            (11, "SUBSCRIPTION_PAUSE_SCHEDULE_CHANGED", .pause), (12, "SUBSCRIPTION_REVOKED", .revoke),
            (13, "SUBSCRIPTION_EXPIRED", .expiration), (14, "14", .other), (15, "15", .other), (16, "16", .other),
            (17, "SUBSCRIPTION_ITEMS_CHANGED", .planChange),
            (18, "SUBSCRIPTION_CANCELLATION_SCHEDULED", .autoRenewChange),
            (19, "SUBSCRIPTION_PRICE_CHANGE_UPDATED", .priceChange),
            (20, "SUBSCRIPTION_PENDING_PURCHASE_CANCELED", .other), (21, "21", .other),
            (22, "SUBSCRIPTION_PRICE_STEP_UP_CONSENT_UPDATED", .priceConsent), (99, "99", .other),
        ])
    func types(number: Int, name: String, kind: EventKind) throws {
        for spelling in ["\(number)", "\"\(number)\""] {
            let event = try PushMessage(decoding: push(subscriptionNotification(spelling))).event()

            #expect(event.type == name)
            #expect(event.kind == kind)
            #expect(event.defects.isEmpty)
        }
    }

    @Test(
        "of another kind is recognised",
        arguments: [
            (
                #""oneTimeProductNotification":{"notificationType":1,"purchaseToken":"t","sku":"coins"}"#,
                "ONE_TIME_PRODUCT_PURCHASED", EventKind.purchase, "t"
            ),
            (
                #""oneTimeProductNotification":{"notificationType":2,"purchaseToken":"t","sku":"coins"}"#,
                "ONE_TIME_PRODUCT_CANCELED", .other, "t"
            ),
            (
                #""voidedPurchaseNotification":{"purchaseToken":"t","orderId":"GPA.1..3","productType":1,"refundType":1}"#,
                "VOIDED_PURCHASE", .refund, "t"
            ),
            (
                #""pendingRefundReviewNotification":{"pendingRefundToken":"r","orderId":"GPA.1","refundReason":7}"#,
                "PENDING_REFUND_REVIEW", .consumptionRequest, nil
            ),
            (#""testNotification":{"version":"1.0"}"#, "TEST", .test, nil),
            (#""somethingNew":{"version":"1.0"}"#, nil, .other, nil),
        ] as [(String, String?, EventKind, String?)])
    func kinds(content: String, type: String?, kind: EventKind, token: String?) throws {
        let notification =
            #"{"version":"1.0","packageName":"com.example.app","eventTimeMillis":"1761022799877",\#(content)}"#
        let event = try PushMessage(decoding: push(notification)).event()

        #expect(event.type == type)
        #expect(event.kind == kind)
        #expect(event.namedSubscription == token)
        #expect(event.defects.isEmpty == (type != nil))
    }

    @Test("has its time as a text or as a number")
    func times() throws {
        let number = subscriptionNotification("2").replacing("\"1761022799877\"", with: "1761022799877")

        #expect(try PushMessage(decoding: push(number)).event().occurredAt == Instant(milliseconds: 1_761_022_799_877))
    }

    @Test("may be spelled with underscores, and with both spellings if they agree")
    func spellings() throws {
        let notification = subscriptionNotification("2")
        let snake = push(notification, messageId: nil, extra: #","message_id":"17129512956071616""#)
        let both = push(
            notification, extra: #","message_id":"17129512956071616","publish_time":"2025-10-21T05:00:00.123Z""#)
        let camel = push(notification)

        let keys = try [snake, both, camel].map { try PushMessage(decoding: $0).event() }

        #expect(Set(keys.map(\.dedupeKey)).count == 1)
        #expect(keys.allSatisfy { $0.defects.isEmpty && $0.namedSubscription == "token-1" })
    }

    @Test("whose two spellings differ is stored, names no purchase and leads to nothing")
    func differingTwins() throws {
        let message = try PushMessage(decoding: push(subscriptionNotification("2"), extra: #","message_id":"2""#))

        #expect(message.isAmbiguous)
        #expect(message.event().defects == [Defect(path: "message.messageId", problem: "differs from message_id")])
        #expect(message.event().namedSubscription == nil)
        let verified = try PushVerifier(apps: [PlayApp(packageName: "com.example.app", pushAuthentication: .none)])
            .verify(message, authorization: nil, keys: .empty, now: TestKeys.now)
        #expect(verified.notification == nil)
    }

    @Test("states the number of its delivery with a dead-letter topic, in either spelling; it is no part of the event")
    func deliveryAttempt() throws {
        let notification = subscriptionNotification("2")
        func message(_ outer: String) throws -> PushMessage {
            try PushMessage(decoding: push(notification, outer: outer))
        }
        let first = try message(#","deliveryAttempt":1"#)
        let third = try message(#","delivery_attempt":3,"deliveryAttempt":3"#)

        #expect(try message("").deliveryAttempt == nil)
        #expect(first.deliveryAttempt == 1)
        #expect(third.deliveryAttempt == 3)
        #expect(try message(#","delivery_attempt":12"#).deliveryAttempt == 12)
        #expect(try message(#","deliveryAttempt":"2""#).deliveryAttempt == 2)
        #expect(try message(#","deliveryAttempt":"soon""#).deliveryAttempt == nil)
        #expect(first.event() == third.event())
        #expect(first.event().defects.isEmpty)
        #expect(String(decoding: third.evidence.bytes, as: UTF8.self).contains(#""deliveryAttempt":3"#))
        #expect(try message(#","deliveryAttempt":1,"delivery_attempt":2"#).isAmbiguous)
    }

    @Test("without an id has a key of its purchase, type and time")
    func secondKey() throws {
        func key(_ notification: String) throws -> DedupeKey {
            try PushMessage(decoding: push(notification, messageId: nil)).event().dedupeKey
        }

        #expect(try key(subscriptionNotification("2")) == key(subscriptionNotification("2")))
        #expect(try key(subscriptionNotification("2")) != key(subscriptionNotification("3")))
        #expect(try key(subscriptionNotification("2")) != key(subscriptionNotification("2", token: "other")))
    }

    @Test("that is unwrapped equals the wrapped one in the log")
    func unwrapped() throws {
        let notification = subscriptionNotification("2")
        let headers = PushHeaders(
            messageId: "17129512956071616", publishTime: "2025-10-21T05:00:00.123Z",
            subscription: "projects/p/subscriptions/s")
        let message = try PushMessage(decoding: Array(notification.utf8), headers: headers)
        let bare = try PushMessage(decoding: Array(notification.utf8))

        #expect(message.event() == (try PushMessage(decoding: push(notification)).event()))
        #expect(try PushMessage(decoding: message.evidence.bytes).event() == message.event())
        #expect(bare.notification?.purchaseToken?.text == "token-1")
        #expect(bare.messageId == nil)
    }

    @Test(
        "with malformed data is stored all the same",
        arguments: [
            #"{"message":{"data":"%%%","messageId":"1"}}"#, #"{"message":{"data":"bm90IEpTT04=","messageId":"1"}}"#,
            #"{"message":{"messageId":"1"}}"#, #"{"message":{"data":"W10=","messageId":"1"}}"#,
        ])
    func malformedData(body: String) throws {
        let message = try PushMessage(decoding: Array(body.utf8))

        #expect(message.notification == nil)
        #expect(message.event().defects.count == 1)
        #expect(message.evidence.bytes == Array(body.utf8))
    }

    @Test("that is unwrapped and not JSON is stored if the headers are there")
    func malformedUnwrapped() throws {
        let message = try PushMessage(decoding: Array("not json".utf8), headers: PushHeaders(messageId: "5"))

        #expect(message.notification == nil)
        #expect(message.messageId == "5")
        #expect(message.event().defects.map(\.path) == ["message.data"])
    }

    @Test("is not any other body", arguments: ["", "{", "[]", "{}", #"{"message":"x"}"#, #"{"packageName":"a"}"#])
    func others(body: String) {
        #expect(throws: UndecodablePush.self) { try PushMessage(decoding: Array(body.utf8)) }
    }

    @Test("accepts a token of 1,000 characters, whose key is a digest")
    func longToken() throws {
        let token = String(repeating: "a1b2", count: 250)
        let message = try PushMessage(decoding: push(subscriptionNotification("2", token: token)))
        let read = try #require(message.notification?.purchaseToken)

        #expect(read.text == token)
        #expect(read.key.hasPrefix("sha256:"))
        #expect(read.key.utf8.count == 71)
        #expect(message.event().namedSubscription == read.key)
    }

    @Test("states the time of a recovery and of a revocation, and what a void names")
    func facts() throws {
        func facts(_ notification: String) throws -> [PurchaseFact] {
            try #require(try PushMessage(decoding: push(notification)).notification).facts
        }
        let time = try #require(Instant(milliseconds: 1_761_022_799_877))
        let void =
            #"{"packageName":"a","eventTimeMillis":1761022799877,"voidedPurchaseNotification":{"purchaseToken":"t","orderId":"GPA.1..3","productType":1,"refundType":1}}"#

        #expect(
            try facts(subscriptionNotification("1"))
                == [.notice(PurchaseNotice(purchaseToken: "token-1", kind: .recovered, at: time))])
        #expect(
            try facts(subscriptionNotification("12"))
                == [.notice(PurchaseNotice(purchaseToken: "token-1", kind: .revoked, at: time))])
        #expect(
            try facts(void)
                == [.void(PurchaseVoid(purchaseToken: "t", orderId: "GPA.1..3", voidedAt: time, isExactTime: false))])
        for type in [2, 3, 4, 5, 6, 7, 9, 10, 13, 17, 20, 99] {
            #expect(try facts(subscriptionNotification("\(type)")) == [])
        }
    }
}
