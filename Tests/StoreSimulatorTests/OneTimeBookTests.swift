import AppStore
import StoreSimulator
import Subscriptions
import Testing

@Suite("What is bought once, in the storyteller's book and in the fold")
struct OneTimeBookTests {
    private func life(_ product: Product, quantity: Int = 1) -> OneTimeLife {
        OneTimeLife(
            buying: product, quantity: quantity, at: day("2025-01-10"), customer: newLife().customer,
            identifiers: Identifiers(seed: 7, index: 1, line: 0))
    }

    /// The line as its notifications tell of it: those of version 1 where there is one, else those of version 2.
    private func folded(_ life: OneTimeLife) throws -> Subscription {
        var ledger = MemoryLedger()
        for telling in life.tellings {
            let signer = JWSSigner(.standard)
            let body = try #require(
                telling.version1Body(app: testApp, customer: life.customer)
                    ?? telling.version2Notification(app: testApp, customer: life.customer)?.body(signer))
            let event = try AppleNotification(decoding: body).event(receivedAt: telling.signedDate)
            #expect(event.defects.isEmpty)
            ledger.append(event, receivedAt: telling.signedDate)
        }
        return try #require(ledger.subscriptions(products: [:]).first?.subscription)
    }

    @Test("a refund in part takes whole units", arguments: [(20_000, 4), (50_000, 3), (99_000, 1), (100_000, 0)])
    func refundInPart(percentage: Int, left: Int) throws {
        var coins = life(.consumable(of: testApp.bundleId), quantity: 5)
        coins.refundPart(percentage: percentage, at: day("2025-02-01"))

        let line = try folded(coins)

        #expect(coins.units(at: day("2025-02-01")) == left)
        for date in ["2025-01-09", "2025-01-10", "2025-01-31T23:59:59.999Z", "2025-02-01", "2026-01-01"] {
            #expect(line.consumables(at: day(date)) == coins.units(at: day(date)), "\(date)")
        }
    }

    @Test("a refund told by version 1 takes back a consumable, which is not in the receipt")
    func refundOfConsumable() throws {
        var coins = life(.consumable(of: testApp.bundleId), quantity: 5)
        coins.refund(at: day("2025-02-01"))

        let line = try folded(coins)

        #expect(coins.tellings.last?.version1 == "REFUND")
        #expect(line.transactions.count == 1)
        #expect(line.consumables(at: day("2025-02-01")) == coins.units(at: day("2025-02-01")))
        #expect(coins.units(at: day("2025-02-01")) == 0)
    }

    @Test("a refund told by version 1 takes back a non-consumable")
    func refundOfOwned() throws {
        var owned = life(.nonConsumable(of: testApp.bundleId))
        owned.refund(at: day("2025-02-01"))

        let line = try folded(owned)

        for date in ["2025-01-10", "2025-02-01", "2090-01-01"] {
            #expect(line.isActive(at: day(date)) == owned.access.isActive(at: day(date)), "\(date)")
        }
        #expect(line.status(at: day("2025-02-01")) == .refunded)
    }
}
