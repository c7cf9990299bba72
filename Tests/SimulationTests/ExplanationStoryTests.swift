import AppStore
import Encoding
import Simulation
import Subscriptions
import TestSupport
import Testing

/// The explanations of the fold against the books of the simulator, which know each reason from the story itself.
@Suite("Explanations are those of the storyteller's books, before and after each notification")
struct ExplanationStoryTests {
    /// A notification with the books after it.
    private struct Step {
        let notification: StoreNotification
        let books: AccessBook
    }

    private static func steps(_ subscription: SimulatedSubscription) -> [Step] {
        zip(subscription.notifications, subscription.notifiedBooks)
            .map { Step(notification: $0, books: $1.access) }
    }

    @Test("of every story", arguments: Story.allCases)
    func stories(_ story: Story) throws {
        let signer = JWSSigner(.standard)
        let teller = Storyteller(seed: TestSeed.value, stories: [story], app: testApp.bundleId)
        let mapping = Dictionary(
            uniqueKeysWithValues: Product.all(of: testApp.bundleId).map { ($0.id, $0.entitlements) })
        var compared = 0
        for number in 0..<3 {
            for subscription in teller.story(at: number).subscriptions {
                let names = Set(subscription.products.flatMap(\.entitlements)).sorted()
                var facts = SubscriptionFacts(originalTransactionId: subscription.originalTransactionId)
                var sent: [StoreNotification] = []
                for step in Self.steps(subscription) {
                    guard
                        let notification = step.notification.version2Notification(
                            app: testApp, customer: subscription.customer)
                    else { continue }
                    sent.append(step.notification)
                    let receivedAt = step.notification.signedDate.advanced(byMilliseconds: 1500)
                    let event = try AppleNotification(decoding: notification.body(signer)).event(receivedAt: receivedAt)
                    facts.fold(
                        event.facts, occurredAt: event.occurredAt, receivedAt: receivedAt, position: Int64(sent.count))
                    let explained = ExplainedCustomers(
                        [facts], links: CustomerLinks([Int64: LinkStatement]()), policy: .shared, entitlements: mapping)
                    let owner = try #require(explained.customers.ownership.first?.owner)
                    for name in names {
                        for at in subscription.access.instants(and: step.notification.signedDate) {
                            Self.expected(name, at, step, sent).check(
                                explained.explanation(of: name, for: owner, at: at),
                                "seed \(TestSeed.value), \(number), after \(sent.count)")
                            compared += 1
                        }
                    }
                }
            }
        }
        #expect(compared > 20)
    }

    private static func expected(
        _ entitlement: String, _ instant: Instant, _ step: Step, _ sent: [StoreNotification]
    ) -> ExpectedExplanation {
        let reason = step.books.reason(for: entitlement, at: instant)
        let isBought = step.notification.purchases.contains { $0.product.entitlements.contains(entitlement) }
        return ExpectedExplanation(
            reason: reason, evidence: reason?.version2Evidence(sent),
            otherwise: [isBought ? .noAccessKind : .noPurchase])
    }
}
