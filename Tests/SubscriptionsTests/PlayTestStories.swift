import Encoding
import Subscriptions
import Testing

/// Stories that were played with test purchases, where a month lasts five minutes, grace as long, and account hold ten:
/// the answers as they were seen, to the tenth of a second.
@Suite("Test purchases on Google Play")
struct PlayTestStories {
    /// 2025-10-21, with a time.
    private func at(_ time: String) -> String { "2025-10-21T\(time)Z" }

    /// A first purchase at 05:00:00.700, whose first period is half a second shorter than five minutes.
    private func bought() -> PlayStory {
        var story = PlayStory()
        story.answer(
            at("05:00:04"), .active, start: at("05:00:00.700"), until: at("05:05:00.200"), order: "GPA.1")
        return story
    }

    private func span(_ start: String, _ end: String) -> Span { Span(at(start), at(end)) }

    @Test("A: cancelled, restarted, and revoked because nobody acknowledged it")
    func a() {
        var story = bought()
        story.answer(
            at("05:01:00"), .canceled, start: at("05:00:00.700"), until: at("05:05:00.200"), order: "GPA.1",
            renews: false)
        #expect(story.subscription.status(at: day(at("05:01:30"))) == .activeWillEnd)
        story.answer(at("05:02:00"), .active, start: at("05:00:00.700"), until: at("05:05:00.200"), order: "GPA.1")
        #expect(story.subscription.status(at: day(at("05:02:30"))) == .active)
        story.answer(
            at("05:05:03"), .expired, start: at("05:00:00.700"), until: at("05:05:00.100"), order: "GPA.1",
            renews: false
        ) { $0.isAcknowledged = false }
        #expect(story.subscription.accessSpans == [span("05:00:00.700", "05:05:00.100")])
        story.void(at("05:05:05"), order: "GPA.1", reason: 8)

        #expect(story.subscription.accessSpans == [])
        #expect(story.subscription.status(at: day(at("05:06:00"))) == .refunded)
    }

    @Test("B: grace in one step with the pending order as the latest, and a recovery in grace that keeps the cycle")
    func b() {
        var story = bought()
        story.answer(
            at("05:05:15"), .inGracePeriod, start: at("05:00:00.700"), until: at("05:10:00.200"), order: "GPA.1")
        #expect(story.subscription.status(at: day(at("05:06:00"))) == .grace)
        story.answer(at("05:07:00"), .active, start: at("05:00:00.700"), until: at("05:10:00.200"), order: "GPA.1..0")

        #expect(story.subscription.accessSpans == [span("05:00:00.700", "05:10:00.200")])
        #expect(story.subscription.status(at: day(at("05:08:00"))) == .active)
        let renewal = story.subscription.transactions.last?.transaction
        #expect(renewal?.purchaseDate == day(at("05:05:00.200")))
        #expect(renewal?.transactionReason == "RENEWAL")
    }

    @Test("C: grace, hold, and an end whose answer shows the end of hold, which was never paid")
    func c() {
        var story = bought()
        story.answer(at("05:07:15"), .active, start: at("05:00:00.700"), until: at("05:10:00.200"), order: "GPA.1..0")
        #expect(story.subscription.lapses == [])
        story.answer(
            at("05:10:20"), .inGracePeriod, start: at("05:00:00.700"), until: at("05:15:00.200"), order: "GPA.1..0")
        story.answer(at("05:15:10"), .onHold, start: at("05:00:00.700"), until: at("05:15:00.200"), order: "GPA.1..0")
        #expect(story.subscription.status(at: day(at("05:16:00"))) == .hold)
        story.answer(
            at("05:25:03"), .expired, start: at("05:00:00.700"), until: at("05:25:00.200"), order: "GPA.1..0",
            renews: false
        ) { $0.cancelReason = .system }

        #expect(story.subscription.accessSpans == [span("05:00:00.700", "05:15:00.200")])
        #expect(story.subscription.status(at: day(at("05:20:00"))) == .hold)
        #expect(story.subscription.status(at: day(at("05:26:00"))) == .expired)
        #expect(story.subscription.renewal(at: .latest).expirationIntent == 2)
    }

