import AppStore
import Subscriptions
import TestSupport
import Testing

/// The invariants of the fold, tested on generated subscriptions in signed notifications.
@Suite("Invariants of the fold of signed notifications")
struct V2InvariantTests {
    private func stories(
        _ count: Int, from first: Int, _ check: (V2Story, [Event], inout SeededGenerator) throws -> String?
    ) throws {
        var failures: [String] = []
        for number in first..<first + count {
            var generator = TestSeed.generator(-number & 0xFFFF_FFFF)
            let story = V2Story(TestSeed.generator(number))
            let events = try story.bodies.map { try $0.event() }
            if let failure = try check(story, events, &generator) {
                failures.append("story \(number): \(failure): \(story.types)")
            }
        }
        let message = "seed \(TestSeed.value), \(failures.count) of \(count): \(failures.prefix(3))"
        #expect(failures.isEmpty, "\(message)")
    }

    @Test("access follows the rules at every boundary")
    func rules() throws {
        try stories(400, from: 0) { story, events, _ in
            let subscription = try MemoryLedger(arriving: events).subscription()
            for probe in story.probes where subscription.isActive(at: probe) != story.isEntitled(at: probe) {
                return "\(probe) should be \(story.isEntitled(at: probe))"
            }
            return nil
        }
    }

    @Test("any order and any repetition give the same access")
    func orderAndRepeats() throws {
        try stories(300, from: 10_000) { story, events, generator in
            let first = try MemoryLedger(arriving: events).subscription()
            let arrivals = [
                events.reversed(), events.shuffled(using: &generator),
                (events + events + events).shuffled(using: &generator),
            ]
            for (index, arrival) in arrivals.enumerated() {
                let other = try MemoryLedger(arriving: arrival).subscription()
                if other.spans != first.spans { return "arrival \(index): \(first.spans) became \(other.spans)" }
                if other.transactions.map(\.transaction) != first.transactions.map(\.transaction) {
                    return "arrival \(index): transactions differ"
                }
                for probe in story.probes where other.status(at: probe) != first.status(at: probe) {
                    return "arrival \(index), \(probe): \(first.status(at: probe)) became \(other.status(at: probe))"
                }
            }
            return nil
        }
    }

    @Test("access consists of non-empty periods, ordered by start")
    func stretches() throws {
        try stories(200, from: 20_000) { _, events, _ in
            let access = try MemoryLedger(arriving: events).subscription().access
            guard access.allSatisfy({ $0.start < $0.end }) else { return "an empty stretch" }
            return access.map(\.start) == access.map(\.start).sorted() ? nil : "out of order"
        }
    }

    @Test("a refund followed by its reversal gives the same access as no refund")
    func reversal() throws {
        try stories(200, from: 30_000) { story, events, generator in
            guard let row = story.rows.filter({ $0.refundedAt == nil }).randomElement(using: &generator),
                let end = events.compactMap(\.occurredAt).max()
            else { return nil }
            let refund = end.advanced(byMilliseconds: 1000).description
            let again = try [
                V2Body("REFUND", at: refund, row.payload.refunded(refund)),
                V2Body("REFUND_REVERSED", at: end.advanced(byMilliseconds: 2000).description, row.payload),
            ].map { try $0.event() }

            let never = try MemoryLedger(arriving: events).subscription()
            let reversed = try MemoryLedger(arriving: (events + again).shuffled(using: &generator)).subscription()

            return never.spans == reversed.spans ? nil : "\(never.spans) became \(reversed.spans)"
        }
    }

    @Test("sandbox notifications do not affect production access")
    func sandbox() throws {
        try stories(100, from: 40_000) { story, events, generator in
            let other = V2Story(TestSeed.generator(Int.random(in: 0..<1000, using: &generator)))
            let sandbox = try other.bodies.map { body in
                try body.changing {
                    $0.payload["data", "environment"] = "Sandbox"
                    $0.transaction?["environment"] = "Sandbox"
                    $0.renewal?["environment"] = "Sandbox"
                }.event()
            }

            let alone = try MemoryLedger(arriving: events).subscription()
            let both = try MemoryLedger(arriving: (events + sandbox).shuffled(using: &generator)).subscription()

            return alone.spans == both.spans ? nil : "\(alone.spans) became \(both.spans)"
        }
    }

    @Test("facts that are written and read fold to the same subscription")
    func written() throws {
        try stories(100, from: 50_000) { _, events, _ in
            let read = try events.map { event in
                var copy = event
                let facts = try reread(event.facts)
                (copy.transactions, copy.renewals) = (facts.transactions, facts.renewals)
                return copy
            }
            return try MemoryLedger(arriving: events).subscription() == MemoryLedger(arriving: read).subscription()
                ? nil : "differs"
        }
    }
}
