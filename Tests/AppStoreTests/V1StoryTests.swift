import AppStore
import Subscriptions
import TestSupport
import Testing

/// One customer action arrives as several notifications, in any order, some of them twice. The facts decide.
@Suite("V1 notifications folded into a subscription")
struct V1StoryTests {
    private let rowA = newRow("1000000000000001", "2022-01-01", "2022-02-01")
    private let bought = newBody("INITIAL_BUY", rows: [newRow("1000000000000001", "2022-01-01", "2022-02-01")])

    /// Checks all orders of arrival, each also with every notification sent twice.
    private func inEveryOrder(_ bodies: [JSON], _ check: (Subscription) -> Void) throws {
        let events = try bodies.map { try $0.event() }
        for order in permutations(of: events) {
            check(fold(order))
            check(fold(order + order.reversed()))
        }
    }

    private func switched(_ to: Bool, _ date: String, rows: [JSON], _ info: JSON) -> JSON {
        newBody("DID_CHANGE_RENEWAL_STATUS", rows: rows, pending: [info]).with([
            "auto_renew_status": to ? "true" : "false", "auto_renew_status_change_date": gmt(date),
            "auto_renew_status_change_date_ms": milliseconds(date),
        ])
    }

    @Test(
        "the three notifications of an upgrade end the old period and start the new one, in any order (quirks 21, 37)")
    func upgrade() throws {
        let new = newRow("1000000000000002", "2022-01-10", "2022-02-10", product: premium)
        let replaced = cancelled(rowA, "2022-01-10").with(["is_upgraded": "true"])
        let info = pending(next: premium).with(["product_id": .text(premium)])
        let bodies = [
            bought, newBody("CANCEL", rows: [new, replaced], pending: [info]),
            switched(true, "2022-01-10", rows: [new, replaced], info),
            newBody("INTERACTIVE_RENEWAL", rows: [new, replaced], pending: [info]),
        ]

        try inEveryOrder(bodies) { subscription in
            #expect(subscription.period(at: day("2022-01-09T23:59:59Z"))?.productId == monthly)
            #expect(subscription.period(at: day("2022-01-10"))?.productId == premium)
            #expect(subscription.status(at: day("2022-02-09")) == .active)
            #expect(!subscription.isActive(at: day("2022-02-10")))
        }
    }

    @Test("INTERACTIVE_RENEWAL of a downgrade without a new row extends no access")
    func downgrade() throws {
        let info = pending(next: premium)
        let bodies = [
            bought, newBody("INTERACTIVE_RENEWAL", rows: [rowA], pending: [info]),
            newBody("DID_CHANGE_RENEWAL_PREF", rows: [rowA], pending: [info]),
        ]
        let events = try bodies.map { try $0.event() }

        let subscription = fold(events)

        #expect(subscription.access.map(\.end) == [day("2022-02-01")])
        #expect(subscription.renewal(at: day("2022-01-20")).autoRenewProductId == premium)
        #expect(!subscription.isActive(at: day("2022-02-01")))
    }

    @Test("a purchase reported only in a status change starts a new period of the same subscription (quirks 24, 32)")
    func hiddenResubscription() throws {
        let rowB = newRow("1000000000000002", "2022-04-10", "2022-05-10")
        let bodies = [
            bought, switched(false, "2022-01-20", rows: [rowA], pending(autoRenew: "0")),
            switched(true, "2022-04-10", rows: [rowB, rowA], pending()),
        ]

        try inEveryOrder(bodies) { subscription in
            #expect(subscription.access.map(\.start) == [day("2022-01-01"), day("2022-04-10")])
            #expect(subscription.status(at: day("2022-01-25")) == .activeWillEnd)
            #expect(subscription.status(at: day("2022-02-01")) == .expired)
            #expect(subscription.status(at: day("2022-04-10")) == .active)
        }
    }

    @Test("a subscription first reported in a status change has the access of its row (quirk 32)")
    func firstHeardInStatusChange() throws {
        let event = try switched(true, "2022-01-01", rows: [rowA], pending()).event()

        #expect(fold([event]).isActive(at: day("2022-01-01")))
    }

    @Test("RENEWAL and DID_RECOVER for one recovery are two notifications and one period (quirk 27)")
    func recoveryUnderTwoNames() throws {
        let recover = try event(fixture: "v1-did-recover-both-generations")
        let renewal = try event(fixture: "v1-renewal-both-generations")

        let once = fold([recover])
        let both = fold([renewal, recover, renewal])

        #expect(recover.kind == .recovery && renewal.kind == .recovery)
        #expect(recover.fingerprint != renewal.fingerprint)
        #expect(both.access.count == 3)
        #expect(both.access.map(\.start) == once.access.map(\.start))
        #expect(both.access.map(\.end) == once.access.map(\.end))
        #expect(both.status(at: day("2020-11-05")) != .active)
    }

    @Test("a recovery inside grace leaves no gap, in either order of arrival")
    func recoveryInsideGrace() throws {
        let failed = try event(fixture: "v1-did-fail-to-renew-grace")
        let recovered = try event(fixture: "v1-did-recover-grace")

        for order in [[failed, recovered], [recovered, failed], [failed, recovered, failed]] {
            let subscription = fold(order)
            #expect(subscription.status(at: day("2021-10-31")) == .active)
            #expect(subscription.status(at: day("2021-11-01")) == .grace)
            #expect(subscription.isActive(at: day("2021-11-05T12:29:59Z")))
            #expect(subscription.status(at: day("2021-11-05T12:30:00Z")) == .active)
            #expect(subscription.status(at: day("2021-11-18")) == .active)
            #expect(!subscription.isActive(at: day("2021-12-01")))
        }
    }

