import AppStore
import Encoding
import Subscriptions
import Testing

/// The answers published in articles, compared with facts read from them by hand.
@Suite("Published answers of verifyReceipt")
struct ReceiptSampleTests {
    private static let apps = Apps([App(bundleId: "jp.example.app"), App(bundleId: testBundle)])

    private func verified(_ body: [UInt8], of app: String) throws -> VerifiedReceipt {
        let answer = AnswerFromApple(
            answer: try ReceiptAnswer(decoding: body), host: .sandbox, receipt: Receipt(stored: [0x30, 0x00]),
            receivedAt: day("2026-01-01"))
        return try Self.apps.verify(answer, of: app, subscriptions: [])
    }

    @Test("a subscription of two periods in the sandbox, the first one free")
    func twoPeriods() throws {
        let product = "jp.example.app.subscription"
        var first = Transaction(transactionId: "1000000481802759", originalTransactionId: "1000000481802759")
        first.webOrderLineItemId = "1000000041616744"
        first.productId = product
        first.quantity = 1
        first.purchaseDate = Instant(milliseconds: 1_543_910_630_000)
        // One second after the purchase.
        first.originalPurchaseDate = Instant(milliseconds: 1_543_910_631_000)
        first.expiresDate = Instant(milliseconds: 1_543_910_930_000)
        first.isTrialPeriod = true
        first.isInIntroOfferPeriod = false
        var second = first
        second.transactionId = "1000000481806674"
        second.webOrderLineItemId = "1000000041616745"
        second.purchaseDate = Instant(milliseconds: 1_543_910_930_000)
        second.expiresDate = Instant(milliseconds: 1_543_911_230_000)
        second.isTrialPeriod = false
        var renewal = RenewalInfo(originalTransactionId: "1000000481802759")
        renewal.productId = product
        renewal.autoRenewProductId = product
        renewal.autoRenewStatus = false
        renewal.expirationIntent = 1
        renewal.isInBillingRetryPeriod = false

        let verified = try verified(fixture("seed001-verify-receipt"), of: "jp.example.app")

        #expect(verified.stream == StreamKey(app: "jp.example.app", environment: .sandbox))
        #expect(verified.status == ReceiptStatus(number: 0))
        // The article shortened it.
        #expect(verified.latestReceipt == nil)
        let event = verified.event
        #expect(event.source == .appleReceipt && event.kind == .receipt)
        #expect(event.type == nil && event.subtype == nil)
        #expect(event.app == "jp.example.app")
        #expect(event.environment == .sandbox)
        #expect(event.occurredAt == day("2018-12-06T13:50:40.654Z"))
        #expect(event.transactions == [first, second])
        #expect(event.renewals == [renewal])
        #expect(event.defects == [])
        let subscription = fold([event], subscription: "1000000481802759")
        #expect(subscription.access.map(\.start) == [day("2018-12-04T08:03:50Z"), day("2018-12-04T08:08:50Z")])
        #expect(subscription.access.map(\.end) == [day("2018-12-04T08:08:50Z"), day("2018-12-04T08:13:50Z")])
        #expect(subscription.status(at: day("2018-12-04T08:13:49.999Z")) == .active)
        #expect(subscription.status(at: day("2018-12-04T08:13:50Z")) == .expired)
    }

    @Test("an answer whose names the article blanked out names no app")
    func blanks() throws {
        let body = try fixture("seed000-verify-receipt")

        #expect(throws: ReceiptRefusal.appMissing) { try verified(body, of: testBundle) }
    }

    @Test("with its app filled in, it is one period of three minutes")
    func onePeriod() throws {
        let text = String(decoding: try fixture("seed000-verify-receipt"), as: UTF8.self)
        let filled = text.replacing("\"bundle_id\": \" \"", with: "\"bundle_id\": \"\(testBundle)\"")
        var row = Transaction(transactionId: "1000000590999315", originalTransactionId: "1000000590999315")
        row.webOrderLineItemId = "1000000048178827"
        row.subscriptionGroupIdentifier = "20567235"
        row.quantity = 1
        row.purchaseDate = Instant(milliseconds: 1_573_548_918_000)
        row.originalPurchaseDate = Instant(milliseconds: 1_573_548_919_000)
        row.expiresDate = Instant(milliseconds: 1_573_549_098_000)
        row.isTrialPeriod = false
        row.isInIntroOfferPeriod = false

        let event = try verified(Array(filled.utf8), of: testBundle).event

        #expect(event.transactions == [row])
        #expect(event.renewals.map(\.expirationIntent) == [1])
        #expect(event.renewals.map(\.autoRenewStatus) == [false])
        #expect(event.occurredAt == day("2019-11-18T12:58:25.053Z"))
        #expect(event.defects == [])
        let subscription = fold([event], subscription: "1000000590999315")
        #expect(subscription.access.map(\.start) == [day("2019-11-12T08:55:18Z")])
        #expect(subscription.access.map(\.end) == [day("2019-11-12T08:58:18Z")])
    }
}
