import Foundation
import TestSupport
import Testing

@Suite("The console says which event changed what")
struct ConsoleEventTests {
    private static let stream = ConsolePageTests.stream

    private static func body(_ type: String, cancelled: Int64? = nil, isRetrying: Bool = false) throws -> [UInt8] {
        let row = V1Body.Row(
            "30", subscription: "30", purchase: 1_567_400_000_000, expires: 1_570_000_000_000, cancelled: cancelled)
        var body = V1Body(type: type, rows: [row], subscription: "30", autoRenew: true)
        if isRetrying {
            var receipt = try #require(body.fields["unified_receipt"] as? [String: Any])
            var pending = try #require(receipt["pending_renewal_info"] as? [[String: String]])
            pending[0]["is_in_billing_retry_period"] = "1"
            receipt["pending_renewal_info"] = pending
            body.fields["unified_receipt"] = receipt
        }
        return try body.bytes
    }

    @Test("a failed renewal, the end by the clock, and a refund each have one answer")
    func answers() async throws {
        try await TestBundle.withServer { server async throws in
            _ = try await server.apple.post(try Self.body("INITIAL_BUY"))
            _ = try await server.apple.post(try Self.body("DID_FAIL_TO_RENEW", isRetrying: true))
            try await server.isFolded()
            let (browser, cookie) = try await server.session()
            func page(_ path: String) async throws -> String {
                try await browser.get("/console/\(path)?\(Self.stream)", cookie: cookie).body
            }
            let bought = try await page("events/1")
            let failed = try await page("events/2")
            let customer = try await page("customers/30")
            _ = try await server.apple.post(try Self.body("REFUND", cancelled: 1_571_000_000_000))
            try await server.isFolded()
            let refund = try await page("events/3")
            let refunded = try await page("customers/30")

            #expect(bought.contains("<td>access 2 Sep 2019"), "\(bought)")
            #expect(bought.contains("<td>next product</td>"))
            #expect(failed.contains("<td>in billing retry, without access</td>"), "\(failed)")
            #expect(failed.contains("<td>failed, the store retries it</td>"))
            #expect(!failed.contains("access by transaction"))
            #expect(
                customer.contains(
                    "the renewal failed, and the store retries the payment (DID_FAIL_TO_RENEW, event <a"),
                "\(customer)")
            #expect(customer.contains("The store stops retrying the failed renewal of subscription 30"))
            #expect(customer.contains("<td>access ended: the renewal failed, and the store retries the payment</td>"))
            #expect(refund.contains("<td>refunded: no access 2 Sep 2019"), "\(refund)")
            #expect(refunded.contains("<td>refunded: counts as never bought</td>"), "\(refunded)")
            #expect(!refunded.contains("<td>access ended"))
        }
    }

    @Test("a link is about no subscription, and its page says so")
    func links() async throws {
        try await CustomerRoutesTests.withCustomers { server async throws in
            _ = try await CustomerRoutesTests.put(server, "u-1", #"{"links":[{"originalTransactionId":"30"}]}"#)
            try await server.isFolded()
            let (browser, cookie) = try await server.session()
            let link = try await browser.get("/console/events/3?\(Self.stream)", cookie: cookie)

            #expect(link.body.contains("It is about no subscription."), "\(link.body)")
        }
    }
}
