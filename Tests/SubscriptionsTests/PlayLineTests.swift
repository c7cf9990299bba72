import Encoding
import Subscriptions
import TestSupport
import Testing

@Suite("Purchases that continue each other")
struct PlayLineTests {
    /// Purchases that follow each other day by day. Each lasts 30 days and is replaced after one.
    private func chain(_ count: Int) -> PlayStory {
        var story = PlayStory()
        let start = day("2025-01-01")
        for number in 0..<count {
            let bought = start.advanced(byMilliseconds: Int64(number) * 86_400_000)
            story.answer(
                bought.advanced(byMilliseconds: 3000).description, .active, token: name(number),
                start: bought.description, until: bought.advanced(byMilliseconds: 30 * 86_400_000).description,
                order: "G\(number)", plan: number % 2 == 0 ? "monthly" : "yearly",
                linked: number == 0 ? nil : name(number - 1))
        }
        return story
    }

    /// Not in the order of the numbers.
    private func name(_ number: Int) -> String { "\((number * 37) % 101)-\(number)" }

    @Test("are one subscription, a chain of 50 of them too, in any order of the answers")
    func chainOfFifty() {
        let story = chain(50)
        var generator = TestSeed.generator()

        for events in [story.events, story.events.reversed(), story.events.shuffled(using: &generator)] {
            let all = PlayStory.fold(events)
            #expect(all.keys.sorted() == [name(0)])
            let subscription = all[name(0)]
            #expect(subscription?.accessSpans == [Span("2025-01-01", "2025-03-21")])
            #expect(subscription?.lapses == [])
            #expect(subscription?.purchases.count == 50)
            #expect(subscription?.access.filter { $0.cut == .upgraded }.count == 49)
            #expect(subscription?.status(at: day("2025-03-01")) == .active)
            #expect(subscription?.currentPurchase?.purchaseToken == name(49))
        }
    }

    @Test("in a loop are one subscription with the id of the smallest token")
    func loop() {
        var story = PlayStory()
        story.answer(
            "2025-01-01T00:00:03Z", .active, token: "b", start: "2025-01-01", until: "2025-02-01", order: "1",
            linked: "c")
        story.answer(
            "2025-01-11T00:00:03Z", .active, token: "c", start: "2025-01-11", until: "2025-02-11", order: "2",
            linked: "a")
        story.answer(
            "2025-01-21T00:00:03Z", .active, token: "a", start: "2025-01-21", until: "2025-02-21", order: "3",
            linked: "b")
        var generator = TestSeed.generator()

        for events in [story.events, story.events.reversed(), story.events.shuffled(using: &generator)] {
            let all = PlayStory.fold(events)
            #expect(all.keys.sorted() == ["a"])
            #expect(all["a"]?.isActive(at: day("2025-02-20")) == true)
        }
    }

    @Test("have the id of the first one, although Google was never asked about it")
    func unknownFirst() {
        var story = PlayStory()
        story.answer(
            "2025-01-11T00:00:03Z", .active, token: "new", start: "2025-01-11", until: "2025-02-11", order: "2",
            linked: "old")

        #expect(story.subscriptions.keys.sorted() == ["old"])
        #expect(story.subscription.accessSpans == [Span("2025-01-11", "2025-02-11")])
    }

    @Test("get another id when an earlier one becomes known later")
    func earlierLink() {
        var story = PlayStory()
        story.answer(
            "2025-01-21T00:00:03Z", .active, token: "third", start: "2025-01-21", until: "2025-02-21", order: "3",
            linked: "second")
        #expect(story.subscriptions.keys.sorted() == ["second"])
        story.answer(
            "2025-01-21T00:00:01Z", .expired, token: "second", start: "2025-01-11", until: "2025-01-20T23:59:59.880Z",
            order: "2", linked: "first")

        #expect(story.subscriptions.keys.sorted() == ["first"])
        #expect(story.subscription.lapses == [])
        #expect(PlayStory.fold(story.events.reversed()).keys.sorted() == ["first"])
    }

    @Test("stay apart while the new one is pending, and if it is cancelled")
    func pending() {
        var story = PlayStory()
        story.answer(
            "2025-01-01T00:00:03Z", .active, token: "old", start: "2025-01-01", until: "2025-02-01", order: "1")
        story.answer("2025-01-10", .pending, token: "new", linked: "old")
        #expect(
            story.subscriptions.mapValues { $0.status(at: day("2025-01-11")) } == ["old": .active, "new": .pending])
        #expect(story.subscriptions["old"]?.accessSpans == [Span("2025-01-01", "2025-02-01")])