    @Test("sixty days of retry without payment give no access and end in expired")
    func retryExhausted() throws {
        let retry = pending().with(["is_in_billing_retry_period": "1", "expiration_intent": "2"])
        let over = pending(autoRenew: "0").with(["is_in_billing_retry_period": "0", "expiration_intent": "2"])
        let bodies = [
            bought, newBody("DID_FAIL_TO_RENEW", rows: [rowA], pending: [retry]),
            switched(false, "2022-04-02", rows: [rowA], over),
        ]

        try inEveryOrder(bodies) { subscription in
            #expect(subscription.status(at: day("2022-01-31")) == .active)
            #expect(subscription.status(at: day("2022-02-01")) == .retry)
            #expect(subscription.status(at: day("2022-04-01")) == .retry)
            #expect(subscription.status(at: day("2022-04-02")) == .expired)
            #expect(subscription.access.count == 1)
        }
    }

    @Test("a refund of an older renewal leaves the current period")
    func refundOfOlderRow() throws {
        let rowB = newRow("1000000000000002", "2022-02-01", "2022-03-01")
        let bodies = [
            bought, newBody("DID_RENEW", rows: [rowB, rowA]),
            newBody("CANCEL", rows: [rowB, cancelled(rowA, "2022-02-10")]),
        ]

        try inEveryOrder(bodies) { subscription in
            #expect(!subscription.isActive(at: day("2022-01-15")))
            #expect(subscription.status(at: day("2022-02-11")) == .active)
            #expect(subscription.isActive(at: day("2022-02-28")))
        }
    }

    @Test("a refund with its switch-off ends the period, in any order")
    func refund() throws {
        let gone = cancelled(rowA, "2022-01-10")
        let bodies = [
            bought, newBody("CANCEL", rows: [gone], pending: [pending(autoRenew: "0")]),
            switched(false, "2022-01-10", rows: [gone], pending(autoRenew: "0")),
        ]

        try inEveryOrder(bodies) { subscription in
            #expect(subscription.access == [])
            #expect(subscription.status(at: day("2022-01-11")) == .refunded)
        }
    }

    @Test("an older body that arrives late changes no renewal info and still adds its row")
    func lateBody() throws {
        let rowB = newRow("1000000000000002", "2022-02-01", "2022-03-01")
        let off = try switched(false, "2022-02-05", rows: [rowB], pending(autoRenew: "0")).event()
        let renewed = try newBody("DID_RENEW", rows: [rowB, rowA]).event()

        let subscription = fold([off, renewed])

        #expect(subscription.renewal(at: day("2022-02-10")).autoRenewStatus == false)
        #expect(subscription.isActive(at: day("2022-01-01")))
    }

    @Test("a renewal charged before the expiry leaves no gap")
    func earlyCharge() throws {
        let rowB = newRow("1000000000000002", "2022-02-01", "2022-03-01")
        let early = try newBody("DID_RENEW", rows: [rowB, rowA]).event(receivedAt: day("2022-01-31T06:00:00Z"))

        let subscription = fold([try bought.event(), early])

        #expect(subscription.period(at: day("2022-01-31T23:59:59Z"))?.transactionId == "1000000000000001")
        #expect(subscription.period(at: day("2022-02-01"))?.transactionId == "1000000000000002")
    }

    @Test("a restored copy of a row adds no access (lifecycle table: restore)")
    func restored() throws {
        let copy = newRow("2000000000000009", "2022-01-01", "2022-02-01")
            .with(["web_order_line_item_id": "91000000000000001"])

        let subscription = fold([
            try bought.event(), try newBody("DID_CHANGE_RENEWAL_STATUS", rows: [copy, rowA]).event(),
        ])

        #expect(subscription.status(at: day("2022-01-15")) == .active)
        #expect(!subscription.isActive(at: day("2022-02-01")))
    }

    @Test("a family member loses access at the revocation, and the purchaser keeps it")
    func revoke() throws {
        let member = cancelled(
            newRow("5000000000000001", "2022-01-01", "2022-02-01", subscription: "5000000000000001"), "2022-01-10"
        )
        .with(["in_app_ownership_type": "FAMILY_SHARED"])
        let revoked = try newBody("REVOKE", rows: [member], pending: []).event()

        let memberSubscription = fold([revoked], subscription: "5000000000000001")
        let purchaser = fold([try bought.event(), revoked])

        #expect(memberSubscription.isActive(at: day("2022-01-09T23:59:59Z")))
        #expect(memberSubscription.status(at: day("2022-01-10")) == .revoked)
        #expect(purchaser.status(at: day("2022-01-10")) == .active)
    }

    @Test("INTERACTIVE_RENEWAL is a purchase after a lapse and a change of plan inside a period")
    func interactiveRenewal() throws {
        let afterLapse = newRow("1000000000000002", "2022-04-01", "2022-05-01", product: premium)
        let inside = newRow("1000000000000002", "2022-01-10", "2022-02-10", product: premium)

        #expect(try newBody("INTERACTIVE_RENEWAL", rows: [afterLapse, rowA]).event().kind == .purchase)
        #expect(try newBody("INTERACTIVE_RENEWAL", rows: [inside, rowA]).event().kind == .planChange)
    }
}
