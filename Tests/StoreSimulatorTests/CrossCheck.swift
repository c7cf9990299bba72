import AppStore
import StoreSimulator
import Subscriptions
import Testing

/// Folds what a run delivers with the product's own code, and compares with the storyteller's answers.
enum CrossCheck {
    struct Difference: CustomStringConvertible {
        let answer: Answer
        let description: String
    }

    /// When a body counts as received.
    enum Receipt: Sendable, CaseIterable {
        /// A little after its signing.
        case promptly
        /// All of them long after all that they tell, as after an outage.
        case late

        func instant(_ delivery: SimulatedDelivery) -> Instant {
            switch self {
            case .promptly: delivery.receivedAt
            case .late: day("2026-11-01")
            }
        }
    }

    static func differences(_ settings: Simulation.Settings, _ receipt: Receipt) async throws -> [Difference] {
        let simulation = try #require(Simulation(settings))
        var ledger = MemoryLedger()
        for delivery in simulation.deliveries {
            // Signing takes its time, and others wait for the same threads.
            await Task.yield()
            let receivedAt = receipt.instant(delivery)
            let event = try AppleNotification(decoding: delivery.body()).event(receivedAt: receivedAt)
            #expect(event.unknownFields.isEmpty, "\(delivery.story.name): \(event.unknownFields)")
            #expect(event.defects.isEmpty, "\(delivery.story.name): \(event.defects)")
            ledger.append(event, receivedAt: receivedAt)
        }
        let folded = Dictionary(
            uniqueKeysWithValues: ledger.subscriptions(products: [:]).map {
                ($0.subscription.originalTransactionId, $0.subscription)
            })
        return simulation.answers.filter { !$0.isIncomplete }.compactMap { answer in
            let line = folded[answer.originalTransactionId]
            let active = line?.isActive(at: answer.at) ?? false
            guard active != answer.active else { return nil }
            return Difference(
                answer: answer,
                description: """
                    \(answer.story.name) \(answer.originalTransactionId) at \(answer.at): the story says \
                    \(answer.active), the fold \(active) with \
                    \(line?.access.map { "\($0.start)..<\($0.end) \($0.cause)" } ?? [])
                    """)
        }
    }
}
