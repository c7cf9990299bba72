import Encoding
import Subscriptions
import TestSupport
import Testing

@Suite("One order of Google is one payment")
struct OneOrderTests {
    private static func priced(_ snapshot: inout PurchaseSnapshot) {
        for index in snapshot.items.indices {
            snapshot.items[index].price = 12_000
            snapshot.items[index].currency = "EUR"
        }
    }

    /// A plan, and its change at the next renewal, for which another purchase goes on with the plan.
    private static func story(order: String? = "GPA.1", waiting: String? = nil) -> PlayStory {
        var story = PlayStory()
        story.answer(
            "2026-05-01T00:00:03Z", .active, start: "2026-05-01", until: "2026-06-01", order: "GPA.1", change: priced)
        story.answer(
            "2026-05-05T00:00:03Z", .active, token: "t2", start: "2026-05-05", until: "2026-06-01", order: order,
            linked: "t1"
        ) {
            $0.items[0].nextProductId = "basic"
            var item = PurchaseSnapshot.Item(productId: "basic")
            item.basePlanId = "monthly"
            item.orderId = waiting
            $0.items.append(item)
            priced(&$0)
        }
        story.answer(
            "2026-05-05T00:00:04Z", .expired, start: "2026-05-01", until: "2026-05-05", order: "GPA.1", renews: false
        ) {
            $0.cancelReason = .replaced
            priced(&$0)
        }
        return story
    }

    private func folded(_ events: [Event]) -> Subscription? { PlayStory.fold(events)["t1"] }

    @Test(
        "an order that two purchases show is one payment with one period, in any order", arguments: Arrival.allCases)
    func twoPurchases(_ arrival: Arrival) throws {
        for story in [
            Self.story(), Self.story(waiting: "GPA.1"), Self.story(order: nil),
            Self.story(order: nil, waiting: "GPA.1"),
        ] {
            let subscription = try #require(folded(arrival.arrange(story.events)))

            #expect(subscription.transactions.map(\.transaction.transactionId) == ["GPA.1"])
            #expect(subscription.transactions.map(\.transaction.price) == [12_000])
            #expect(subscription.access.map(\.productId) == ["premium:monthly"])
            #expect(subscription.accessSpans == [Span("2026-05-01", "2026-06-01")])
            #expect(subscription.access.map(\.cut) == [nil])
            #expect(subscription.reportingPeriods.map(\.paymentNumber) == [1])
        }
    }

    @Test("the payment after it is another one")
    func next() throws {
        var story = Self.story()
        story.answer(
            "2026-06-01T00:00:10Z", .active, token: "t2", start: "2026-05-05", until: "2026-07-01", order: "GPA.2",
            product: "basic", linked: "t1", change: Self.priced)
        let subscription = try #require(folded(story.events))

        #expect(subscription.transactions.map(\.transaction.transactionId) == ["GPA.1", "GPA.2"])
        #expect(subscription.transactions.map(\.transaction.price) == [12_000, 12_000])
        #expect(subscription.access.map(\.productId) == ["premium:monthly", "basic:monthly"])
        #expect(subscription.lapses.isEmpty)
    }

    @Test(
        "its refund is a refund of all of it, whichever purchase the void names",
        arguments: ["t1", "t2"], Arrival.allCases)
    func refund(_ token: String, _ arrival: Arrival) throws {
        var story = Self.story()
        story.void("2026-05-10", token: token, order: "GPA.1")
        let subscription = try #require(folded(arrival.arrange(story.events)))

        #expect(subscription.access.isEmpty)
        #expect(subscription.transactions.map(\.settled.isRefunded) == [true])
        #expect(subscription.transactions.map { $0.settled.refundedPart(of: 12_000, at: .latest) } == [12_000])
    }

    @Test("the order's own answer has the price, once for each of its items")
    func items() throws {
        var story = PlayStory()
        story.answer("2026-05-01T00:00:03Z", .active, start: "2026-05-01", until: "2026-06-01", order: "GPA.1") {
            var item = PurchaseSnapshot.Item(productId: "extra")
            item.basePlanId = "monthly"
            item.expiryTime = day("2026-06-01")
            item.orderId = "GPA.1"
            item.isAutoRenewing = true
            $0.items.append(item)
        }
        story.order("2026-05-01T00:00:04Z", "GPA.1", from: "2026-05-01", until: "2026-06-01", total: 12_000)
        let prices = try #require(folded(story.events)).transactions.map(\.transaction.price)

        #expect(prices.compactMap(\.self) == [12_000])
        #expect(prices.count == 2)
    }

    @Test("of two purchases with a gap between them, the later one has no payment and no invented order")
    func gap() throws {
        var story = PlayStory()
        story.answer(
            "2026-05-01T00:00:03Z", .active, start: "2026-05-01", until: "2026-06-01", order: "GPA.1",
            change: Self.priced)
        story.answer(
            "2026-06-10T00:00:03Z", .active, token: "t2", start: "2026-06-10", until: "2026-07-10", order: "GPA.1",
            linked: "t1", change: Self.priced)
        let rows = try #require(folded(story.events)).transactions.map(\.transaction)

        #expect(rows.map(\.transactionId) == ["GPA.1", "t2"])
        #expect(rows.map(\.price) == [12_000, nil])
    }

    @Test("a plan that another purchase goes on with at once, for another order, is two payments")
    func otherOrder() throws {
        let rows = try #require(folded(Self.story(order: "GPA.2").events)).transactions.map(\.transaction)

        #expect(rows.map(\.transactionId) == ["GPA.1", "GPA.2"])
        #expect(rows.map(\.price) == [12_000, 12_000])
    }

    @Test("what waits for the next renewal is no payment and gives nothing")
    func waiting() throws {
        for waiting in [nil, "GPA.1", "GPA.9"] {
            let subscription = try #require(folded(Self.story(waiting: waiting).events))
            #expect(!subscription.access.contains { $0.productId == "basic:monthly" })
            #expect(subscription.transactions.count == 1)
        }
    }

    /// By a promotion code; see https://github.com/flutter/flutter/issues/145820.
    @Test("nothing was paid for a period without an order, and the list price for the one after it")
    func withoutOrder() throws {
        var story = PlayStory()
        story.answer(
            "2026-05-01T00:00:03Z", .active, start: "2026-05-01", until: "2026-06-01", change: Self.priced)
        story.answer(
            "2026-06-01T00:00:03Z", .active, start: "2026-05-01", until: "2026-07-01", order: "GPA.1",
            change: Self.priced)

        let transactions = try #require(folded(story.events)).transactions.map(\.transaction)

        #expect(transactions.map(\.price) == [0, 12_000])
        #expect(transactions.map(\.planPrice) == [12_000, 12_000])
    }
}
