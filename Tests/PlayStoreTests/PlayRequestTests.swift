import Encoding
import Subscriptions
import Testing

@testable import PlayStore

@Suite("Requests to the Google Play Developer API")
struct PlayRequestTests {
    let token = PurchaseToken("abc.AO-J1/x")!
    let base = "/androidpublisher/v3/applications/com.example.app/"

    @Test("have the documented paths")
    func paths() {
        let app = "com.example.app"
        let (start, end) = (at("2025-10-01T00:00:00Z"), at("2025-10-21T00:00:00Z"))

        #expect(
            PlayRequest.subscription(token, of: app).path == base + "purchases/subscriptionsv2/tokens/abc.AO-J1%2Fx")
        #expect(PlayRequest.product(token, of: app).path == base + "purchases/productsv2/tokens/abc.AO-J1%2Fx")
        #expect(PlayRequest.order("GPA.1..0", of: app).path == base + "orders/GPA.1..0")
        #expect(
            PlayRequest.orders(["GPA.1..0", "a b"], of: app).path
                == base + "orders:batchGet?orderIds=GPA.1..0&orderIds=a%20b")
        #expect(
            PlayRequest.voidedPurchases(from: start, until: end, pageToken: "n=1", of: app).path
                == base
                + "purchases/voidedpurchases?startTime=1759276800000&endTime=1761004800000&type=1&includeQuantityBasedPartialRefund=true&token=n%3D1"
        )
    }

    @Test("acknowledge a subscription with its product or without one, and a product")
    func acknowledgements() {
        let with = PlayRequest.acknowledgeSubscription(token, productId: "premium", of: "com.example.app")
        let without = PlayRequest.acknowledgeSubscription(token, productId: nil, of: "com.example.app")
        let product = PlayRequest.acknowledgeProduct(token, productId: "coins", of: "com.example.app")

        #expect(with.path == base + "purchases/subscriptions/premium/tokens/abc.AO-J1%2Fx:acknowledge")
        #expect(without.path == base + "purchases/subscriptions/tokens/abc.AO-J1%2Fx:acknowledge")
        #expect(product.path == base + "purchases/products/coins/tokens/abc.AO-J1%2Fx:acknowledge")
        #expect(with.method == "POST" && with.body == Array("{}".utf8))
        // Of a purchase outside the app, Google states the app user from then on.
        let outside = PlayRequest.acknowledgeSubscription(
            token, productId: "premium", accountId: "u-1", of: "com.example.app")
        #expect(outside.path == with.path)
        #expect(outside.body == Array(#"{"externalAccountIds":{"obfuscatedAccountId":"u-1"}}"#.utf8))
        #expect(with.quota == .subscriptions && product.quota == .oneTimePurchases)
    }

    private func review(
        _ preference: ConsumptionAnswer.RefundPreference? = nil, percentage: Int32? = nil,
        isSampleProvided: Bool = false,
        delivery: ConsumptionAnswer.Delivery = .delivered
    ) throws -> PlayRequest {
        PlayRequest.reviewRefund(
            of: "GPA.1..0", token: "r/\"1",
            try ConsumptionAnswer(
                isSampleProvided: isSampleProvided, delivery: delivery, percentage: percentage, preference: preference),
            of: "com.example.app")
    }

    @Test("answer a question about a chargeback at the order, with the token of the question")
    func reviewedOrder() throws {
        let request = try review(.decline)

        #expect(request.method == "POST" && request.quota == .orders)
        #expect(request.path == base + "orders/GPA.1..0:reviewrefund")
        #expect(
            request.body.map { String(decoding: $0, as: UTF8.self) }
                == #"{"pendingRefundToken":"r/\"1","sampleContentProvided":false,"refundPreference":"DECLINE"}"#)
    }

    @Test(
        "what must be said is always said: a refund in part, which Google does not know, and none are NEUTRAL",
        arguments: [
            (ConsumptionAnswer.RefundPreference.decline, "DECLINE"), (.grantFull, "APPROVE"),
            (.grantProrated, "NEUTRAL"),
            (nil, "NEUTRAL"),
        ])
    func preference(_ preference: ConsumptionAnswer.RefundPreference?, says: String) throws {
        let body = try #require(try review(preference, isSampleProvided: true).body)

        #expect(
            String(decoding: body, as: UTF8.self)
                == #"{"pendingRefundToken":"r/\"1","sampleContentProvided":true,"refundPreference":"\#(says)"}"#)
    }

    @Test("how much was used is sent in thousandths of a percent if it is stated", arguments: [0, 45_200, 100_000])
    func percentage(_ percentage: Int32) throws {
        let body = try #require(try review(.decline, percentage: percentage).body)

        #expect(
            String(decoding: body, as: UTF8.self).hasSuffix(
                #""refundPreference":"DECLINE","consumptionPercentageMilliunits":\#(percentage)}"#))
    }

    @Test("what Google has no word for is not sent: consent, delivery, and events with places of the customer")
    func silence() throws {
        let body = try #require(try review(delivery: .serverOutage).body)

        #expect(
            String(decoding: body, as: UTF8.self)
                == #"{"pendingRefundToken":"r/\"1","sampleContentProvided":false,"refundPreference":"NEUTRAL"}"#)
    }

    @Test(
        "fail by status, then by reason",
        arguments: [
            (400, "global", "invalid", nil, PlayRefusal.Kind.wrongPurchase),
            (400, "androidpublisher", "purchaseTokenDoesNotMatchPackageName", nil, .wrongPurchase),
            (400, "androidpublisher", "invalidPurchaseState", nil, .stateConflict),
            (400, "androidpublisher", "productNotOwnedByUser", nil, .stateConflict),
            (400, "global", "failedPrecondition", "FAILED_PRECONDITION", .gone),
            (400, nil, nil, "FAILED_PRECONDITION", .gone),
            (401, "global", "authError", nil, .unauthorised),
            (401, "androidpublisher", "permissionDenied", nil, .unauthorised),
            (403, "androidpublisher", "permissionDenied", nil, .forbidden),
            (403, "androidpublisher", "projectNotLinked", nil, .forbidden),
            (403, "global", "forbidden", nil, .forbidden),
            (403, "androidpublisher", "developerDoesNotOwnApplication", nil, .forbidden),
            (403, "usageLimits", "rateLimitExceeded", nil, .quota), (403, "usageLimits", "somethingNew", nil, .quota),
            (403, "usageLimits", "accessNotConfigured", nil, .forbidden), (403, nil, nil, "RESOURCE_EXHAUSTED", .quota),
            (404, "androidpublisher", "purchaseTokenNotFound", nil, .notFound),
            (409, "androidpublisher", "concurrentUpdate", nil, .conflict),
            (410, "androidpublisher", "purchaseTokenNoLongerValid", nil, .gone),
            (410, "androidpublisher", "subscriptionNoLongerAvailable", nil, .gone),
            (410, "androidpublisher", "subscriptionPurchaseNoLongerAvailable", nil, .gone),
            (429, "usageLimits", "quotaExceeded", nil, .quota), (429, nil, "dailyLimitExceeded", nil, .quota),
            (500, "global", "backendError", nil, .temporary), (503, nil, nil, nil, .temporary),
            (418, nil, nil, nil, .refused),
        ] as [(Int, String?, String?, String?, PlayRefusal.Kind)])
    func refusals(status: Int, domain: String?, reason: String?, word: String?, kind: PlayRefusal.Kind) {
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("error")
            writer.object { writer in
                writer.member("code", status)
                writer.member("message", "a message that decides nothing: notFound rateLimitExceeded")
                writer.member("status", word)
                if domain != nil || reason != nil {
                    writer.key("errors")
                    writer.array([0]) { writer, _ in
                        writer.object { writer in
                            writer.member("domain", domain)
                            writer.member("reason", reason)
                        }
                    }
                }
            }
        }

        #expect(PlayRefusal(httpStatus: status, body: writer.bytes).kind == kind)
    }

    @Test(
        "fail by status alone if the error is HTML, empty or cut off",
        arguments: ["", "<html>", #"{"error":{"code":4"#])
    func unreadable(body: String) {
        let kinds = [401, 403, 404, 410, 429, 500].map { PlayRefusal(httpStatus: $0, body: Array(body.utf8)) }

        #expect(kinds.map(\.kind) == [.unauthorised, .forbidden, .notFound, .gone, .quota, .temporary])
        #expect(kinds.allSatisfy { $0.reason == nil })
    }

    @Test(
        "wait as long as a quota error says: seconds, a date, or a minute",
        arguments: [
            ("120", Duration.seconds(120)), ("Tue, 21 Oct 2025 05:10:00 GMT", .seconds(600)), (nil, .seconds(60)),
            ("soon", .seconds(60)), ("Tue, 21 Oct 2025 04:00:00 GMT", .seconds(60)), ("999999", .seconds(3600)),
        ] as [(String?, Duration)])
    func pauses(header: String?, wait: Duration) {
        #expect(RetryAfter.wait(header, at: TestKeys.now) == wait)
    }
}
