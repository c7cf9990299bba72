import Encoding
import Subscriptions
import TestSupport
import Testing

/// The invariants of the fold, tested on thousands of generated subscriptions. A failure has the number of the story.
@Suite("Invariants of the fold")
struct InvariantTests {
    private func stories(
        _ count: Int, from first: Int,
        allowing allowed: Set<Story.StepKind> = [.restore, .refund, .reversal, .upgrade],
        _ check: (Story, inout SeededGenerator) throws -> String?
    ) rethrows {
        var failures: [String] = []
        for number in first..<first + count {
            var generator = TestSeed.generator(-number & 0xFFFF_FFFF)
            let story = Story(TestSeed.generator(number), allowing: allowed)
            if let failure = try check(story, &generator) { failures.append("story \(number): \(failure)") }
        }
        let message = "seed \(TestSeed.value), \(failures.count) of \(count): \(failures.prefix(3))"
        #expect(failures.isEmpty, "\(message)")
    }

    @Test("access follows the rules at every boundary, for events in order, reversed, shuffled and repeated")
    func agreesWithTheRules() {
        stories(2500, from: 0) { story, generator in
            let arrivals = [
                story.told, story.told.reversed(), story.told.shuffled(using: &generator),
                (story.told + story.told).shuffled(using: &generator),
            ]
            let probes = story.probes
            let expected = probes.map { story.isEntitled(at: $0) }
            // A reversal that arrives before its refund reverses nothing, so there may be less access.
            let hasReversal = story.steps.contains { $0.kind == .reversal }
            for (index, told) in arrivals.enumerated() {
                let subscription = Subscription(arriving: told)
                for (probe, isEntitled) in zip(probes, expected)
                where subscription.isActive(at: probe) != isEntitled && !(isEntitled && hasReversal && index > 0) {
                    return "arrival \(index), \(probe) should be \(isEntitled): \(story.steps.map(\.kind))"
                }
            }
            return nil
        }
    }

    @Test("the same deliveries in any order and any number of times give the same bytes (1)")
    func orderAndRepeats() throws {
        stories(2000, from: 10_000) { story, generator in
            let deliveries = story.told.enumerated().map { index, told in
                Delivery(
                    told: told, receivedAt: SubscriptionFacts.arrival(index * 10), position: Int64(index * 3 + 1))
            }
            let again = deliveries.map { delivery in
                Delivery(
                    told: delivery.told, receivedAt: delivery.receivedAt.advanced(byMilliseconds: 5),
                    position: delivery.position + 1)
            }
            var inOrder = SubscriptionFacts(originalTransactionId: testSubscription)
            var shuffled = inOrder
            (deliveries + again).forEach { inOrder.add($0) }
            (deliveries + deliveries + again).shuffled(using: &generator).forEach { shuffled.add($0) }

            if inOrder != shuffled || inOrder.canonicalBytes != shuffled.canonicalBytes { return "facts differ" }
            return Subscription(inOrder) == Subscription(shuffled) ? nil : "subscriptions differ"
        }
    }

    @Test("contradictory statements with the same time give one result in any order (2)")
    func equalTimes() {
        stories(1000, from: 20_000) { story, generator in
            let oneTime = story.steps[0].told.occurredAt
            let deliveries = story.told.enumerated().map { index, told in
                var told = told
                if generator.chance(60) { told.occurredAt = oneTime }
                return Delivery(
                    told: told, receivedAt: SubscriptionFacts.arrival(generator.chance(50) ? 0 : index),
                    position: Int64(index + 1))
            }
            var inOrder = SubscriptionFacts(originalTransactionId: testSubscription)
            var shuffled = inOrder
            deliveries.forEach { inOrder.add($0) }
            deliveries.shuffled(using: &generator).forEach { shuffled.add($0) }

            return Subscription(inOrder) == Subscription(shuffled) ? nil : "subscriptions differ"
        }
    }

