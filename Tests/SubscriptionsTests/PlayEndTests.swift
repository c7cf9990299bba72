import Encoding
import Subscriptions
import Testing

/// The end that an answer states is the end of the whole purchase, and the part of an answer that ends access wins.
@Suite("Ends of purchases on Google Play")
struct PlayEndTests {
    /// Renewed early at 02:10:15 and revoked at 02:10:44, while the first order was paid until 02:14:46.
    private func renewedEarly(_ end: (inout PlayStory) -> Void) -> Subscription {
        var story = PlayStory()
        story.answer(
            "2026-05-01T02:09:48Z", .active, start: "2026-05-01T02:09:46Z", until: "2026-05-01T02:14:46Z",
            order: "GPA.1")
        story.answer(
            "2026-05-01T02:10:15Z", .active, start: "2026-05-01T02:09:46Z", until: "2026-05-01T02:19:46Z",
            order: "GPA.1..0")
        end(&story)
        return story.subscription
    }

    @Test("a revocation ends the earlier period too that reaches further")
    func earlyRenewal() {
        let subscription = renewedEarly {
            $0.answer(
                "2026-05-01T02:10:46Z", .expired, start: "2026-05-01T02:09:46Z", until: "2026-05-01T02:10:44Z",
                order: "GPA.1..0", renews: false)
        }

        #expect(subscription.accessSpans == [Span("2026-05-01T02:09:46Z", "2026-05-01T02:10:44Z")])
        #expect(subscription.status(at: day("2026-05-01T02:11:00Z")) == .revoked)
        #expect(subscription.transactions.count == 2)
    }

    @Test("also if the answer names the first order, or a renewal that no answer showed")
    func otherOrders() {
        for order in ["GPA.1", "GPA.1..1"] {
            let subscription = renewedEarly {
                $0.answer(
                    "2026-05-01T02:10:46Z", .expired, start: "2026-05-01T02:09:46Z", until: "2026-05-01T02:10:44Z",
                    order: order, renews: false)
            }
            #expect(subscription.accessSpans == [Span("2026-05-01T02:09:46Z", "2026-05-01T02:10:44Z")])
        }
    }

    @Test("also while it is on hold, paused or cancelled, and in a state that this version does not know")
    func otherStates() {
        for state in [PurchaseSnapshot.State.onHold, .paused, .canceled, .active] {
            let subscription = renewedEarly {
                $0.answer(
                    "2026-05-01T02:10:46Z", state, start: "2026-05-01T02:09:46Z", until: "2026-05-01T02:10:44Z",
                    order: "GPA.1..0", renews: false)
            }
            let end = state == .paused ? "2026-05-01T02:10:46Z" : "2026-05-01T02:10:44Z"
            #expect(subscription.accessSpans == [Span("2026-05-01T02:09:46Z", end)], "\(state)")
        }
        let unknown = renewedEarly {
            $0.answer(
                "2026-05-01T02:10:46Z", .active, start: "2026-05-01T02:09:46Z", until: "2026-05-01T02:10:44Z",
                order: "GPA.1..0"
            ) { $0.stateName = "SUSPENDED_BY_LAW" }
        }
        #expect(unknown.accessSpans == [Span("2026-05-01T02:09:46Z", "2026-05-01T02:10:44Z")])
    }

    @Test("an unknown state with an end ahead gives access until that end")
    func unknownState() {
        var story = PlayStory()
        story.answer("2026-05-01T00:00:03Z", .active, start: "2026-05-01", until: "2026-06-01", order: "1") {
            $0.stateName = "SUSPENDED_BY_LAW"
        }

        #expect(story.subscription.accessSpans == [Span("2026-05-01", "2026-06-01")])
        #expect(story.subscription.status(at: day("2026-06-01")) != .refunded)
    }

    @Test("an answer that takes the end back restores both periods")
    func restored() {
        let subscription = renewedEarly {
            $0.answer(
                "2026-05-01T02:10:46Z", .expired, start: "2026-05-01T02:09:46Z", until: "2026-05-01T02:10:44Z",
                order: "GPA.1..0", renews: false)
            $0.answer(
                "2026-05-01T02:11:46Z", .active, start: "2026-05-01T02:09:46Z", until: "2026-05-01T02:19:46Z",
                order: "GPA.1..0")
        }

        #expect(subscription.accessSpans == [Span("2026-05-01T02:09:46Z", "2026-05-01T02:19:46Z")])
        #expect(subscription.access.allSatisfy { $0.cut == nil })
    }

    @Test("EXPIRED with an end that is missing or ahead ends access with the answer", arguments: [nil, "2027-05-01"])
    func contradiction(_ end: String?) {
        var story = PlayStory()
        story.answer("2026-05-01T00:00:03Z", .active, start: "2026-05-01", until: "2027-05-01", order: "1")
        story.answer("2026-08-01", .expired, start: "2026-05-01", until: end, order: "1", renews: false)
        let subscription = story.subscription

        #expect(subscription.accessSpans == [Span("2026-05-01", "2026-08-01")])
        #expect(subscription.status(at: day("2026-08-01")) == .expired)
        #expect(subscription.status(at: day("2026-07-31")) == .active)
        #expect(subscription.transactions.allSatisfy { !$0.settled.isRefunded })
        let check = subscription.nextCheck(after: day("2026-08-01"), policy: .standard)
        // Questions about purchases that end at the same time are spread over five minutes.
        let due = check?.dueAt ?? .earliest
        #expect(day("2026-08-01T00:05:00Z") <= due && due < day("2026-08-01T00:10:00Z"))
        #expect(check?.reason == .end)
    }

    @Test("an answer that only knows the purchase as ended, with an end ahead, gives access until then")
    func onlyAnswer() {
        var story = PlayStory()
        story.answer("2026-08-01", .expired, start: "2026-05-01", until: "2027-05-01", order: "1", renews: false)

        #expect(story.subscription.accessSpans == [Span("2026-05-01", "2026-08-01")])
    }

    @Test("a purchase that has ended gives no product that the answer leaves out")
    func otherProducts() {
        var story = PlayStory()
        story.answer("2026-05-01T00:00:03Z", .active, start: "2026-05-01", until: "2027-05-01", order: "1") {
            var item = PurchaseSnapshot.Item(productId: "extra")
            item.expiryTime = day("2027-05-01")
            item.orderId = "1"
            item.isAutoRenewing = true
            $0.items.append(item)
        }
        story.answer("2026-08-01", .expired, start: "2026-05-01", until: "2026-07-31", order: "1", renews: false)

        #expect(story.subscription.isActive(at: day("2026-08-01")) == false)
    }

    @Test("the explanation of a contradiction names the answer")
    func explanation() {
        var story = PlayStory()
        story.answer("2026-05-01T00:00:03Z", .active, start: "2026-05-01", until: "2027-05-01", order: "1")
        story.answer("2026-08-01", .expired, start: "2026-05-01", order: "1", renews: false)
        let explained = ExplainedCustomers(
            story.facts.values, links: CustomerLinks([Int64: LinkStatement]()), policy: .standard)

        let explanation = explained.explanation(
            of: "premium:monthly", for: CustomerKey(.subscription, "t1"), at: day("2026-09-01"))

        #expect(explanation.active == false)
        #expect(explanation.because.contains { $0.rule == .laterStatementWins && $0.positions == [2] })
    }
}
