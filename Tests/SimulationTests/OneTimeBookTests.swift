import AppStore
import Simulation
import Subscriptions
import Testing

@Suite("One-time purchases have the same units and access in the simulator's books and in the fold")
struct OneTimeBookTests {
    private func life(_ product: Product, quantity: Int = 1) -> OneTimeLife {
        OneTimeLife(
            buying: product, quantity: quantity, at: day("2025-01-10"), customer: newLife().customer,
            identifiers: Identifiers(seed: 7, index: 1, subscription: 0))
    }

    /// Folds the notifications of the purchase, in version 1 if version 1 sends them and in version 2 otherwise.
    private func folded(_ life: OneTimeLife) throws -> Subscription {
        var ledger = MemoryLedger()
        for notification in life.notifications {
            let signer = JWSSigner(.standard)
            let body = try #require(
                notification.version1Body(app: testApp, customer: life.customer)
                    ?? notification.version2Notification(app: testApp, customer: life.customer)?.body(signer))
            let event = try AppleNotification(decoding: body).event(receivedAt: notification.signedDate)
            #expect(event.defects.isEmpty)
            ledger.append(event, receivedAt: notification.signedDate)
        }
        return try #require(ledger.subscriptions(products: [:]).first?.subscription)
    }

    @Test(
        "a prorated refund removes the units that are refunded completely",
        arguments: [(20_000, 4), (50_000, 3), (99_000, 1), (100_000, 0)])
    func refundInPart(percentage: Int, left: Int) throws {
        var coins = life(.consumable(of: testApp.bundleId), quantity: 5)
        coins.refundPart(percentage: percentage, at: day("2025-02-01"))

        let subscription = try folded(coins)

        #expect(coins.units(at: day("2025-02-01")) == left)
        for date in ["2025-01-09", "2025-01-10", "2025-01-31T23:59:59.999Z", "2025-02-01", "2026-01-01"] {
            #expect(subscription.consumables(at: day(date)) == coins.units(at: day(date)), "\(date)")
        }
    }

    @Test("a version 1 refund removes a consumable, which is not in the receipt")
    func refundOfConsumable() throws {
        var coins = life(.consumable(of: testApp.bundleId), quantity: 5)
        coins.refund(at: day("2025-02-01"))

        let subscription = try folded(coins)

        #expect(coins.notifications.last?.version1 == "REFUND")
        #expect(subscription.transactions.count == 1)
        #expect(subscription.consumables(at: day("2025-02-01")) == coins.units(at: day("2025-02-01")))
        #expect(coins.units(at: day("2025-02-01")) == 0)
    }

    @Test("a version 1 refund ends access to a non-consumable")
    func refundOfOwned() throws {
        var owned = life(.nonConsumable(of: testApp.bundleId))
        owned.refund(at: day("2025-02-01"))

        let subscription = try folded(owned)

        for date in ["2025-01-10", "2025-02-01", "2090-01-01"] {
            #expect(subscription.isActive(at: day(date)) == owned.access.isActive(at: day(date)), "\(date)")
        }
        #expect(subscription.status(at: day("2025-02-01")) == .refunded)
    }
}