    @Test("access is a union of periods with a start before their end (3)")
    func periods() {
        stories(1000, from: 30_000) { story, _ in
            let subscription = Subscription(arriving: story.told)
            if let bad = subscription.access.first(where: { $0.start >= $0.end }) { return "\(bad)" }
            for span in subscription.spans {
                let before = span.start.advanced(byMilliseconds: -1)
                let lastly = span.end.advanced(byMilliseconds: -1)
                guard subscription.isActive(at: span.start), subscription.isActive(at: lastly),
                    !subscription.isActive(at: span.end), !subscription.isActive(at: before)
                else { return "\(span) is not half-open" }
            }
            return nil
        }
    }

    @Test("renewals never remove access, refunds never add it, and the switch alone changes none (4, 5, 7)")
    func steps() {
        stories(2000, from: 40_000) { story, _ in
            var facts = SubscriptionFacts(originalTransactionId: testSubscription)
            var before: [Span] = []
            for (index, step) in story.steps.enumerated() {
                facts.add(
                    Delivery(
                        told: step.told, receivedAt: SubscriptionFacts.arrival(index), position: Int64(index + 1)))
                let after = Subscription(facts).spans
                let holds =
                    switch step.kind {
                    case .purchase, .renewal, .recovery, .failure, .reversal: Span.isSubset(before, of: after)
                    case .refund: Span.isSubset(after, of: before)
                    case .autoRenew, .plan, .restore: before == after
                    case .upgrade: after.contains { $0.end > step.told.occurredAt }
                    case .switchOffInGrace:
                        Self.clipped(before, to: step.expiry) == Self.clipped(after, to: step.expiry)
                            && Span.isSubset(after, of: before)
                    }
                if !holds { return "\(step.kind) at \(step.told.occurredAt): \(before) became \(after)" }
                before = after
            }
            return nil
        }
    }

    private static func clipped(_ spans: [Span], to end: Instant) -> [Span] {
        spans.filter { $0.start < end }.map { Span($0.start, min($0.end, end)) }
    }

    @Test("a refund followed by its reversal gives the same access as no refund (6)")
    func refundReversed() {
        stories(1500, from: 50_000, allowing: [.restore, .upgrade]) { story, generator in
            guard let row = story.rows.filter({ !$0.isUpgraded }).randomElement(using: &generator) else { return nil }
            var refunded = row
            let end = story.told.map(\.occurredAt).max()!
            let refundedAt = end.advanced(byMilliseconds: 1000)
            refunded.revocationDate = refundedAt
            refunded.revocationReason = 1
            let refund = Told(refundedAt, [refunded])
            let reversal = Told(end.advanced(byMilliseconds: 2000), [row])

            let never = Subscription(arriving: story.told)
            let reversed = Subscription(arriving: story.told.shuffled(using: &generator) + [refund, reversal])

            return never.spans == reversed.spans ? nil : "\(never.spans) became \(reversed.spans)"
        }
    }

    @Test("without refunds, access at an instant is the same when computed then and today (8)")
    func knownIsBelieved() {
        stories(1000, from: 60_000, allowing: [.restore, .upgrade]) { story, _ in
            let known = Subscription(arriving: story.told)
            var facts = SubscriptionFacts(originalTransactionId: testSubscription)
            for (index, step) in story.steps.enumerated() {
                facts.add(
                    Delivery(
                        told: step.told, receivedAt: SubscriptionFacts.arrival(index), position: Int64(index + 1)))
                let believed = Subscription(facts)
                let instant = step.told.occurredAt
                if believed.isActive(at: instant) != known.isActive(at: instant) {
                    return "\(step.kind) at \(instant): \(story.steps.map(\.kind))"
                }
            }
            return nil
        }
    }

    @Test("facts are unchanged after they are stored and read")
    func roundTrip() throws {
        try stories(500, from: 70_000) { story, _ in
            let facts = SubscriptionFacts(arriving: story.told)
            let bytes = facts.canonicalBytes
            let read = try SubscriptionFacts(originalTransactionId: testSubscription, json: JSONDocument(bytes).root)

            return read == facts && read.canonicalBytes == bytes ? nil : "differs"
        }
    }
}