    @Test("D: cancelled in grace: ended at once, at the time of the cancellation")
    func d() {
        var story = bought()
        story.answer(
            at("05:05:15"), .inGracePeriod, start: at("05:00:00.700"), until: at("05:10:00.200"), order: "GPA.1")
        story.answer(
            at("05:07:03"), .expired, start: at("05:00:00.700"), until: at("05:07:00.500"), order: "GPA.1",
            renews: false
        ) {
            $0.cancelReason = .user
            $0.cancelTime = day(at("05:07:00.500"))
        }

        #expect(story.subscription.accessSpans == [span("05:00:00.700", "05:07:00.500")])
        #expect(story.subscription.access.last?.cut == .switchedOff)
        #expect(story.subscription.status(at: day(at("05:08:00"))) == .expired)
        #expect(story.subscription.renewal(at: .latest).expirationIntent == 1)
    }

    @Test("E: hold without grace, and its end")
    func e() {
        var story = bought()
        story.answer(at("05:05:25"), .onHold, start: at("05:00:00.700"), until: at("05:05:00.200"), order: "GPA.1")
        story.answer(
            at("05:15:03"), .expired, start: at("05:00:00.700"), until: at("05:15:00.200"), order: "GPA.1",
            renews: false
        ) { $0.cancelReason = .system }

        #expect(story.subscription.accessSpans == [span("05:00:00.700", "05:05:00.200")])
        #expect(story.subscription.status(at: day(at("05:10:00"))) == .hold)
        #expect(story.subscription.status(at: day(at("05:15:00.200"))) == .expired)
    }

    @Test(
        "cancelled on hold, while the payment is tried again, or before: only a failed payment had ended access then",
        arguments: [
            ("05:07:00", .onHold, 2), ("05:04:00", .onHold, 1), ("05:07:00", .active, 2), ("05:04:00", .active, 1),
        ] as [(String, PurchaseSnapshot.State, Int)])
    func cancelledOnHold(cancelled: String, before: PurchaseSnapshot.State, intent: Int) {
        var story = bought()
        story.answer(at("05:05:25"), before, start: at("05:00:00.700"), until: at("05:05:00.200"), order: "GPA.1")
        story.answer(
            at("05:07:03"), .expired, start: at("05:00:00.700"), until: at("05:07:00.500"), order: "GPA.1",
            renews: false
        ) {
            $0.cancelReason = .user
            $0.cancelTime = day(at(cancelled))
        }

        #expect(story.subscription.accessSpans == [span("05:00:00.700", "05:05:00.200")])
        #expect(story.subscription.renewal(at: .latest).expirationIntent == intent)
        #expect(story.subscription.lastReportingPeriod?.churnReason == .stated(intent == 2 ? .billing : .voluntary))
    }

