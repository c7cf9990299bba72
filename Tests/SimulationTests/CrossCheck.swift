import AppStore
import Encoding
import Simulation
import Subscriptions
import Testing

/// Folds the deliveries of a run with the server's code and compares the result with the expected answers.
enum CrossCheck {
    struct Difference: CustomStringConvertible {
        let answer: Answer
        let description: String
    }

    /// The `receivedAt` of a body.
    enum Receipt: Sendable, CaseIterable {
        /// Shortly after its signing.
        case promptly
        /// Long after all events of the run, as after an outage.
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
            // Signing is slow, and other tests need the same threads.
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
            let subscription = folded[answer.originalTransactionId]
            let active = subscription?.isActive(at: answer.at) ?? false
            guard active != answer.active else { return nil }
            return Difference(
                answer: answer,
                description: """
                    \(answer.story.name) \(answer.originalTransactionId) at \(answer.at): expected \
                    \(answer.active), folded to \(active) with \
                    \(subscription?.access.map { "\($0.start)..<\($0.end) \($0.cause)" } ?? [])
                    """)
        }
    }
}
