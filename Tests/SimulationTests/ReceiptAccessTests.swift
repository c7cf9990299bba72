import Encoding
import Simulation
import Subscriptions
import TestSupport
import Testing

/// Reads the answers independently of the simulator's books and of the server.
@Suite("The answers to receipts agree with the simulator's books")
struct ReceiptAccessTests {
    private static let stories = TestScale.count(70, full: 140)

    private func simulation(_ stories: [Story] = Story.allCases) throws -> Simulation {
        var settings = Simulation.Settings(app: testApp)
        settings.app.receiptCharacters = 400
        settings.seed = TestSeed.value
        settings.subscriptions = Self.stories
        settings.stories = stories
        return try #require(Simulation(settings))
    }

    /// The instants of all events and of all boundaries of access, the milliseconds around them, and random ones.
    private func instants(of account: SimulatedAccount, _ random: inout SeededGenerator) -> [Instant] {
        let events = account.subscriptions.flatMap { $0.history.map(\.at) + $0.access.boundaries }
        let window = day("2025-01-01").milliseconds...day("2026-06-30").milliseconds
        let anywhere = (0..<20).compactMap { _ in Instant(milliseconds: Int64.random(in: window, using: &random)) }
        let near = events.flatMap { [$0.advanced(byMilliseconds: -1), $0, $0.advanced(byMilliseconds: 1)] }
        return Set(near + anywhere).filter { account.firstPurchase <= $0 && $0 < .latest }.sorted()
    }

    @Test("at every instant the answer gives access if and only if the books do")
    func access() throws {
        let simulation = try simulation()
        var random = TestSeed.generator()
        var styles: Set<ReceiptStyle> = []
        var graces = 0
        for index in 0..<Self.stories {
            for account in simulation.storyteller.accounts(ofStory: index) {
                styles.insert(account.style)
                let old = simulation.receipt(of: account, createdAt: account.firstPurchase)
                var reading = ReceiptReading()
                for instant in instants(of: account, &random) {
                    // Only accounts with subscriptions have more in the answer than in the receipt.
                    let receipt =
                        account.hasSubscription ? old : simulation.receipt(of: account, createdAt: instant)
                    let answer = simulation.verifyReceipt.answer(
                        to: receiptRequest(receipt), host: .production, at: instant)
                    #expect(answer.status == 0 || (account.style == .transaction && answer.status == 21006))
                    // One-time purchases that were handed in before are not read again.
                    if account.style == .app { reading = ReceiptReading() }
                    try reading.add(answer.body)

                    for subscription in account.subscriptions {
                        let expected = subscription.books(at: instant)?.access.isActive(at: instant) ?? false
                        let id = subscription.originalTransactionId
                        #expect(
                            reading.isActive(id, at: instant) == expected,
                            "\(account.story.name) \(id) at \(instant), \(account.style)")
                        if expected, !reading.isPaid(id, at: instant) { graces += 1 }
                    }
                    for (id, pending) in reading.pending {
                        #expect(pending.isInTable(at: instant), "\(account.story.name) \(id) at \(instant): \(pending)")
                    }
                }
            }
        }
        #expect(styles == [.app, .transaction])
        #expect(graces > 20)
    }

    @Test("the last answer shows all paid periods of the past")
    func past() throws {
        let simulation = try simulation()
        var random = TestSeed.generator(1)
        let end = day("2026-07-01")
        for index in 0..<Self.stories {
            for account in simulation.storyteller.accounts(ofStory: index) where account.style == .app {
                let receipt = simulation.receipt(of: account, createdAt: end)
                var reading = ReceiptReading()
                try reading.add(
                    simulation.verifyReceipt.answer(to: receiptRequest(receipt), host: .production, at: end).body)

                for subscription in account.subscriptions {
                    // A receipt does not show that a refund was of the rest of the period only.
                    let prorated = subscription.purchases.first { $0.revocation?.kind == .prorated }
                    for instant in instants(of: account, &random) where instant <= end {
                        let paid = subscription.access.holder(at: instant, grace: false)
                        let expected = paid != nil && paid != prorated?.transactionId
                        #expect(
                            reading.isPaid(subscription.originalTransactionId, at: instant) == expected,
                            "\(account.story.name) \(subscription.originalTransactionId) at \(instant)")
                    }
                }
            }
        }
    }

    @Test("a restore on another device adds a row of the same period with another transaction id")
    func restoredCopy() throws {
        let simulation = try simulation([.renewals])
        let handIn = try #require(simulation.handIns.first { $0.occasion == .restore })
        let before = simulation.verifyReceipt.answer(
            to: receiptRequest(handIn.receipt), host: .production, at: handIn.at.advanced(byMilliseconds: -1))
        let after = simulation.verifyReceipt.answer(
            to: receiptRequest(handIn.receipt), host: .production, at: handIn.at)

        func rows(_ answer: VerifyReceipt.Answer) throws -> [JSONValue] {
            try #require(try JSONDocument(answer.body).root["latest_receipt_info"]).elements
        }
        let known = Set(try rows(before).compactMap { $0.string("transaction_id") })
        let copy = try #require(try rows(after).first { !known.contains($0.string("transaction_id") ?? "") })
        let original = try #require(
            try rows(before).first {
                $0.string("web_order_line_item_id") == copy.string("web_order_line_item_id")
            })

        #expect(copy.string("original_transaction_id") == original.string("original_transaction_id"))
        #expect(copy.string("purchase_date_ms") == original.string("purchase_date_ms"))
        #expect(copy.string("expires_date_ms") == original.string("expires_date_ms"))
    }

    @Test("accounts without purchases of subscriptions have in_app only, and finished consumables are gone from it")
    func oneTimePurchases() throws {
        let simulation = try simulation([.oneTimePurchase])
        let consumable = try #require(
            simulation.storyteller.accounts(ofStory: 0).first {
                $0.subscriptions[0].purchases[0].product.kind == .consumable
            })
        let bought = consumable.firstPurchase
        func answer(createdAfter milliseconds: Int64) throws -> JSONValue {
            let created = bought.advanced(byMilliseconds: milliseconds)
            let receipt = simulation.receipt(of: consumable, createdAt: created)
            return try JSONDocument(
                simulation.verifyReceipt.answer(
                    to: receiptRequest(receipt, password: nil), host: .production, at: day("2026-06-30")
                ).body
            ).root
        }

        let early = try answer(createdAfter: 1000)
        let late = try answer(createdAfter: 3_600_000)

        #expect(early["receipt"]?["in_app"]?.elements.count == 1)
        #expect(late["receipt"]?["in_app"]?.elements.isEmpty == true)
        for answer in [early, late] {
            #expect(answer["status"]?.int64 == 0)
            #expect(answer["latest_receipt_info"] == nil && answer["latest_receipt"] == nil)
            #expect(answer["pending_renewal_info"] == nil)
        }
    }
}
