import Encoding
import Subscriptions
import Testing

/// One row of a table of Google's actions: answers after a first purchase [Feb 20, Mar 20), and the expected result.
struct PlayAction: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var story: PlayStory
    var spans: [Span]
    var at: String
    var status: SubscriptionStatus

    init(
        _ name: String, _ spans: [Span], at: String, _ status: SubscriptionStatus, bought: Bool = true,
        _ tell: (inout PlayStory) -> Void
    ) {
        testDescription = name
        story = PlayStory()
        if bought {
            story.answer("2025-02-20T00:00:01Z", .active, start: "2025-02-20", until: "2025-03-20", order: "G")
        }
        tell(&story)
        self.spans = spans
        self.at = at
        self.status = status
    }

    static let february = Span("2025-02-20", "2025-03-20")
    static let toApril = Span("2025-02-20", "2025-04-20")

    static func renewed(_ story: inout PlayStory, _ state: PurchaseSnapshot.State = .active) {
        story.answer(
            "2025-03-20T00:02:15Z", state, start: "2025-02-20", until: "2025-04-20", order: "G..0",
            renews: state == .active)
    }

    static func grace(_ story: inout PlayStory) {
        story.answer(
            "2025-03-20T00:00:20Z", .inGracePeriod, start: "2025-02-20", until: "2025-03-27", order: "G")
    }

    static func hold(_ story: inout PlayStory, until: String = "2025-03-27") {
        story.answer("2025-03-27T00:00:10Z", .onHold, start: "2025-02-20", until: until, order: "G")
    }

    static func expired(
        _ story: inout PlayStory, _ at: String, until: String, _ reason: PurchaseSnapshot.CancelReason? = nil,
        cancelled: String? = nil
    ) {
        story.answer(at, .expired, start: "2025-02-20", until: until, order: "G", renews: false) {
            $0.cancelReason = reason
            $0.cancelTime = cancelled.map(day)
        }
    }

    /// The rows of the table of notification types.
    static let types: [PlayAction] = [
        PlayAction(
            "1 RECOVERED: out of hold, a new cycle from the recovery, the hold stays a gap",
            [Span("2025-02-20", "2025-03-27"), Span("2025-04-05", "2025-05-05")], at: "2025-04-06", .active
        ) {
            grace(&$0)
            hold(&$0)
            $0.notice("2025-04-05", .recovered)
            $0.answer("2025-04-05T00:00:03Z", .active, start: "2025-02-20", until: "2025-05-05", order: "G..0")
        },
        PlayAction("2 RENEWED: expiry = old + period", [toApril], at: "2025-03-21", .active) { renewed(&$0) },
        PlayAction("2 RENEWED in grace: the cycle is kept", [toApril], at: "2025-03-23", .active) {
            grace(&$0)
            $0.answer("2025-03-22", .active, start: "2025-02-20", until: "2025-04-20", order: "G..0")
        },
        PlayAction("3 CANCELED: access to the expiry", [february], at: "2025-03-01", .activeWillEnd) {
            $0.answer(
                "2025-02-25", .canceled, start: "2025-02-20", until: "2025-03-20", order: "G", renews: false
            ) { $0.cancelReason = .user }
        },
        PlayAction(
            "3 CANCELED in grace: EXPIRED at once", [Span("2025-02-20", "2025-03-22")], at: "2025-03-23", .expired
        ) {
            grace(&$0)
            expired(&$0, "2025-03-22T00:00:02Z", until: "2025-03-22", .user, cancelled: "2025-03-22")
        },
        PlayAction("4 PURCHASED: opens", [february], at: "2025-02-20", .active) { _ in },
        PlayAction("5 ON_HOLD: no access", [Span("2025-02-20", "2025-03-27")], at: "2025-03-28", .hold) {
            grace(&$0)
            hold(&$0)
        },
        PlayAction("5 ON_HOLD without grace", [february], at: "2025-03-21", .hold) {
            $0.answer("2025-03-21", .onHold, start: "2025-02-20", until: "2025-03-20", order: "G")
        },
        PlayAction(
            "6 IN_GRACE_PERIOD: access until the end of grace", [Span("2025-02-20", "2025-03-27")], at: "2025-03-21",
            .grace
        ) { grace(&$0) },
        PlayAction("7 RESTARTED: renews again", [february], at: "2025-03-02", .active) {
            $0.answer("2025-02-25", .canceled, start: "2025-02-20", until: "2025-03-20", order: "G", renews: false)
            $0.answer("2025-03-01", .active, start: "2025-02-20", until: "2025-03-20", order: "G")
        },
        PlayAction("8 PRICE_CHANGE_CONFIRMED: the same access", [february], at: "2025-03-01", .active) {
            $0.answer("2025-02-25", .active, start: "2025-02-20", until: "2025-03-20", order: "G") {
                $0.items[0].newPrice = 5990
                $0.items[0].newPriceState = "CONFIRMED"
            }
        },
        PlayAction(
            "9 DEFERRED: the end moves", [Span("2025-02-20", "2025-04-03")], at: "2025-03-25", .active
        ) { $0.answer("2025-03-01", .active, start: "2025-02-20", until: "2025-04-03", order: "G") },
        PlayAction("10 PAUSED: no access", [february], at: "2025-03-21", .paused) {
            $0.answer("2025-03-20T00:00:05Z", .paused, start: "2025-02-20", until: "2025-06-20", order: "G") {
                $0.autoResumeTime = day("2025-04-20")
            }
        },
        PlayAction("11 PAUSE_SCHEDULE_CHANGED: still access", [february], at: "2025-03-01", .active) {
            $0.answer("2025-02-28", .active, start: "2025-02-20", until: "2025-03-20", order: "G")
        },
        PlayAction(
            "12 REVOKED: closed at the answer's expiry", [Span("2025-02-20", "2025-03-01")], at: "2025-03-02", .revoked
        ) { expired(&$0, "2025-03-01T00:00:03Z", until: "2025-03-01") },
        PlayAction(
            "12 REVOKED for good: cut at the event", [Span("2025-02-20", "2025-03-01")], at: "2025-03-02", .revoked
        ) {
            $0.notice("2025-03-01", .revoked)
            $0.notice("2025-03-01T00:00:09Z", .gone)
        },
        PlayAction("12 REVOKED while the API fails: nothing closes", [february], at: "2025-03-02", .active) {
            $0.notice("2025-03-01", .revoked)
        },
        PlayAction("13 EXPIRED: the date closed it", [february], at: "2025-03-21", .expired) {
            expired(&$0, "2025-03-20T00:00:30Z", until: "2025-03-20", .user)
        },
        PlayAction(
            "17 ITEMS_CHANGED: the end of one item leaves the other", [toApril], at: "2025-04-01", .active
        ) { story in
            story.answer("2025-03-20T00:01:00Z", .active, start: "2025-02-20", until: "2025-04-20", order: "G..0") {
                var ended = PurchaseSnapshot.Item(productId: "extra")
                ended.basePlanId = "monthly"
                ended.expiryTime = day("2025-03-20")
                ended.orderId = "G"
                ended.isAutoRenewing = false
                $0.items.append(ended)
            }
        },
        PlayAction(
            "18 CANCELLATION_SCHEDULED: access until the commitment ends", [february], at: "2025-03-01", .activeWillEnd
        ) {
            $0.answer("2025-02-28", .active, start: "2025-02-20", until: "2025-03-20", order: "G") {
                $0.items[0].paymentsCommitted = 3
                $0.items[0].isEndingAfterCommitment = true
            }
        },
        PlayAction("19 PRICE_CHANGE_UPDATED: the same access", [february], at: "2025-03-01", .active) {
            $0.answer("2025-02-25", .active, start: "2025-02-20", until: "2025-03-20", order: "G") {
                $0.items[0].newPrice = 5990
                $0.items[0].newPriceState = "OUTSTANDING"
            }
        },
        PlayAction(
            "20 PENDING_PURCHASE_CANCELED: never had access", [], at: "2025-02-22", .never, bought: false
        ) {
            $0.answer("2025-02-20", .pending)
            $0.answer("2025-02-21", .pendingPurchaseCanceled)
        },
        PlayAction("22 PRICE_STEP_UP_CONSENT_UPDATED: the same access", [february], at: "2025-03-01", .active) {
            $0.answer("2025-02-25", .active, start: "2025-02-20", until: "2025-03-20", order: "G")
        },
    ]

    /// The rows of the tables of states and rules.
    static let states: [PlayAction] = [
        PlayAction("PENDING: no access", [], at: "2025-02-21", .pending, bought: false) {
            $0.answer("2025-02-20", .pending)
        },
        PlayAction("PENDING, then paid", [Span("2025-02-22", "2025-03-22")], at: "2025-02-23", .active, bought: false) {
            $0.answer("2025-02-20", .pending)
            $0.answer("2025-02-22T00:00:05Z", .active, start: "2025-02-22", until: "2025-03-22", order: "G")
        },
        PlayAction(
            "ACTIVE, the charge is late: no access after the expiry", [february], at: "2025-03-20T02:00:00Z", .retry
        ) {
            $0.answer("2025-03-20T01:00:00Z", .active, start: "2025-02-20", until: "2025-03-20", order: "G")
        },
        PlayAction("ACTIVE, charged late: no lapse afterwards", [toApril], at: "2025-03-20T00:01:00Z", .active) {
            renewed(&$0)
        },
        PlayAction("ACTIVE, charged before the expiry", [toApril], at: "2025-03-20", .active) {
            $0.answer("2025-03-19", .active, start: "2025-02-20", until: "2025-04-20", order: "G..0")
        },
        PlayAction("CANCELED, then expired by the date", [february], at: "2025-03-20", .expired) {
            $0.answer("2025-02-25", .canceled, start: "2025-02-20", until: "2025-03-20", order: "G", renews: false)
        },
        PlayAction(
            "IN_GRACE_PERIOD, extended by a later answer", [Span("2025-02-20", "2025-03-30")], at: "2025-03-28", .grace
        ) {
            grace(&$0)
            $0.answer("2025-03-25", .inGracePeriod, start: "2025-02-20", until: "2025-03-30", order: "G")
        },
        PlayAction(
            "IN_GRACE_PERIOD, with the pending order as the latest", [Span("2025-02-20", "2025-03-27")],
            at: "2025-03-21", .grace
        ) { grace(&$0) },
        PlayAction(
            "IN_GRACE_PERIOD, the first that is known", [Span("2025-02-20", "2025-03-27")], at: "2025-03-26", .grace,
            bought: false
        ) { grace(&$0) },
        PlayAction(
            "ON_HOLD, ended: EXPIRED with a later expiry adds nothing", [Span("2025-02-20", "2025-03-27")],
            at: "2025-04-27", .expired
        ) {
            grace(&$0)
            hold(&$0)
            expired(&$0, "2025-04-26T00:00:03Z", until: "2025-04-26", .system)
        },
        PlayAction(
            "ON_HOLD, the first that is known", [Span("2025-02-20", "2025-03-27")], at: "2025-03-28", .hold,
            bought: false
        ) { hold(&$0) },
        PlayAction(
            "ON_HOLD although the known end is later: no access from the answer on",
            [Span("2025-02-20", "2025-03-10")], at: "2025-03-11", .hold
        ) { $0.answer("2025-03-10", .onHold, start: "2025-02-20", until: "2025-03-20", order: "G") },
        PlayAction(
            "PAUSED, resumed: a gap", [february, Span("2025-04-20", "2025-05-20")], at: "2025-04-21", .active
        ) {
            $0.answer("2025-03-20T00:00:05Z", .paused, start: "2025-02-20", until: "2025-06-20", order: "G")
            $0.notice("2025-04-20", .recovered)
            $0.answer("2025-04-20T00:00:05Z", .active, start: "2025-02-20", until: "2025-05-20", order: "G..0")
        },
        PlayAction(
            "PAUSED, resumed without a notification: from the answer on",
            [february, Span("2025-04-20T00:00:05Z", "2025-05-20")], at: "2025-04-21", .active
        ) {
            $0.answer("2025-03-20T00:00:05Z", .paused, start: "2025-02-20", order: "G")
            $0.answer("2025-04-20T00:00:05Z", .active, start: "2025-02-20", until: "2025-05-20", order: "G..0")
        },
        PlayAction(
            "PAUSED, resumed: the order says when", [february, Span("2025-04-19", "2025-05-20")], at: "2025-04-21",
            .active
        ) {
            $0.answer("2025-03-20T00:00:05Z", .paused, start: "2025-02-20", order: "G")
            $0.answer("2025-04-20T00:00:05Z", .active, start: "2025-02-20", until: "2025-05-20", order: "G..0")
            $0.order("2025-04-20T00:00:09Z", "G..0", from: "2025-04-19", until: "2025-05-20")
        },
        PlayAction(
            "ACTIVE, the order of a renewal is dated a moment after the end: no gap", [toApril], at: "2025-04-01",
            .active
        ) {
            renewed(&$0)
            $0.order("2025-03-20T00:02:20Z", "G..0", from: "2025-03-20T00:00:40Z", until: "2025-04-20")
        },
        PlayAction(
            "PAUSED, a late answer that still shows ACTIVE changes nothing",
            [february, Span("2025-04-20T00:00:05Z", "2025-05-20")], at: "2025-04-21", .active
        ) {
            $0.answer("2025-03-20T00:00:05Z", .paused, start: "2025-02-20", order: "G")
            $0.answer("2025-03-20T00:01:00Z", .active, start: "2025-02-20", until: "2025-03-20", order: "G")
            $0.answer("2025-04-20T00:00:05Z", .active, start: "2025-02-20", until: "2025-05-20", order: "G..0")
        },
        PlayAction("PAUSED, the resume fails: hold", [february], at: "2025-04-22", .hold) {
            $0.answer("2025-03-20T00:00:05Z", .paused, start: "2025-02-20", order: "G")
            $0.answer("2025-04-20T00:00:05Z", .onHold, start: "2025-02-20", until: "2025-04-20", order: "G")
        },
        PlayAction(
            "EXPIRED, the first that is known: an upper bound", [february], at: "2025-03-21", .expired, bought: false
        ) {
            expired(&$0, "2025-03-21", until: "2025-03-20", .user)
        },
        PlayAction("a refund without revoke leaves access", [february], at: "2025-03-01", .active) {
            $0.order("2025-03-01", "G", from: "2025-02-20", until: "2025-03-20", state: "REFUNDED")
        },
        PlayAction("void of the newest order: as if never bought", [], at: "2025-03-02", .refunded) {
            $0.void("2025-03-01", order: "G", reason: 1)
        },
        PlayAction("void wins over ACTIVE", [], at: "2025-03-02", .refunded) {
            $0.void("2025-03-01", order: "G")
            $0.answer("2025-03-01T00:05:00Z", .active, start: "2025-02-20", until: "2025-03-20", order: "G")
        },
        PlayAction("void without an order: the newest", [february], at: "2025-03-21", .refunded) {
            renewed(&$0)
            $0.void("2025-03-20T12:00:00Z", order: nil)
        },
        PlayAction(
            "void of an older order: only its own period falls", [Span("2025-03-20", "2025-04-20")], at: "2025-03-21",
            .active
        ) {
            renewed(&$0)
            $0.void("2025-03-20T12:00:00Z", order: "G")
        },
        PlayAction("void of an order that is not known: nothing falls", [february], at: "2025-03-01", .active) {
            $0.void("2025-02-25", order: "G..7")
        },
        PlayAction("not acknowledged: revoked and voided", [], at: "2025-02-24", .refunded) {
            expired(&$0, "2025-02-23T00:00:03Z", until: "2025-02-23")
            $0.void("2025-02-23T00:00:05Z", order: "G", reason: 8)
        },
        PlayAction(
            "a failed call is no fact: the last state holds", [toApril], at: "2025-04-10", .active
        ) { renewed(&$0) },
        PlayAction("an older answer after a newer one changes nothing", [toApril], at: "2025-03-21", .active) {
            renewed(&$0)
            $0.answer("2025-03-20", .active, start: "2025-02-20", until: "2025-03-20", order: "G")
        },
        PlayAction("an unknown state with a new order pays", [toApril], at: "2025-03-21", .active) {
            $0.answer("2025-03-20T00:00:10Z", .active, start: "2025-02-20", until: "2025-04-20", order: "G..0") {
                $0.stateName = "SOMETHING_NEW"
            }
        },
        PlayAction(
            "an unknown state ends access at the stated end", [Span("2025-02-20", "2025-03-01")], at: "2025-02-28",
            .active
        ) {
            $0.answer("2025-02-25", .active, start: "2025-02-20", until: "2025-03-01", order: "G") {
                $0.stateName = "SOMETHING_NEW"
            }
        },
        PlayAction("promotion without an order", [february], at: "2025-03-01", .active, bought: false) {
            $0.answer("2025-02-20T00:00:01Z", .active, start: "2025-02-20", until: "2025-03-20", renews: false)
            $0.answer("2025-02-21", .active, start: "2025-02-20", until: "2025-03-20")
        },
        PlayAction(
            "renewals that nobody saw: one period over the gap", [Span("2025-02-20", "2025-06-20")], at: "2025-05-21",
            .active
        ) {
            $0.answer("2025-05-21", .active, start: "2025-02-20", until: "2025-06-20", order: "G..2")
        },
        PlayAction(
            "the first answer is of a late renewal", [Span("2025-02-20", "2025-06-20")], at: "2025-05-21", .active,
            bought: false
        ) { $0.answer("2025-05-21", .active, start: "2025-02-20", until: "2025-06-20", order: "G..2") },
        PlayAction("prepaid: renewal is always off", [february], at: "2025-03-01", .activeWillEnd, bought: false) {
            $0.answer(
                "2025-02-20T00:00:01Z", .active, start: "2025-02-20", until: "2025-03-20", order: "G", renews: false
            ) { $0.items[0].isPrepaid = true }
        },
        PlayAction(
            "installments: each charge is a period", [Span("2025-02-20", "2025-05-20")], at: "2025-05-01", .active
        ) {
            renewed(&$0)
            $0.answer("2025-04-20T00:00:20Z", .active, start: "2025-02-20", until: "2025-05-20", order: "G..1") {
                $0.items[0].paymentsCommitted = 9
            }
        },
    ]
}

@Suite("What Google's actions result in")
struct PlayActionTableTests {
    static let all = PlayAction.types + PlayAction.states + PlayAction.rules + PlayAction.lifecycle

    @Test("access and status", arguments: all)
    func result(action: PlayAction) throws {
        let subscription = try #require(action.story.subscriptions["t1"])

        #expect(subscription.accessSpans == action.spans)
        #expect(subscription.status(at: day(action.at)) == action.status)
        #expect(
            subscription.isActive(at: day(action.at))
                == action.spans.contains { $0.start <= day(action.at) && day(action.at) < $0.end })
    }

    @Test("the same in any order and repeated", arguments: all)
    func order(action: PlayAction) {
        let events = action.story.events
        let expected = PlayStory.fold(events).mapValues(\.access)

        for arrival in [events.reversed(), events + events, Array(events.reversed()) + events] {
            let spans = PlayStory.fold(arrival).mapValues { $0.access.map { Span($0.start, $0.end) } }
            #expect(spans == expected.mapValues { $0.map { Span($0.start, $0.end) } })
        }
    }
}
