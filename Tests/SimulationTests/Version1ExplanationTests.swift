import AppStore
import Encoding
import Simulation
import Subscriptions
import TestSupport
import Testing

/// Each notification of version 1 has the whole receipt, so the evidence of a rule is the first one that shows it.
@Suite("Explanations of version 1 are those of the storyteller's books, before and after each notification")
struct Version1ExplanationTests {
    /// The number of the notification that first shows what the rule rests on, counted from 1.
    private static func evidence(_ reason: AccessReason, _ sent: [StoreNotification]) -> Int? {
        func first(_ shows: (StoreNotification, Purchase) -> Bool) -> Int? {
            sent.firstIndex { notification in
                notification.purchases.first { $0.transactionId == reason.transactionId }
                    .map { shows(notification, $0) } ?? false
            }.map { $0 + 1 }
        }
        func isCurrent(_ notification: StoreNotification) -> Bool {
            notification.purchases.last?.transactionId == reason.transactionId
        }
        switch reason.kind {
        case .paid, .owned: return first { _, _ in true }
        case .extended:
            let end = sent.last?.purchases.first { $0.transactionId == reason.transactionId }?.expiresDate
            return first { $1.expiresDate == end }
        case .grace:
            return first { notification, _ in
                isCurrent(notification) && notification.renewalPreference?.graceEnd != nil
            }
        case .switchedOffInGrace:
            return first { notification, _ in
                isCurrent(notification) && notification.renewalPreference?.isOn == false
            }
        case .upgraded:
            // What ends grace is shown by the purchase of the other plan alone.
            return first { $1.upgradedAt != nil }
                ?? first { notification, _ in
                    notification.purchases.last.map { $0.transactionId > reason.transactionId } ?? false
                }
        case .refunded, .refundedPart, .graceTakenBack, .familyRevoked, .assignmentRevoked:
            return first { $1.revocation != nil }
        case .over, .revoked, .endedByStatus: return nil
        }
    }

    /// What version 1 can say: it shows an extension only by the end of the purchase, so an end that no earlier
    /// notification contradicts counts as the first one.
    private static func shown(_ reason: AccessReason, _ sent: [StoreNotification]) -> AccessReason {
        guard reason.kind == .extended else { return reason }
        let ends = sent.flatMap(\.purchases).filter { $0.transactionId == reason.transactionId }.map(\.expiresDate)
        return Set(ends).count > 1 ? reason : reason.asPaid
    }

    /// Version 1 does not say that the store ended grace early.
    @Test("of every story", arguments: Story.allCases.filter { $0 != .graceEndedEarly })
    func stories(_ story: Story) throws {
        let teller = Storyteller(seed: TestSeed.value, stories: [story], app: testApp.bundleId)
        let mapping = Dictionary(
            uniqueKeysWithValues: Product.all(of: testApp.bundleId).map { ($0.id, $0.entitlements) })
        var app = testApp
        app.receiptCharacters = 64
        var compared = 0
        for number in 0..<3 {
            for subscription in teller.story(at: number).subscriptions {
                let names = Set(subscription.products.flatMap(\.entitlements)).sorted()
                var facts = SubscriptionFacts(originalTransactionId: subscription.originalTransactionId)
                var sent: [StoreNotification] = []
                let books = subscription.notifiedBooks.map(\.access)
                for (notification, access) in zip(subscription.notifications, books) {
                    // Version 1 has no prorated refunds, and no consumables in its receipt.
                    guard !notification.purchases.contains(where: { $0.revocation?.kind == .prorated }),
                        notification.subject.product.kind != .consumable,
                        let body = notification.version1Body(app: app, customer: subscription.customer)
                    else { continue }
                    sent.append(notification)
                    let receivedAt = notification.signedDate.advanced(byMilliseconds: 1500)
                    let event = try AppleNotification(decoding: body).event(receivedAt: receivedAt)
                    facts.fold(
                        event.facts, occurredAt: event.occurredAt, receivedAt: receivedAt, position: Int64(sent.count))
                    let explained = ExplainedCustomers(
                        [facts], links: CustomerLinks([Int64: LinkStatement]()), policy: .shared, entitlements: mapping)
                    let owner = try #require(explained.customers.ownership.first?.owner)
                    for name in names {
                        for at in subscription.access.instants(and: notification.signedDate) {
                            let reason = access.reason(for: name, at: at).map { Self.shown($0, sent) }
                            let expected = ExpectedExplanation(
                                reason: reason, evidence: reason.flatMap { Self.evidence($0, sent) })
                            expected.check(
                                explained.explanation(of: name, for: owner, at: at),
                                "seed \(TestSeed.value), \(number), after \(sent.count)")
                            compared += 1
                        }
                    }
                }
            }
        }
        #expect(compared > 20 || story == .oneTimePurchase)
    }
}
