import Encoding
import Subscriptions
import TestSupport
import Testing

@Suite("What Google's orders say of money")
struct OrderMoneyTests {
    private func story(_ change: (inout PurchaseOrder) -> Void, at: String = "2026-05-11") -> PlayStory {
        var story = PlayStory()
        story.answer("2026-05-01T00:00:03Z", .active, start: "2026-05-01", until: "2026-06-01", order: "GPA.1")
        var order = PurchaseOrder(orderId: "GPA.1", purchaseToken: "t1", stateName: "PARTIALLY_REFUNDED")
        order.createTime = day("2026-05-01")
        (order.total, order.currency) = (9990, "EUR")
        var item = PurchaseOrder.Item(productId: "premium")
        item.total = 9990
        order.items = [item]
        change(&order)
        story.add(at, [.order(order)])
        return story
    }

    private func refund(_ date: String, _ amount: Int64, _ reason: String? = nil) -> PurchaseOrder.Refund {
        PurchaseOrder.Refund(at: day(date), amount: amount, reasonName: reason)
    }

    @Test("amounts that were paid back are refunds that take nothing away", arguments: Arrival.allCases)
    func amounts(_ arrival: Arrival) throws {
        let events = story { $0.refunds = [refund("2026-05-03", 2000), refund("2026-05-10", 2000)] }.events
        let subscription = try #require(PlayStory.fold(arrival.arrange(events))["t1"])
        let row = try #require(subscription.transactions.first)

        #expect(row.settled.refundedPrice == 4000)
        #expect(row.settled.revocationType == "REFUND_AMOUNT")
        #expect(row.settled.revocationDate == day("2026-05-10"))
        #expect(row.settled.refundedPart(of: 9990, at: day("2026-05-11")) == 4000)
        #expect(subscription.accessSpans == [Span("2026-05-01", "2026-06-01")])
        #expect(subscription.access.map(\.cut) == [nil])
        #expect(subscription.status(at: day("2026-05-20")) == .active)
    }

    @Test("of a voided purchase, a later answer about its order says how much was paid back; an earlier one does not")
    func voidedInPart() throws {
        for (statedAt, amount) in [("2026-05-11", Int64(4000)), ("2026-05-09", 9990)] {
            var story = story({ $0.refunds = [refund("2026-05-03", 4000)] }, at: statedAt)
            story.void("2026-05-10", order: "GPA.1", reason: 0)

            #expect(story.subscription.access.isEmpty)
            #expect(story.subscription.transactions.map { $0.settled.refundedPart(of: 9990, at: .latest) } == [amount])
        }
    }

    @Test("a chargeback of all of it states its reason, and access ends only by a void")
    func chargeback() throws {
        var story = story {
            $0.stateName = "REFUNDED"
            $0.refunds = [refund("2026-05-10", 9990, "CHARGEBACK")]
        }
        #expect(story.subscription.transactions.map(\.settled.revocationReason) == [7])
        #expect(story.subscription.accessSpans == [Span("2026-05-01", "2026-06-01")])

        story.void("2026-05-12", order: "GPA.1", reason: 7)
        #expect(story.subscription.access.isEmpty)
        #expect(story.subscription.transactions.map(\.settled.revocationType) == ["REFUND_FULL"])
        #expect(story.subscription.transactions.map { $0.settled.refundedPart(of: 9990, at: .latest) } == [9990])
    }

    @Test("equal refunds of two orders are each explained by the event that states them")
    func equalRefunds() throws {
        var story = PlayStory()
        for (number, month) in [("GPA.1", 5), ("GPA.1..0", 6)] {
            story.answer(
                "2026-0\(month)-01T00:00:03Z", .active, start: "2026-05-01", until: "2026-0\(month + 1)-01",
                order: number)
        }
        for (number, month) in [("GPA.1", 5), ("GPA.1..0", 6)] {
            var order = PurchaseOrder(orderId: number, purchaseToken: "t1", stateName: "PARTIALLY_REFUNDED")
            order.createTime = day("2026-0\(month)-01")
            (order.total, order.currency) = (9990, "EUR")
            order.refunds = [refund("2026-06-10", 2000)]
            story.add("2026-06-1\(month)", [.order(order)])
        }
        let transactions = story.subscription.transactions

        #expect(transactions.map(\.settled.refundedPrice) == [2000, 2000])
        #expect(transactions.map(\.positions) == [[1, 3], [2, 4]])
    }

