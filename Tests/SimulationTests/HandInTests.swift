import Encoding
import Simulation
import Subscriptions
import Testing

@Suite("Apps hand in a receipt after each purchase and restore")
struct HandInTests {
    private func simulation(_ stories: [Story] = Story.allCases, seed: UInt64 = 3) throws -> Simulation {
        var settings = Simulation.Settings(app: testApp)
        settings.seed = seed
        settings.app.receiptCharacters = 2000
        settings.subscriptions = 140
        settings.stories = stories
        return try #require(Simulation(settings))
    }

    @Test("hand-ins are in the order of time, the same for the same seed, and have every occasion")
    func run() throws {
        let handIns = try simulation().handIns
        let again = try simulation().handIns
        let other = try simulation(seed: 4).handIns

        #expect(handIns.map(\.at) == handIns.map(\.at).sorted())
        #expect(handIns.map(\.receipt) == again.map(\.receipt))
        #expect(Set(handIns.map(\.receipt)).isDisjoint(with: other.map(\.receipt)))
        #expect(Set(handIns.map(\.occasion)) == Set(SimulatedHandIn.Occasion.allCases))
    }

    @Test("a receipt that is handed in shows the purchase at that instant")
    func known() throws {
        let simulation = try simulation()

        for handIn in simulation.handIns {
            let answer = simulation.verifyReceipt.answer(
                to: receiptRequest(handIn.receipt), host: .production, at: handIn.at)
            var reading = ReceiptReading()
            try reading.add(answer.body)

            let rows = reading.rows.values.filter { $0.subscription == handIn.originalTransactionId }
            #expect(!rows.isEmpty, "\(handIn.account.story.name) at \(handIn.at)")
        }
    }

    static let stories: [(story: Story, occasions: [SimulatedHandIn.Occasion])] = [
        (.renewals, [.purchase]), (.resubscribeSame, [.purchase, .resubscription]), (.upgrade, [.purchase, .upgrade]),
        (.oneTimePurchase, [.oneTimePurchase, .oneTimePurchase]), (.restored, [.purchase, .restore]),
        (.linked, [.purchase, .purchase]), (.family, [.purchase, .restore]),
    ]

    @Test("each story hands in its purchases, and some accounts a restore on another device", arguments: stories)
    func occasions(story: Story, expected: [SimulatedHandIn.Occasion]) throws {
        let simulation = try simulation([story])
        var restores = 0

        for index in 0..<140 {
            let all = simulation.handIns(ofStory: index)
            let own = all.filter { handIn in
                let subscriptions = handIn.account.subscriptions
                return handIn.occasion != .restore || subscriptions.contains { $0.isRestored }
                    || subscriptions.contains { $0.customer.isFamilyMember }
            }
            restores += all.count - own.count
            #expect(own.map(\.occasion.rawValue).sorted() == expected.map(\.rawValue).sorted())
        }

        #expect((restores > 0) == ![.oneTimePurchase, .restored].contains(story))
    }

    @Test("the app user's token and the backend's customer are named if there are any")
    func customers() throws {
        let linked = try simulation([.linked]).handIns
        let family = try simulation([.family])
        let shared = try simulation([.sharedDevice]).handIns(ofStory: 0)

        #expect(linked.allSatisfy { $0.backendCustomerId?.hasPrefix("user-3-") == true })
        for handIn in family.handIns where handIn.account.subscriptions[0].customer.isFamilyMember {
            #expect(handIn.appAccountToken == nil)
        }
        #expect(family.handIns.contains { $0.appAccountToken != nil })
        #expect(shared.first?.appAccountToken != nil && shared.last?.appAccountToken != shared.first?.appAccountToken)
    }

    @Test("no id and no name of the app can be read in a receipt")
    func opaque() throws {
        for handIn in try simulation().handIns {
            let texts = [Base64.text(handIn.receipt), String(decoding: handIn.receipt, as: UTF8.self)]
            let words =
                [testApp.bundleId, handIn.originalTransactionId, handIn.appAccountToken].compactMap(\.self)
                + handIn.account.subscriptions.map(\.customer.appTransactionId)
            for text in texts { #expect(!words.contains { text.contains($0) }) }
        }
    }

    @Test("the receipt in a notification of version 1 is answered like one that was handed in")
    func notifications() throws {
        var settings = Simulation.Settings(app: testApp)
        settings.subscriptions = 35
        settings.format = .v1
        let simulation = try #require(Simulation(settings))

        for delivery in simulation.deliveries {
            let unified = try #require(try JSONDocument(delivery.body()).root["unified_receipt"])
            let text = try #require(unified.string("latest_receipt"))
            #expect(text.count == settings.app.receiptCharacters)
            let receipt = try #require(Base64.decode(Array(text.utf8)[...], .standard))
            let answer = simulation.verifyReceipt.answer(
                to: receiptRequest(receipt), host: .production, at: delivery.signedDate)
            var reading = ReceiptReading()
            try reading.add(answer.body)
            #expect(reading.rows.values.contains { $0.subscription == delivery.originalTransactionId })
        }
    }
}