    @Test("F: recovered from hold: a new cycle, and the hold stays a gap")
    func f() {
        var story = bought()
        story.answer(at("05:05:25"), .onHold, start: at("05:00:00.700"), until: at("05:05:00.200"), order: "GPA.1")
        story.notice(at("05:08:00.100"), .recovered)
        story.answer(at("05:08:03"), .active, start: at("05:00:00.700"), until: at("05:13:00"), order: "GPA.1..0")

        #expect(
            story.subscription.accessSpans
                == [span("05:00:00.700", "05:05:00.200"), span("05:08:00.100", "05:13:00")])
        #expect(story.subscription.lapses.count == 1)
        #expect(story.subscription.status(at: day(at("05:09:00"))) == .active)
    }

    /// The old purchase ends 0.12 s before the new one begins, whose first period ends near the old billing date.
    private func changed(_ story: inout PlayStory) {
        story.answer(
            at("05:02:03"), .active, token: "t2", start: at("05:02:00.500"), until: at("05:05:03"), order: "GPA.2",
            product: "gold", linked: "t1")
        story.answer(
            at("05:02:06"), .expired, start: at("05:00:00.700"), until: at("05:02:00.380"), order: "GPA.1",
            renews: false
        ) { $0.cancelReason = .replaced }
    }

    @Test("G: a change of plan has no lapse of a tenth of a second")
    func g() {
        var story = bought()
        changed(&story)

        #expect(story.subscriptions.keys.sorted() == ["t1"])
        #expect(story.subscription.accessSpans == [span("05:00:00.700", "05:05:03")])
        #expect(story.subscription.lapses == [])
        #expect(story.subscription.access.map(\.productId) == ["premium:monthly", "gold:monthly"])
        #expect(story.subscription.access.first?.cut == .upgraded)
        #expect(story.subscription.access.first?.end == day(at("05:02:00.500")))
        #expect(story.subscription.status(at: day(at("05:03:00"))) == .active)
    }

    @Test("H: a change of plan, and a recovery in grace of the new one")
    func h() {
        var story = bought()
        changed(&story)
        story.answer(
            at("05:05:20"), .inGracePeriod, token: "t2", start: at("05:02:00.500"), until: at("05:10:03"),
            order: "GPA.2",
            product: "gold", linked: "t1")
        story.answer(
            at("05:06:00"), .active, token: "t2", start: at("05:02:00.500"), until: at("05:10:03"), order: "GPA.2..0",
            product: "gold", linked: "t1")

        #expect(story.subscription.accessSpans == [span("05:00:00.700", "05:10:03")])
        #expect(story.subscription.status(at: day(at("05:07:00"))) == .active)
    }

    @Test("I: paused and resumed")
    func i() {
        var story = bought()
        story.answer(at("05:05:05"), .paused, start: at("05:00:00.700"), until: at("05:15:00.200"), order: "GPA.1") {
            $0.autoResumeTime = day(at("05:15:00"))
        }
        #expect(story.subscription.status(at: day(at("05:06:00"))) == .paused)
        story.notice(at("05:12:00"), .recovered)
        story.answer(at("05:12:03"), .active, start: at("05:00:00.700"), until: at("05:17:00"), order: "GPA.1..0")

        #expect(
            story.subscription.accessSpans == [span("05:00:00.700", "05:05:00.200"), span("05:12:00", "05:17:00")])
        #expect(story.subscription.status(at: day(at("05:06:00"))) == .paused)
    }

    @Test("J: three plans one after the other, each linked to the one before alone")
    func j() {
        var story = bought()
        changed(&story)
        story.answer(
            at("05:03:03"), .active, token: "t3", start: at("05:03:00.500"), until: at("05:05:06"), order: "GPA.3",
            product: "silver", linked: "t2")
        story.answer(
            at("05:03:06"), .expired, token: "t2", start: at("05:02:00.500"), until: at("05:03:00.390"), order: "GPA.2",
            product: "gold", renews: false, linked: "t1"
        ) { $0.cancelReason = .replaced }

        #expect(story.subscription.accessSpans == [span("05:00:00.700", "05:05:06")])
        #expect(story.subscription.access.map(\.productId) == ["premium:monthly", "gold:monthly", "silver:monthly"])
        #expect(PlayStory.fold(story.events.reversed()).values.map(\.accessSpans) == [story.subscription.accessSpans])
    }

    @Test("K: refunded with revocation by the developer, which the answer calls the user's")
    func k() {
        var story = bought()
        story.answer(
            at("05:03:03"), .expired, start: at("05:00:00.700"), until: at("05:03:00"), order: "GPA.1", renews: false
        ) { $0.cancelReason = .user }

        #expect(story.subscription.accessSpans == [span("05:00:00.700", "05:03:00")])
        #expect(story.subscription.status(at: day(at("05:04:00"))) == .revoked)
        #expect(story.subscription.access.first?.cut == .revoked)
    }

    @Test("L: renewed before the old expiry, then refunded with revocation")
    func l() {
        var story = bought()
        story.answer(at("05:04:50"), .active, start: at("05:00:00.700"), until: at("05:10:00.200"), order: "GPA.1..0")
        #expect(story.subscription.status(at: day(at("05:05:00.200"))) == .active)
        story.answer(
            at("05:06:03"), .expired, start: at("05:00:00.700"), until: at("05:06:00"), order: "GPA.1..0", renews: false
        )

        #expect(story.subscription.accessSpans == [span("05:00:00.700", "05:06:00")])
        #expect(story.subscription.transactions.map(\.settled.isRefunded) == [false, false])
    }
}