    @Test("a refund never exceeds the price, and a later answer replaces what an earlier one stated")
    func limits() throws {
        var story = story { $0.refunds = [refund("2026-05-10", .max), refund("2026-05-10", .max)] }
        #expect(story.subscription.transactions.map(\.settled.refundedPrice) == [9990])

        story.order("2026-05-13", "GPA.1", from: "2026-05-01", until: "2026-06-01", total: 9990)
        #expect(story.subscription.transactions.map(\.settled.refundedPrice) == [nil])
        #expect(story.subscription.transactions.map(\.settled.revocationDate) == [nil])
    }

    @Test("tax and the developer's revenue are those that the order states")
    func revenue() throws {
        let transactions = story {
            $0.tax = 1596
            $0.developerRevenue = 7134
        }.subscription.transactions
        #expect(transactions.map(\.settled.tax) == [1596])
        #expect(transactions.map(\.settled.developerRevenue) == [7134])
    }

    @Test("amounts for several products are divided by what was paid for each, and add up")
    func shares() {
        var order = PurchaseOrder(orderId: "GPA.1", purchaseToken: "t1", stateName: "PROCESSED")
        order.items = [("a", Int64(1000)), ("b", 1000), ("c", 1000)].map { product, total in
            var item = PurchaseOrder.Item(productId: product)
            item.total = total
            return item
        }
        #expect(["a", "b", "c"].map { order.share(of: 100, $0) } == [33, 33, 34])
        #expect(["a", "b", "c"].compactMap { order.share(of: .max, $0) }.reduce(0, +) == .max)
        #expect(["a", "b", "c"].map { order.share(of: -100, $0) } == [-33, -33, -34])
        #expect(order.share(of: 100, "d") == nil)

        order.items[1].total = nil
        #expect(order.share(of: 100, "a") == nil)
    }

    @Test("an order survives the log")
    func canonicalForm() throws {
        var event = try #require(story { _ in }.events.last)
        var order = PurchaseOrder(orderId: "GPA.1", purchaseToken: "t1", stateName: "REFUNDED")
        (order.tax, order.developerRevenue) = (1596, 7134)
        order.refunds = [refund("2026-05-03", 2000), refund("2026-05-10", 7990, "OTHER")]
        var item = PurchaseOrder.Item(productId: "premium")
        (item.total, item.tax) = (9990, 1596)
        order.items = [item]
        event.purchases = [.order(order)]
        var writer = JSONWriter()
        writer.object { event.facts.writeMembers(to: &$0) }

        #expect(try Facts(json: JSONDocument(writer.bytes).root).purchases == [.order(order)])
    }

    @Test("what was paid back by several refunds is all of it or a part, and each has its day")
    func parts() throws {
        let refunds = [refund("2026-05-03", 2000), refund("2026-05-10", 7990)]
        for (refunds, percentage) in [(refunds, 100_000), (Array(refunds.prefix(1)), 20_020)] {
            let row = try #require(story { $0.refunds = refunds }.subscription.transactions.first)

            #expect(row.settled.revocationPercentage == percentage)
            #expect(row.paidBack.map(\.at) == refunds.map(\.at))
            #expect(row.paidBack.map(\.amount) == refunds.map(\.amount))
        }
        // Less than a thousandth of a percent is left: that is not all of it.
        var nearly = story {
            $0.total = 999_000_000
            $0.items[0].total = 999_000_000
            $0.refunds = [refund("2026-05-03", 998_999_999)]
        }
        #expect(nearly.subscription.transactions.map(\.settled.revocationPercentage) == [99_999])

        nearly.void("2026-05-12", order: "GPA.1")
        #expect(nearly.subscription.transactions.map(\.paidBack) == [[]])
    }
}
