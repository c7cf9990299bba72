import AppStore
import Encoding
import StoreSimulator
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
        // Each notification makes an entry, and so does a restore, before all notifications.
        zip(subscription.notifications, subscription.history.suffix(subscription.notifications.count))
            .map { Step(notification: $0, books: $1.access) }
    }

    /// The number of the notification that states what the rule rests on, counted from 1 among those of version 2.
    private static func evidence(_ reason: AccessReason, _ sent: [StoreNotification]) -> Int? {
        func first(_ isEvidence: (StoreNotification) -> Bool) -> Int? {
            sent.firstIndex(where: isEvidence).map { $0 + 1 }
        }
        func isAbout(_ notification: StoreNotification) -> Bool {
            notification.subject.transactionId == reason.transactionId
        }
        switch reason.kind {
        case .paid, .owned: return first(isAbout)
        case .extended: return first { isAbout($0) && $0.version2?.type == "RENEWAL_EXTENDED" }
        case .grace: return first { $0.version2 == StoreNotification.Name("DID_FAIL_TO_RENEW", "GRACE_PERIOD") }
        case .switchedOffInGrace:
            return sent.lastIndex { $0.version2?.subtype == "AUTO_RENEW_DISABLED" }.map { $0 + 1 }
        case .upgraded: return first { $0.version2?.subtype == "UPGRADE" }
        case .refunded, .refundedPart, .graceTakenBack:
            return first { isAbout($0) && $0.version2?.type == "REFUND" }
        case .familyRevoked: return first { isAbout($0) && $0.version2?.type == "REVOKE" }
        case .over: return nil
        }
    }

    /// The instants at which something begins or ends in the books, and their neighbours.
    private static func instants(_ step: Step, _ all: AccessBook) -> [Instant] {
        let boundaries = all.boundaries.filter { $0 < .latest } + [step.notification.signedDate]
        return Set(boundaries.flatMap { [$0.advanced(byMilliseconds: -1), $0, $0.advanced(byMilliseconds: 1)] })
            .sorted()
    }

    @Test("of every story", arguments: StoreSimulator.Story.allCases)
    func stories(_ story: StoreSimulator.Story) throws {
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
                    for (name, at) in names.flatMap({ name in
                        Self.instants(step, subscription.access).map { (name, $0) }
                    }) {
                        let explanation = explained.explanation(of: name, for: owner, at: at)
                        let message = "seed \(TestSeed.value), \(number), after \(sent.count): \(explanation.sentence)"
                        check(explanation, step, sent, message)
                        compared += 1
                    }
                }
            }
        }
        #expect(compared > 20)
    }

    private func check(
        _ explanation: Explanation, _ step: Step, _ sent: [StoreNotification], _ message: String
    ) {
        let decisive = explanation.because.first
        guard let expected = step.books.reason(for: explanation.entitlement, at: explanation.at) else {
            let bought = step.notification.purchases.filter {
                $0.product.entitlements.contains(explanation.entitlement)
            }
            let rule = bought.isEmpty ? ExplanationRule.noPurchase : .noAccessKind
            #expect(!explanation.active && decisive?.rule == rule, "\(message)")
            return
        }
        #expect(decisive?.rule.rawValue == expected.kind.rawValue, "expected \(expected): \(message)")
        #expect(decisive?.transactionId == expected.transactionId, "expected \(expected): \(message)")
        if let evidence = Self.evidence(expected, sent), !expected.wasGivenBack {
            #expect(decisive?.positions == [Int64(evidence)], "expected event \(evidence): \(message)")
        }
        // A reversed refund is among the reasons why the purchase counts.
        if expected.wasGivenBack, expected.kind == .paid {
            #expect(explanation.because.contains { $0.rule == .laterStatementWins }, "\(message)")
        }
    }
}
