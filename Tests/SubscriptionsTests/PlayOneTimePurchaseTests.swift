import Encoding
import Subscriptions
import TestSupport
import Testing

@Suite("One-time purchases of Google: units, consumption, rentals, orders in advance")
struct PlayOneTimePurchaseTests {
    private static func story(
        _ answers: [(at: String, left: Int?)], quantity: Int? = 5, product: String = "coins",
        change: (inout PurchaseSnapshot.Item) -> Void = { _ in }
    ) -> PlayStory {
        var story = PlayStory()
        add(answers, to: &story, quantity: quantity, product: product, change: change)
        return story
    }

    private static func add(
        _ answers: [(at: String, left: Int?)], to story: inout PlayStory, quantity: Int? = 5, product: String = "coins",
        state: String = "PURCHASED", change: (inout PurchaseSnapshot.Item) -> Void = { _ in }
    ) {
        for answer in answers {
            var snapshot = PurchaseSnapshot(purchaseToken: "t1", kind: .product, stateName: state)
            snapshot.startTime = day("2026-05-01")
            var item = PurchaseSnapshot.Item(productId: product)
            item.orderId = "GPA.1"
            item.quantity = quantity
            item.refundableQuantity = answer.left
            change(&item)
            snapshot.items = [item]
            story.add(answer.at, [.snapshot(snapshot)])
        }
    }

    private static let coins = ProductCatalog(["coins": .consumable])

    private func folded(_ events: [Event], _ products: ProductCatalog = coins) -> Subscription? {
        PlayStory.fold(events, products: products)["t1"]
    }

    // MARK: Units

    @Test(
        "what was bought stays, and units that can be refunded no more are refunds, in any order",
        arguments: Arrival.allCases)
    func units(_ arrival: Arrival) throws {
        let story = Self.story([("2026-05-01", 5), ("2026-05-10", 3), ("2026-05-20", 2)])
        let subscription = try #require(folded(arrival.arrange(story.events)))
        let bought = try #require(subscription.transactions.first?.settled)

        #expect(bought.quantity == 5)
        #expect(bought.revocationDate == day("2026-05-20"))
        #expect(bought.refundedPart(of: 25_000, at: day("2026-06-01")) == 15_000)
        #expect(subscription.consumables(at: day("2026-05-09")) == 5)
        #expect(subscription.consumables(at: day("2026-05-10")) == 3)
        #expect(subscription.consumables(at: day("2026-05-20")) == 2)
        #expect(subscription.status(at: day("2026-06-01")) == .owned)
    }

    @Test("units that are all refunded leave nothing, are all of the price, and each refund has its day and its share")
    func allUnits() throws {
        var story = Self.story([("2026-05-01", 5), ("2026-05-10", 3), ("2026-05-20", 0)])
        story.order("2026-05-02", "GPA.1", product: "coins", from: "2026-05-01", until: "2026-06-01", total: 25_000)
        let subscription = try #require(folded(story.events))
        let row = try #require(subscription.transactions.first)

        #expect(row.settled.revocationPercentage == 100_000)
        #expect(row.paidBack.map(\.at) == [day("2026-05-10"), day("2026-05-20")])
        #expect(row.paidBack.map(\.amount) == [10_000, 15_000])
        #expect(subscription.consumables(at: .latest) == 0)
        #expect(subscription.status(at: day("2026-06-01")) == .refunded)
    }

    @Test("a refund of units has the time of the notification about it, and of the list if that has it")
    func times() throws {
        var story = Self.story([("2026-05-01", 5), ("2026-05-10", 3)])
        story.add(
            "2026-05-09",
            [
                .void(
                    PurchaseVoid(
                        purchaseToken: "t1", orderId: "GPA.1", voidedAt: day("2026-05-09"), isExactTime: false,
                        isPartial: true))
            ])
        #expect(folded(story.events)?.transactions.first?.settled.revocationDate == day("2026-05-09"))
        #expect(folded(story.events)?.consumables(at: .latest) == 3)

        story.void("2026-05-08", order: "GPA.1", quantity: 2)
        for events in [story.events, story.events.reversed()] {
            let subscription = try #require(folded(events))
            #expect(subscription.transactions.first?.settled.revocationDate == day("2026-05-08"))
            #expect(subscription.consumables(at: day("2026-05-08")) == 3)
            #expect(subscription.consumables(at: .latest) == 3)
        }
    }

    @Test("the list alone says it as well, and all units of it are a whole refund")
    func listed() {
        var story = Self.story([("2026-05-01", nil)])
        story.void("2026-05-10", order: "GPA.1", quantity: 2)
        #expect(folded(story.events)?.consumables(at: .latest) == 3)
        #expect(folded(story.events)?.transactions.first?.settled.isRefunded == false)
        story.void("2026-05-20", order: "GPA.1", quantity: 3)
        #expect(folded(story.events)?.consumables(at: .latest) == 0)
        #expect(folded(story.events)?.transactions.first?.settled.isRefunded == true)
        #expect(folded(story.events)?.transactions.first?.settled.quantity == 5)
    }

