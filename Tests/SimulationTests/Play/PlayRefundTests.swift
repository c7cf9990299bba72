import Encoding
import PlayStore
import Simulation
import Subscriptions
import TestSupport
import Testing

@Suite("Money that the simulated Google Play pays back")
struct PlayRefundTests {
    @Test("a refund by amount takes no access, and only the order shows it, with every amount and its time")
    func amounts() throws {
        var life = newPlayLife()
        life.buy(plusMonthly, at: day("2025-01-10T12:00:00Z"))
        let order = life.orders[0]
        let messages = life.messages.count

        life.refund(amount: 2000, of: order.orderId, at: day("2025-01-12"))
        life.refund(amount: 1000, of: order.orderId, at: day("2025-01-14"))

        let shown = PlayJSON(life.orders[0].answer(at: day("2025-01-13"), rendering))
        let after = PlayJSON(life.orders[0].answer(at: day("2025-01-15"), rendering))
        #expect(shown["state"] == "PARTIALLY_REFUNDED" && after["state"] == "PARTIALLY_REFUNDED")
        func refunds(_ answer: PlayJSON) -> [[String: Any]] {
            let history = answer.json["orderHistory"] as? [String: Any]
            return history?["partialRefundEvents"] as? [[String: Any]] ?? []
        }
        #expect(refunds(shown).count == 1 && refunds(after).count == 2)
        let details = refunds(after)[1]["refundDetails"] as? [String: Any]
        #expect((details?["total"] as? [String: Any])?["units"] as? String == "1")
        #expect(life.messages.count == messages && life.voids.isEmpty && life.isActive("2025-01-20"))
        #expect(life.orders[0].refunded() == 3000)
    }

    /// The order is all that says how much was paid back.
    @Test(
        "of every story: what is folded from an order is what the books say was paid back",
        arguments: PlayStory.allCases)
    func folded(_ story: PlayStory) throws {
        var settings = PlayStoryteller.Settings()
        settings.seed = TestSeed.value
        settings.stories = [story]
        let rendering = PlayRendering(packageName: settings.packageName)
        var compared = 0
        for number in 0..<3 {
            let rendered = PlayStoryteller(settings).story(at: number)
            for order in rendered.orders {
                guard let body = order.answer(at: .latest, rendering) else { continue }
                let subject = PlayStatement.Subject(
                    packageName: settings.packageName, purchaseToken: try #require(PurchaseToken(order.purchaseToken)),
                    environment: .production)
                let event = try PlayStatement.answer(body, of: .order, about: subject, answeredAt: day("2026-07-01"))
                    .event
                guard case .order(let read)? = event.purchases.first else { continue }

                #expect(event.defects.isEmpty, "\(story.name): \(event.defects)")
                #expect(
                    read.refunds.map(\.amount).reduce(0, +) == order.refunded(),
                    "\(story.name) \(number), seed \(TestSeed.value): \(order)")
                #expect(
                    read.refunds.map(\.reasonName) == order.refunds.map { $0.isPartial ? nil : $0.reason.rawValue },
                    "\(story.name)")
                compared += 1
            }
        }
        #expect(compared > 0 || [.pendingCancelled, .promotion].contains(story))
    }
}
