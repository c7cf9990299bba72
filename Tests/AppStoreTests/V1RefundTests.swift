import AppStore
import Subscriptions
import TestSupport
import Testing

/// REFUND names a purchase that is not an auto-renewable subscription. Its receipt may lack that purchase.
@Suite("V1 refunds of purchases that may be missing from the receipt")
struct V1RefundTests {
    private static let lifetime = "1000000000000500"
    private let rowA = newRow("1000000000000001", "2022-01-01", "2022-02-01")
    private let atlas = oneTime(lifetime, "2022-01-05")
    /// A receipt of the same account that contains the purchase.
    private var bought: JSON { newBody("DID_RENEW", rows: [rowA, atlas]) }

    private static func oneTime(_ id: String, _ date: String, subscription: String? = nil) -> JSON {
        newRow(id, date, date, product: "com.example.magazine.atlas", subscription: subscription ?? id).without(
            "expires_date", "expires_date_ms", "expires_date_pst", "web_order_line_item_id",
            "subscription_group_identifier")
    }

    private func refund(_ rows: [JSON]?, of purchase: String = lifetime, at date: String = "2022-03-01") -> JSON {
        let body = newBody("REFUND", rows: rows ?? []).with([
            "original_transaction_id": .text(purchase), "product_id": "com.example.magazine.atlas",
            "cancellation_date": gmt(date), "cancellation_date_ms": milliseconds(date), "cancellation_reason": "1",
        ])
        return rows == nil ? body.without("unified_receipt") : body
    }

    private func inEveryOrder(_ bodies: [JSON], subscription: String = lifetime, _ check: (Subscription) -> Void) throws
    {
        for order in permutations(of: try bodies.map { try $0.event() }) {
            check(fold(order, subscription: subscription))
            check(fold(order + order.reversed(), subscription: subscription))
        }
    }

    @Test("a refund revokes the named purchase, with no receipt and with a receipt of other rows (13, 14)")
    func purchaseNotInReceipt() throws {
        for rows in [nil, [], [rowA]] as [[JSON]?] {
            let refund = refund(rows)

            try inEveryOrder([bought, refund]) { subscription in
                #expect(subscription.access == [])
                #expect(subscription.status(at: day("2022-03-01")) == .refunded)
                #expect(subscription.transactions.count == 1)
            }
            #expect(try !refund.event().defects.contains(.cancellationWithoutPurchase))
        }
    }

    @Test("a refund of an unknown purchase gives no access")
    func unknownPurchase() throws {
        let subscription = fold([try refund(nil).event()], subscription: Self.lifetime)

        #expect(subscription.access == [])
        #expect(subscription.transactions.map(\.transaction.revocationDate) == [day("2022-03-01")])
        #expect(subscription.transactions.map(\.transaction.productId) == ["com.example.magazine.atlas"])
        #expect(subscription.status(at: day("2022-02-28")) == .never)
        #expect(subscription.status(at: day("2022-03-01")) == .refunded)
    }

    @Test("a later receipt with the refunded row adds the missing fields")
    func laterRow() throws {
        let later = newBody(
            "DID_RENEW",
            rows: [
                newRow("1000000000000002", "2022-04-01", "2022-05-01"), rowA, cancelled(atlas, "2022-03-01"),
            ])

        try inEveryOrder([refund(nil), later]) { subscription in
            #expect(subscription.access == [])
            #expect(subscription.transactions.map(\.transaction.purchaseDate) == [day("2022-01-05")])
            #expect(subscription.status(at: day("2022-05-01")) == .refunded)
        }
    }

    @Test("a later receipt with the purchase restores it after a reversed refund")
    func reversed() throws {
        let later = newBody("DID_RENEW", rows: [newRow("1000000000000002", "2022-04-01", "2022-05-01"), atlas])

        let events = try [bought, refund([rowA]), later].map { try $0.event() }
        for order in permutations(of: Array(events.indices)) {
            let subscription = fold(order.map { events[$0] }, subscription: Self.lifetime)
            // Received before the refund, it takes nothing back.
            let isLater = order.firstIndex(of: 1)! < order.firstIndex(of: 2)!
            #expect(subscription.status(at: day("2022-05-01")) == (isLater ? .owned : .refunded))
        }
    }

    @Test("a refund also revokes restored copies of the purchase")
    func restoredCopy() throws {
        let copy = Self.oneTime("1000000000000900", "2022-02-10", subscription: Self.lifetime)
        let bodies = [newBody("DID_RENEW", rows: [rowA, copy]), refund([rowA])]

        try inEveryOrder(bodies) { subscription in
            #expect(subscription.access == [])
            #expect(subscription.status(at: day("2022-03-01")) == .refunded)
        }
    }

    @Test("a refund does not affect a subscription, even if its row is the only one in the receipt")
    func otherSubscription() throws {
        for body in [refund([rowA]), refund([rowA]).without("original_transaction_id")] {
            let subscription = fold([try body.event()])

            #expect(subscription.access.map(\.end) == [day("2022-02-01")])
        }
    }

    @Test("the receipt row of the named purchase is refunded even if it has no cancellation date")
    func purchaseInReceipt() throws {
        let event = try refund([rowA, atlas]).event()

        #expect(event.transactions.count == 2)
        #expect(event.transactions.map(\.revocationDate) == [nil, day("2022-03-01")])
        #expect(event.transactions.last?.revocationReason == 1)
    }

    static let withoutPurchase: [JSON] = [
        newBody("CANCEL", rows: [newRow("1000000000000002", "2022-01-01", "2022-02-01")]),
        newBody("REVOKE", rows: []), newBody("REFUND", rows: []),
        oldBody("CANCEL", row: oldRow("1000000000000002", "2022-01-01", "2022-02-01")).with([
            "web_order_line_item_id": "91000000000000001", "cancellation_date_ms": milliseconds("2022-01-05"),
        ]),
    ]

    @Test("a cancellation without a cancelled purchase is a defect", arguments: withoutPurchase)
    func cancellationWithoutPurchase(body: JSON) throws {
        #expect(try body.event().defects == [.cancellationWithoutPurchase])
    }
}