    @Test("an answer with more units takes a refund back, and one without a number says nothing")
    func restored() {
        #expect(
            folded(Self.story([("2026-05-01", 5), ("2026-05-10", 3), ("2026-05-20", nil)]).events)?
                .consumables(at: .latest) == 3)
        let story = Self.story([("2026-05-01", 5), ("2026-05-10", 3), ("2026-05-20", 5)])
        #expect(folded(story.events)?.consumables(at: .latest) == 5)
        #expect(folded(story.events)?.transactions.first?.settled.revocationDate == nil)
    }

    @Test("numbers that are absurd do no harm")
    func absurd() throws {
        var story = Self.story([("2026-05-01", .max), ("2026-05-10", -1), ("2026-05-20", 1)], quantity: .max)
        story.void("2026-05-21", order: "GPA.1", quantity: .min)
        story.void("2026-05-22", order: "GPA.1", quantity: 7)
        #expect(folded(story.events)?.consumables(at: .latest) == 1)
        #expect(folded(story.events)?.transactions.first?.settled.quantity == .max)
        story.void("2026-05-23", order: "GPA.1", quantity: .max)
        story.void("2026-05-24", order: "GPA.1", quantity: .max)
        #expect(folded(story.events)?.consumables(at: .latest) == 0)
        #expect(folded(Self.story([("2026-05-01", 5)], quantity: -3).events)?.consumables(at: .latest) == 1)
    }

    @Test("one of three units is a third of the price", arguments: [(3, 2, 33_333), (7, 6, 14_286), (3, 1, 66_667)])
    func thirds(_ bought: Int, _ left: Int, _ percentage: Int) {
        let story = Self.story([("2026-05-01", bought), ("2026-05-10", left)], quantity: bought)
        let row = folded(story.events)?.transactions.first?.settled

        #expect(row?.revocationPercentage == percentage)
        #expect(row?.unitsLeft(at: .latest) == left)
    }

    @Test("a refund without revocation is counted, what is owned stays, and the history has both")
    func refundedAndOwned() throws {
        let story = Self.story([("2026-05-01", 1), ("2026-05-10", 0)], quantity: nil, product: "atlas")
        let subscription = try #require(folded(story.events))

        #expect(subscription.status(at: day("2026-06-01")) == .owned)
        #expect(subscription.transactions.first?.settled.refundedPart(of: 49_990, at: .latest) == 49_990)
        #expect(subscription.transactions.first?.settled.quantity == 1)
        let explained = ExplainedCustomers(
            story.facts.values, links: CustomerLinks([Int64: LinkStatement]()), policy: .standard)
        let customer = CustomerKey(.subscription, "t1")
        let explanation = explained.explanation(of: "atlas", for: customer, at: day("2026-06-01"))
        #expect(explanation.active)
        #expect(explanation.because.map(\.rule).contains(.unitsRefunded))
        let history = explained.lines(of: customer).flatMap { $0.chronicle(through: .latest) }
        #expect(history.filter { $0.at == day("2026-05-10") }.map(\.what) == ["refunded, and kept by the customer"])
    }

    @Test(
        "its events are the answer that shows the purchase and those that show what was refunded",
        arguments: Arrival.allCases)
    func evidence(_ arrival: Arrival) throws {
        let units = Self.story([("2026-05-01", 5), ("2026-05-10", 3), ("2026-05-20", 2)]).events
        var cancelled = Self.story([("2026-05-01", 1)], quantity: nil, product: "atlas")
        Self.add([("2026-05-10", 0)], to: &cancelled, quantity: nil, product: "atlas", state: "CANCELLED")

        for events in [units, cancelled.events] {
            let arrived = arrival.arrange(events)
            let row = try #require(folded(arrived)?.transactions.first)

            #expect(row.positions == events.indices.map { Int64($0) + 1 })
            // The access is that of the purchase, whatever was stored first.
            var seen: Set<DedupeKey> = []
            let first = arrived.map(\.dedupeKey).filter { seen.insert($0).inserted }.firstIndex(of: events[0].dedupeKey)
            let owned = folded(arrived, .empty)?.access.first { $0.cause == .owned }
            #expect(owned.map(\.position) == (events.count == 3 ? first.map { Int64($0) + 1 } : nil))
        }
    }

    // MARK: Consumption

    @Test("a consumed product that nobody declared is a consumable with a gap", arguments: Arrival.allCases)
    func consumed(_ arrival: Arrival) throws {
        var story = Self.story([("2026-05-01", 1)], quantity: 1)
        Self.add([("2026-05-02", 1)], to: &story, quantity: 1) { $0.isConsumed = true }
        let events = story.events
        let undeclared = try #require(folded(arrival.arrange(events), .empty))

        #expect(undeclared.access.isEmpty)
        #expect(undeclared.consumables(at: .latest) == 1)
        #expect(undeclared.transactions.first?.gap == .consumed)
        let declared = try #require(folded(events, Self.coins))
        #expect(declared.transactions.first?.gap == nil)
        let owned = try #require(folded(events, ProductCatalog(["coins": .nonConsumable])))
        #expect(owned.isActive(at: day("2026-06-01")))
        #expect(owned.transactions.first?.gap == nil)
    }

    @Test("a product that was not consumed, or of which nothing says so, is owned")
    func notConsumed() {
        for isConsumed in [nil, false] {
            let story = Self.story([("2026-05-01", 1)], quantity: 1) { $0.isConsumed = isConsumed }
            #expect(folded(story.events, .empty)?.status(at: day("2026-06-01")) == .owned)
            #expect(folded(story.events, .empty)?.transactions.first?.gap == nil)
        }
    }

    // MARK: Rentals

    private static let rented = story([("2026-05-01", 1)], quantity: 1, product: "film") {
        $0.isRental = true
        $0.purchaseOptionId = "rent-48h"
    }

    @Test("a rental lasts as long as its product, or its purchase option, is configured to")
    func rental() throws {
        let day2 = try #require(CalendarDuration(iso8601: "P2D"))
        let day7 = try #require(CalendarDuration(iso8601: "P7D"))
        for (products, end) in [
            (ProductCatalog(["film": .nonRenewing(day2)]), "2026-05-03"),
            (ProductCatalog(["film:rent-48h": .nonRenewing(day2)]), "2026-05-03"),
            (ProductCatalog(["film": .nonConsumable, "film:rent-48h": .nonRenewing(day2)]), "2026-05-03"),
            (ProductCatalog(["film": .nonRenewing(day7), "film:rent-48h": .nonRenewing(day2)]), "2026-05-03"),
        ] {
            let subscription = try #require(folded(Self.rented.events, products))
            #expect(subscription.accessSpans == [Span("2026-05-01", end)])
            #expect(subscription.transactions.first?.gap == nil)
            #expect(subscription.reportingPeriods.allSatisfy { $0.payerState == nil })
        }
    }

    @Test("a rental without a known duration gives no access for ever, and asks for the duration")
    func rentalWithoutDuration() throws {
        for products in [ProductCatalog.empty, ProductCatalog(["film": .nonConsumable])] {
            let subscription = try #require(folded(Self.rented.events, products))
            #expect(subscription.access.isEmpty)
            #expect(subscription.transactions.first?.gap == .duration)
            #expect(subscription.status(at: day("2027-05-01")) == .expired)
        }
        let explained = ExplainedCustomers(
            Self.rented.facts.values, links: CustomerLinks([Int64: LinkStatement]()), policy: .standard)
        #expect(
            explained.explanation(of: "film", for: CustomerKey(.subscription, "t1"), at: day("2026-05-02"))
                .because.map(\.rule) == [.notConfigured])
    }

    @Test("what is bought is owned, although the product can be rented as well")
    func bought() throws {
        let day2 = try #require(CalendarDuration(iso8601: "P2D"))
        let story = Self.story([("2026-05-01", 1)], quantity: 1, product: "film") { $0.purchaseOptionId = "buy" }
        let subscription = folded(story.events, ProductCatalog(["film:rent-48h": .nonRenewing(day2)]))

        #expect(subscription?.status(at: day("2027-01-01")) == .owned)
    }

    // MARK: Orders in advance

    @Test("what is ordered in advance is there from its release on", arguments: Arrival.allCases)
    func preorder(_ arrival: Arrival) throws {
        let early = Self.story([("2026-05-01", 1)], quantity: 1, product: "film") { $0.releaseTime = day("2026-06-01") }
        var moved = early
        Self.add([("2026-05-20", 1)], to: &moved, quantity: 1, product: "film") { $0.releaseTime = day("2026-07-01") }
        let once = try #require(folded(early.events, .empty))
        #expect(!once.isActive(at: day("2026-05-31")))
        #expect(once.status(at: day("2026-06-01")) == .owned)
        #expect(once.transactions.first?.transaction.originalPurchaseDate == day("2026-05-01"))

        let later = try #require(folded(arrival.arrange(moved.events), .empty))
        #expect(!later.isActive(at: day("2026-06-15")))
        #expect(later.status(at: day("2026-07-01")) == .owned)
    }

    @Test("an order in advance that was cancelled, and one whose release is over, are as any other")
    func preorderOver() throws {
        var cancelled = Self.story([("2026-05-01", 1)], quantity: 1, product: "film") {
            $0.releaseTime = day("2026-06-01")
        }
        cancelled.void("2026-05-10", order: "GPA.1")
        let past = Self.story([("2026-05-01", 1)], quantity: 1, product: "film") { $0.releaseTime = day("2026-04-01") }

        #expect(folded(cancelled.events, .empty)?.access.isEmpty == true)
        #expect(folded(past.events, .empty)?.access.map(\.start) == [day("2026-05-01")])
    }
}
