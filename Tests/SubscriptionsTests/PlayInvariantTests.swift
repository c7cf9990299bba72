import Encoding
import Subscriptions
import TestSupport
import Testing

/// The invariants of the fold, tested on thousands of generated subscriptions of Google. A failure has the number of the
/// chain.
@Suite("Invariants of the fold of Google's purchases")
struct PlayInvariantTests {
    private func chains(
        _ count: Int, from first: Int, purchases: ClosedRange<Int> = 1...5,
        _ check: (PlayChain, inout SeededGenerator) throws -> String?
    ) rethrows {
        var failures: [String] = []
        for number in first..<first + count {
            var generator = TestSeed.generator(-number & 0xFFFF_FFFF)
            let chain = PlayChain(TestSeed.generator(number), purchases: purchases)
            if let failure = try check(chain, &generator) { failures.append("chain \(number): \(failure)") }
        }
        let message = "seed \(TestSeed.value), \(failures.count) of \(count): \(failures.prefix(3))"
        #expect(failures.isEmpty, "\(message)")
    }

    @Test("a linked purchase grants nothing after the start of the new one, over 10,000 chains (11)")
    func linkedPurchases() {
        chains(10_000, from: 500_000, purchases: 2...5) { chain, generator in
            let all = PlayStory.fold(chain.story.events.shuffled(using: &generator))
            guard all.count == 1, let subscription = all.first?.value else { return "\(all.count) subscriptions" }
            let starts = chain.tokens.map { chain.starts[$0]! }
            for (index, token) in chain.tokens.enumerated().dropLast() {
                guard let purchase = subscription.purchases.first(where: { $0.purchaseToken == token }) else {
                    return "no purchase \(index)"
                }
                if purchase.replacedAt != starts[index + 1] { return "purchase \(index) ends another time" }
                let own = "G\(index + 1)"
                for period in subscription.access
                where period.transactionId == own || period.transactionId.hasPrefix(own + "..") {
                    if period.end > starts[index + 1] { return "\(period.transactionId) until \(period.end)" }
                }
            }
            return nil
        }
    }

    @Test("access follows Google's rules, for answers in order, reversed, shuffled and repeated (1, 3)")
    func agreesWithTheRules() {
        chains(1000, from: 600_000) { chain, generator in
            let events = chain.story.events
            let arrivals = [
                events, events.reversed(), events.shuffled(using: &generator),
                (events + events).shuffled(using: &generator),
            ]
            for (index, arrival) in arrivals.enumerated() {
                let all = PlayStory.fold(arrival)
                guard all.count == 1, let subscription = all.first?.value else { return "\(all.count) subscriptions" }
                if subscription.accessSpans != chain.access {
                    return "arrival \(index): \(subscription.accessSpans), expected \(chain.access)"
                }
                if subscription.access.contains(where: { $0.start >= $0.end }) { return "an empty period" }
            }
            return nil
        }
    }

    @Test("any answers that are missing leave the rest independent of order and repeats (1)")
    func missingAnswers() {
        chains(500, from: 700_000) { chain, generator in
            let events = chain.story.events.filter { _ in generator.chance(60) }
            let expected = PlayStory.fold(events)
            let shuffled = PlayStory.fold((events + events).shuffled(using: &generator))
            guard Set(expected.keys) == Set(shuffled.keys) else { return "other subscriptions" }
            for (id, subscription) in expected {
                let other = shuffled[id]!
                func periods(_ subscription: Subscription) -> [String] {
                    subscription.access.map { "\($0.start) \($0.end) \($0.cause) \($0.transactionId)" }
                }
                if periods(subscription) != periods(other) { return "\(periods(subscription)) \(periods(other))" }
                if subscription.access.contains(where: { $0.start >= $0.end }) { return "an empty period" }
            }
            return nil
        }
    }

    @Test("a void never adds access (5)")
    func voids() {
        chains(300, from: 800_000) { chain, generator in
            let whole = PlayStory.fold(chain.story.events).first!.value
            let paid = whole.transactions.filter { $0.transaction.revocationDate == nil }
            guard let order = paid.randomElement(using: &generator)?.transaction.transactionId else { return nil }
            var story = chain.story
            for token in chain.tokens { story.void("2035-01-01", token: token, order: order) }
            let after = PlayStory.fold(story.events).first!.value
            return Span.isSubset(after.accessSpans, of: whole.accessSpans) ? nil : "a void of \(order) added access"
        }
    }

    @Test("auto-renewal alone never changes access (7)")
    func autoRenewal() {
        chains(300, from: 900_000) { chain, _ in
            let events = chain.story.events.map { event in
                var changed = event
                changed.purchases = event.purchases.map { fact in
                    guard case .snapshot(var snapshot) = fact else { return fact }
                    for index in snapshot.items.indices { snapshot.items[index].isAutoRenewing = false }
                    return .snapshot(snapshot)
                }
                return changed
            }
            let (before, after) = (PlayStory.fold(chain.story.events), PlayStory.fold(events))
            return before.mapValues(\.accessSpans) == after.mapValues(\.accessSpans) ? nil : "access changed"
        }
    }
}
