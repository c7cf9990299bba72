import AppStore
import Encoding
import Subscriptions
import Testing

@Suite("One-time purchases in signed notifications")
struct V2OneTimeTests {
    private let id = "3000000000000001"
    private var nonConsumable: JSON { v2Purchase(id, "2024-03-01", type: "Non-Consumable") }

    private func charge(_ row: JSON, at date: String = "2024-03-01") -> V2Body {
        V2Body("ONE_TIME_CHARGE", at: date, row)
    }

    @Test("a non-consumable is owned from its purchase", arguments: Arrival.allCases)
    func owned(arrival: Arrival) throws {
        let subscription = try folded([charge(nonConsumable)], arrival, subscription: id)

        #expect(subscription.spans == [Span(day("2024-03-01"), .latest)])
        #expect(subscription.access.map(\.cause) == [.owned])
        #expect(subscription.status(at: day("2024-02-29")) == .never)
        #expect(subscription.status(at: day("2024-03-01")) == .owned)
        #expect(subscription.status(at: day("2090-01-01")) == .owned)
    }

    @Test(
        "a refunded non-consumable counts as never bought and is owned again after the reversal",
        arguments: Arrival.allCases)
    func refunded(arrival: Arrival) throws {
        let refund = V2Body("REFUND", at: "2024-04-01", nonConsumable.refunded("2024-04-01", type: "REFUND_FULL"))
        let reversal = V2Body("REFUND_REVERSED", at: "2024-05-01", nonConsumable)

        let gone = try folded([charge(nonConsumable), refund], arrival, subscription: id)
        let back = try folded([charge(nonConsumable), refund, reversal], arrival, subscription: id)

        #expect(gone.access == [])
        #expect(gone.status(at: day("2024-04-01")) == .refunded)
        #expect(back.spans == [Span(day("2024-03-01"), .latest)])
        #expect(back.status(at: day("2024-05-01")) == .owned)
    }

    @Test("a family member owns a shared non-consumable until it is revoked", arguments: Arrival.allCases)
    func family(arrival: Arrival) throws {
        let shared = nonConsumable.with(["inAppOwnershipType": "FAMILY_SHARED"])
        let revoked = V2Body("REVOKE", at: "2024-04-01", shared.refunded("2024-04-01"))

        let subscription = try folded([charge(shared), revoked], arrival, subscription: id)

        #expect(subscription.spans == [Span("2024-03-01", "2024-04-01")])
        #expect(subscription.status(at: day("2024-04-01")) == .revoked)
    }

    @Test("consumables are counted with their quantity and give no period", arguments: Arrival.allCases)
    func consumables(arrival: Arrival) throws {
        let row = v2Purchase(id, "2024-03-01", type: "Consumable", quantity: 3)

        let subscription = try folded([charge(row)], arrival, subscription: id)

        #expect(subscription.consumables(at: day("2024-03-01")) == 3)
        #expect(subscription.consumables(at: day("2030-01-01")) == 3)
        #expect((subscription.consumables(at: day("2024-02-29")) ?? 0) == 0)
        #expect(subscription.access == [])
    }

    @Test("a refunded consumable is not counted, and is counted again after the reversal", arguments: Arrival.allCases)
    func refundedConsumable(arrival: Arrival) throws {
        let row = v2Purchase(id, "2024-03-01", type: "Consumable", quantity: 2)
        let refund = V2Body("REFUND", at: "2024-04-01", row.refunded("2024-04-01"))
        let reversal = V2Body("REFUND_REVERSED", at: "2024-05-01", row)

        let gone = try folded([charge(row), refund], arrival, subscription: id)
        let back = try folded([charge(row), refund, reversal], arrival, subscription: id)

        #expect((gone.consumables(at: day("2024-06-01")) ?? 0) == 0)
        #expect(back.consumables(at: day("2024-06-01")) == 2)
    }

    @Test(
        "a partial refund removes its share of the quantity from its date, in whole units",
        arguments: [
            (5, 20_000, 4), (5, 50_000, 3), (1, 50_000, 1), (5, 100_000, 0), (5, 0, 5), (5, nil, 0), (5, -1, 5),
            (5, 100_001, 0),
        ] as [(Int, Int?, Int)])
    func consumableRefundedInPart(quantity: Int, percentage: Int?, left: Int) throws {
        let row = v2Purchase(id, "2024-03-01", type: "Consumable", quantity: quantity)
        var part = row.refunded("2024-04-01", type: "REFUND_PRORATED")
        part["revocationPercentage"] = percentage.map { .raw(String($0)) }

        for arrival in Arrival.allCases {
            let subscription = try folded(
                [charge(row), V2Body("REFUND", at: "2024-04-01", part)], arrival, subscription: id)

            #expect(subscription.consumables(at: day("2024-03-31")) == quantity)
            #expect(subscription.consumables(at: day("2024-04-01")) == left)
            #expect(subscription.status(at: day("2024-04-01")) == (left > 0 ? .owned : .refunded))
            #expect(subscription.transactions.first?.transaction.revocationPercentage == percentage)
        }
    }

    @Test("an unknown product type without an expiry is a defect and is not owned permanently")
    func unknownType() throws {
        let lease = charge(v2Purchase(id, "2024-03-01", type: "Timed Lease"))
        let products = [testBundle: ProductCatalog(["com.example.magazine.extra": .nonConsumable])]

        let event = try lease.event()
        let unknown = try MemoryLedger(arriving: [event]).subscription(id)
        let configured = try MemoryLedger(arriving: [event]).subscription(id, products: products)

        #expect(unknown.access == [])
        #expect(unknown.status(at: day("2090-01-01")) == .expired)
        #expect(event.defects.map(\.path) == ["data.signedTransactionInfo.type"])
        #expect(configured.status(at: day("2090-01-01")) == .owned)
    }

    @Test("an unknown product type with an expiry gives access for its dates")
    func unknownTypeWithExpiry() throws {
        let row = v2Row("1000000000000001", "2024-03-01", "2024-04-01").with(["type": "Timed Lease"])

        let subscription = try folded([V2Body("SUBSCRIBED", "INITIAL_BUY", at: "2024-03-01", row)])

        #expect(subscription.spans == [Span("2024-03-01", "2024-04-01")])
    }

    @Test("a subscription has no count of consumables")
    func none() throws {
        #expect(try folded(V2MagazineVariant.base.bodies).consumables(at: day("2018-03-01")) == nil)
    }

    @Test("a non-renewing subscription lasts for its configured duration", arguments: Arrival.allCases)
    func nonRenewing(arrival: Arrival) throws {
        let row = v2Purchase(id, "2024-01-31", type: "Non-Renewing Subscription")
        let month = try #require(CalendarDuration(iso8601: "P1M"))
        let products = [testBundle: ProductCatalog(["com.example.magazine.extra": .nonRenewing(month)])]

        let ledger = MemoryLedger(arriving: arrival.arrange([try charge(row, at: "2024-01-31").event()]))

        #expect(
            try ledger.subscription(id, products: products).spans == [Span("2024-01-31", "2024-02-29")])
    }

    @Test("a non-renewing subscription without a configured duration is not owned permanently")
    func nonRenewingNotConfigured() throws {
        let row = v2Purchase(id, "2024-01-31", type: "Non-Renewing Subscription")

        let subscription = try folded([charge(row, at: "2024-01-31")], subscription: id)

        #expect(!subscription.isActive(at: day("2090-01-01")))
        #expect(subscription.status(at: day("2090-01-01")) != .owned)
    }
}