        var cancelled = story
        cancelled.answer("2025-01-12", .pendingPurchaseCanceled, token: "new", linked: "old")
        #expect(cancelled.subscriptions.keys.sorted() == ["new", "old"])
        #expect(cancelled.subscriptions["old"]?.isActive(at: day("2025-01-31")) == true)
        #expect(cancelled.subscriptions["new"]?.status(at: day("2025-01-13")) == .never)

        story.answer(
            "2025-01-12T00:00:03Z", .active, token: "new", start: "2025-01-12", until: "2025-02-12", order: "2",
            linked: "old")
        #expect(story.subscriptions.keys.sorted() == ["old"])
        #expect(story.subscription.accessSpans == [Span("2025-01-01", "2025-02-12")])
    }

    @Test("without a link are two subscriptions, whatever else is equal")
    func resubscribed() {
        var story = PlayStory()
        for (token, start, end) in [("t1", "2025-01-01", "2025-02-01"), ("t2", "2025-03-01", "2025-04-01")] {
            story.answer("\(start)T00:00:03Z", .active, token: token, start: start, until: end, order: "G") {
                $0.obfuscatedAccountId = "u-1"
            }
        }

        #expect(story.subscriptions.keys.sorted() == ["t1", "t2"])
    }

    @Test("state the app user once: the next one has it too")
    func inheritedAccount() {
        var story = PlayStory()
        story.answer(
            "2025-01-01T00:00:03Z", .active, token: "old", start: "2025-01-01", until: "2025-02-01", order: "1"
        ) {
            $0.obfuscatedAccountId = "u-1"
        }
        story.answer(
            "2025-01-11T00:00:03Z", .active, token: "new", start: "2025-01-11", until: "2025-02-11", order: "2",
            linked: "old")

        #expect(story.subscription.transactions.map(\.transaction.appAccountToken) == ["u-1", "u-1"])
    }

    @Test("are read back from their stored facts, entries included")
    func stored() throws {
        var states: [String: SubscriptionFacts] = [:]
        for (index, event) in chain(3).events.enumerated() {
            for (id, facts) in event.facts.bySubscription {
                let stated = StatedFacts(facts, about: id)
                let line = states.join(id, with: stated, position: Int64(index + 1))
                states.change(line, position: Int64(index + 1)) {
                    $0.fold(
                        stated, occurredAt: event.occurredAt, receivedAt: day("2026-01-01"), position: Int64(index + 1))
                }
            }
        }

        #expect(states.count == 3)
        #expect(states.values.filter { $0.line != nil }.count == 2)
        for (id, facts) in states {
            let read = try SubscriptionFacts(
                originalTransactionId: id, json: JSONDocument(facts.canonicalBytes).root)
            #expect(read == facts)
            #expect(read.canonicalBytes == facts.canonicalBytes)
        }
    }

    @Test("belong to the app user of each purchase, and lead to it by every token")
    func ownership() {
        var story = PlayStory()
        story.answer(
            "2025-01-01T00:00:03Z", .active, token: "old", start: "2025-01-01", until: "2025-02-01", order: "1"
        ) {
            $0.obfuscatedAccountId = "U-1"
        }
        story.answer(
            "2025-01-11T00:00:03Z", .active, token: "new", start: "2025-01-11", until: "2025-02-11", order: "2",
            linked: "old"
        ) {
            $0.obfuscatedAccountId = "u-2"
        }
        story.answer(
            "2025-03-01T00:00:03Z", .active, token: "later", start: "2025-03-01", until: "2025-04-01", order: "3"
        ) {
            $0.expiredPurchaseToken = "new"
        }
        var states: [String: SubscriptionFacts] = [:]
        for (index, event) in story.events.enumerated() {
            for (id, facts) in event.facts.bySubscription {
                let stated = StatedFacts(facts, about: id)
                let line = states.join(id, with: stated, position: Int64(index + 1))
                states.change(line, position: Int64(index + 1)) {
                    $0.fold(
                        stated, occurredAt: event.occurredAt, receivedAt: day("2026-01-01"), position: Int64(index + 1))
                }
            }
        }
        let customers = Customers(
            of: states.values.map { $0.ownershipEvidence() }, links: CustomerLinks([CustomerLinks.Link]()),
            policy: .latestBuyer)

        let (first, second) = (CustomerKey(.account, "u-1"), CustomerKey(.account, "u-2"))
        #expect(customers.ownership.map(\.originalTransactionId.text) == ["later", "later", "old", "old"])
        for key in ["old", "new", "later"] {
            #expect(customers.customer(CustomerKey(.subscription, key), at: day("2025-01-05")) == first)
            #expect(customers.customer(CustomerKey(.subscription, key), at: day("2025-03-05")) == second)
        }
    }
}

