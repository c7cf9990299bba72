import Encoding
import Subscriptions
import TestSupport
import Testing

@Suite("Orders of Google Play that are asked about")
struct AnsweredPurchaseTests {
    private static func snapshot(
        _ state: PurchaseSnapshot.State, _ orders: String?...
    ) -> PurchaseSnapshot {
        var snapshot = PurchaseSnapshot(purchaseToken: "t1", kind: .subscription, stateName: state.rawValue)
        snapshot.items = orders.map { order in
            var item = PurchaseSnapshot.Item(productId: "premium")
            (item.orderId, item.price, item.currency) = (order, 9990, "USD")
            return item
        }
        return snapshot
    }

    private static func withoutPrice(_ order: String, phase: String? = nil) -> PurchaseSnapshot {
        var snapshot = snapshot(.active, order)
        (snapshot.items[0].price, snapshot.items[0].phase) = (nil, phase)
        return snapshot
    }

    private static func offer(phase: String?) -> PurchaseSnapshot {
        var snapshot = snapshot(.active, "G")
        (snapshot.items[0].offerId, snapshot.items[0].phase) = ("welcome", phase)
        return snapshot
    }

    private static func prepaid(_ orders: String...) -> PurchaseSnapshot {
        var snapshot = PurchaseSnapshot(purchaseToken: "t1", kind: .subscription, stateName: "ACTIVE")
        snapshot.items = orders.map { order in
            var item = PurchaseSnapshot.Item(productId: "premium")
            (item.orderId, item.isPrepaid) = (order, true)
            return item
        }
        return snapshot
    }

    private static func last(_ state: PurchaseSnapshot.State, _ order: String?) -> AnsweredPurchase {
        AnsweredPurchase(stateName: state.rawValue, orderId: order)
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let snapshot: PurchaseSnapshot
        let last: AnsweredPurchase?
        var isRecovered = false
        let orders: [String]
        /// Whether they only confirm a price.
        var isOptional = false
    }

    static let rows = [
        Row(
            testDescription: "the first order, which may have cost less than the list price",
            snapshot: snapshot(.active, "G"), last: nil, orders: ["G"], isOptional: true),
        Row(
            testDescription: "the first order of an offer, whose price only the order has",
            snapshot: offer(phase: "INTRODUCTORY_PRICE"), last: nil, orders: ["G"]),
        Row(
            testDescription: "a free trial of an offer is free", snapshot: offer(phase: "FREE_TRIAL"), last: nil,
            orders: []),
        Row(
            testDescription: "a prepaid plan, of which no answer has the price", snapshot: prepaid("G"), last: nil,
            orders: ["G"]),
        Row(
            testDescription: "the same order of a prepaid plan", snapshot: prepaid("G"), last: last(.active, "G"),
            orders: []),
        Row(
            testDescription: "the first order of an answer without a price", snapshot: withoutPrice("G"), last: nil,
            orders: ["G"]),
        Row(
            testDescription: "a renewal of an answer without a price", snapshot: withoutPrice("G..0"),
            last: last(.active, "G"), orders: ["G..0"]),
        Row(
            testDescription: "the standard price, which the answer does not state",
            snapshot: withoutPrice("G", phase: "BASE_PRICE"), last: nil, orders: ["G"]),
        Row(
            testDescription: "a free trial of an answer without a price",
            snapshot: withoutPrice("G", phase: "FREE_TRIAL"), last: nil, orders: []),
        Row(
            testDescription: "the same order of an answer without a price", snapshot: withoutPrice("G"),
            last: last(.active, "G"), orders: []),
        Row(testDescription: "an offer in an unknown phase", snapshot: offer(phase: nil), last: nil, orders: ["G"]),
        Row(
            testDescription: "a renewal, for what was paid", snapshot: snapshot(.active, "G..1"),
            last: last(.active, "G..0"), orders: ["G..1"], isOptional: true),
        Row(
            testDescription: "one that was paid in grace, too", snapshot: snapshot(.active, "G..1"),
            last: last(.inGracePeriod, "G..0"), orders: ["G..1"], isOptional: true),
        Row(
            testDescription: "the same order is not asked about again", snapshot: snapshot(.active, "G..1"),
            last: last(.active, "G..1"), orders: []),
        Row(
            testDescription: "the same order in another state: an amount may have been paid back",
            snapshot: snapshot(.canceled, "G..1"), last: last(.active, "G..1"), orders: ["G..1"]),
        Row(
            testDescription: "renewals between two answers", snapshot: snapshot(.active, "G..3"),
            last: last(.active, "G"), orders: ["G..0", "G..1", "G..2", "G..3"]),
        Row(
            testDescription: "an unknown purchase that was renewed", snapshot: snapshot(.active, "G..0"), last: nil,
            orders: ["G", "G..0"]),
        Row(
            testDescription: "the end of account hold", snapshot: snapshot(.active, "G..0"), last: last(.onHold, "G"),
            orders: ["G..0"]),
        Row(
            testDescription: "the end of a pause", snapshot: snapshot(.active, "G..0"), last: last(.paused, "G"),
            orders: ["G..0"]),
        Row(
            testDescription: "the end of account hold that only a notification told",
            snapshot: snapshot(.active, "G..0"), last: last(.active, "G"), isRecovered: true, orders: ["G..0"]),
        Row(
            testDescription: "an order that was over when it was first seen", snapshot: snapshot(.expired, "G"),
            last: nil, orders: ["G"]),
        Row(testDescription: "a promotion has no order", snapshot: snapshot(.active, nil), last: nil, orders: []),
        Row(
            testDescription: "of several items, the newest order counts", snapshot: snapshot(.active, "G..0", "G..1"),
            last: last(.active, "G..0"), orders: ["G..1"], isOptional: true),
    ]

    @Test("are those whose periods or prices the answers do not show", arguments: rows)
    func orders(_ row: Row) {
        let found = AnsweredPurchase.after(row.snapshot, last: row.last, isRecovered: row.isRecovered)

        #expect(found.orders == row.orders)
        #expect(found.isOptional == row.isOptional)
        #expect(found.answered.stateName == row.snapshot.stateName)
    }

    @Test("are those of one-time purchases, each once")
    func products() {
        var bought = PurchaseSnapshot(purchaseToken: "t1", kind: .product, stateName: "PURCHASED")
        bought.items = Self.snapshot(.active, "G").items
        let first = AnsweredPurchase.after(bought, last: nil, isRecovered: false)

        #expect(first.orders == ["G"])
        #expect(AnsweredPurchase.after(bought, last: first.answered, isRecovered: false).orders == [])
        let voided = AnsweredPurchase.after(bought, last: first.answered, isRecovered: false, isVoided: true)
        #expect(voided.orders == ["G"])
        #expect(voided.answered == first.answered)
        bought.items[0].orderId = nil
        #expect(AnsweredPurchase.after(bought, last: nil, isRecovered: false).orders == [])
    }

    @Test("are at most 60 of one answer, the newest ones")
    func limit() {
        let found = AnsweredPurchase.after(Self.snapshot(.active, "G..200"), last: nil, isRecovered: false)

        #expect(found.orders.count == 60)
        #expect(found.orders.first == "G..141" && found.orders.last == "G..200")
        #expect(found.answered == Self.last(.active, "G..200"))
    }
}