@Suite("An answer of Google")
struct PlayAnswerChangeTests {
    private func facts(_ story: PlayStory) -> SubscriptionFacts {
        var states: [String: SubscriptionFacts] = [:]
        for (index, event) in story.events.enumerated() {
            for (id, facts) in event.facts.bySubscription {
                let stated = StatedFacts(facts, about: id)
                let line = states.join(id, with: stated, position: Int64(index + 1))
                states.change(line, position: Int64(index + 1)) {
                    $0.fold(
                        stated, occurredAt: event.occurredAt, receivedAt: day("2026-01-01"), position: Int64(index + 1))
                }
            }
        }
        return states.values.first { $0.line == nil }!
    }

    private let known: PlayStory = {
        var story = PlayStory()
        story.answer(
            "2025-01-01T00:00:03Z", .active, token: "old", start: "2025-01-01", until: "2025-02-01", order: "1")
        story.answer(
            "2025-01-11T00:00:03Z", .active, token: "new", start: "2025-01-11", until: "2025-02-11", order: "2",
            linked: "old"
        ) { $0.isAcknowledged = false }
        return story
    }()

    @Test("that says what is known changes nothing, whenever it is given")
    func unchanged() {
        var story = known
        let again = story.answer(
            "2025-01-12", .active, token: "new", start: "2025-01-11", until: "2025-02-11", order: "2", linked: "old"
        ) { $0.isAcknowledged = false }

        #expect(!facts(known).isChanged(by: again, receivedAt: day("2025-01-12")))
    }

    @Test(
        "that says something else changes what is known",
        arguments: [
            { $0.isAcknowledged = true }, { $0.items[0].expiryTime = day("2025-02-12") },
            {
                $0.items[0].orderId = "2..0"; $0.items[0].expiryTime = day("2025-03-11")
            },
            { $0.items[0].isAutoRenewing = false }, { $0.stateName = "ON_HOLD" }, { $0.obfuscatedAccountId = "u" },
            { $0.linkedPurchaseToken = "other" }, { $0.expiredPurchaseToken = "other" },
        ] as [@Sendable (inout PurchaseSnapshot) -> Void])
    func changed(_ change: @Sendable (inout PurchaseSnapshot) -> Void) {
        var story = known
        let other = story.answer(
            "2025-01-12", .active, token: "new", start: "2025-01-11", until: "2025-02-11", order: "2", linked: "old"
        ) {
            $0.isAcknowledged = false
            change(&$0)
        }

        #expect(facts(known).isChanged(by: other, receivedAt: day("2025-01-12")))
    }

    @Test("end renewal when the customer cancelled, and not when that was answered")
    func cancelled() {
        var story = PlayStory()
        story.answer("2025-01-01T00:00:03Z", .active, start: "2025-01-01", until: "2025-02-01", order: "1")
        story.answer(
            "2025-01-20T00:00:00Z", .canceled, start: "2025-01-01", until: "2025-02-01", order: "1", renews: false
        ) {
            $0.cancelReason = .user
            $0.cancelTime = day("2025-01-10")
        }

        #expect(story.subscription.status(at: day("2025-01-09")) == .active)
        #expect(story.subscription.status(at: day("2025-01-10")) == .activeWillEnd)
    }

    @Test("renewed until an answer said that, whatever a later one says about the cancellation")
    func renewedUntilAnswer() {
        var story = PlayStory()
        story.answer("2025-01-15T00:00:00Z", .active, start: "2025-01-01", until: "2025-02-01", order: "1")
        story.answer(
            "2025-01-20T00:00:00Z", .canceled, start: "2025-01-01", until: "2025-02-01", order: "1", renews: false
        ) { $0.cancelTime = day("2025-01-10") }

        #expect(story.subscription.status(at: day("2025-01-19")) == .active)
        #expect(story.subscription.status(at: day("2025-01-20")) == .activeWillEnd)
    }

    @Test("that are prepaid never renew, from their start")
    func prepaid() {
        var story = PlayStory()
        story.answer(
            "2025-01-01T12:00:00Z", .active, start: "2025-01-01", until: "2025-02-01", order: "1", renews: false
        ) { $0.items[0].isPrepaid = true }

        #expect(story.subscription.status(at: day("2025-01-01T00:00:01Z")) == .activeWillEnd)
    }

    @Test("that are not paid for at the end of a pause are on hold from that end")
    func failedResumption() {
        var story = PlayStory()
        story.answer("2025-01-01T00:00:03Z", .active, start: "2025-01-01", until: "2025-02-01", order: "1")
        story.answer("2025-02-01T00:00:10Z", .paused, start: "2025-01-01", until: "2025-02-01", order: "1")
        story.answer("2025-03-05T00:00:00Z", .onHold, start: "2025-01-01", until: "2025-03-01", order: "1")

        #expect(story.subscription.status(at: day("2025-02-28")) == .paused)
        #expect(story.subscription.status(at: day("2025-03-02")) == .hold)
    }
}
