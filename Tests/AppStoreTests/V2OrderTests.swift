import AppStore
import Subscriptions
import TestSupport
import Testing

/// The newest statement applies, by the time of its own signature: neither by arrival nor by the outer notification.
@Suite("Precedence of signed statements")
struct V2OrderTests {
    private let row = v2Row("1000000000000001", "2018-02-20", "2018-03-20")
    private let extended = v2Row("1000000000000001", "2018-02-20", "2018-04-03")
    private let bought = V2Body("SUBSCRIBED", "INITIAL_BUY", at: "2018-02-20", V2Action.rowA, V2Action.on)

    private func inEveryOrder(_ bodies: [V2Body], _ check: (Subscription) -> Void) throws {
        for order in permutations(of: bodies) {
            check(try folded(order))
            check(try folded(order + order.reversed()))
        }
    }

    @Test("an older copy of a transaction that arrives later does not undo an extension")
    func olderCopy() throws {
        let bodies = [
            bought, V2Body("RENEWAL_EXTENDED", at: "2018-03-10", extended, V2Action.on),
            V2Body("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", at: "2018-03-05", row, V2Action.off),
        ]

        try inEveryOrder(bodies) { #expect($0.spans == [Span("2018-02-20", "2018-04-03")]) }
    }

    @Test("an older copy inside a newer notification does not undo a refund")
    func olderInside() throws {
        let old = row.with(["signedDate": ms("2018-03-05")])
        let bodies = [
            bought, V2Body("REFUND", at: "2018-03-10", row.refunded("2018-03-10"), V2Action.on),
            V2Body("REFUND_DECLINED", at: "2018-03-15", old, V2Action.on),
        ]

        try inEveryOrder(bodies) { #expect($0.access == []) }
    }

    @Test("a transaction without a signing time has that of its notification")
    func withoutTime() throws {
        func untimed(_ body: V2Body) -> V2Body { body.changing { $0.transaction?["signedDate"] = nil } }
        let bodies = [
            untimed(bought), untimed(V2Body("REFUND", at: "2018-03-10", row.refunded("2018-03-10"))),
            untimed(V2Body("REFUND_DECLINED", at: "2018-03-05", row)),
        ]

        try inEveryOrder(bodies) { #expect($0.access == []) }
    }

    @Test("older renewal info does not overwrite newer, and its transaction still applies")
    func olderIntention() throws {
        let renewed = V2Body("DID_RENEW", at: "2018-03-20", V2Action.rowB, V2Action.on)
        let off = V2Body(
            "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", at: "2018-03-25", V2Action.rowB, V2Action.off)

        try inEveryOrder([bought, renewed, off]) { subscription in
            #expect(subscription.renewal(at: day("2018-03-26")).autoRenewStatus == false)
            #expect(subscription.renewal(at: day("2018-03-24")).autoRenewStatus == true)
            #expect(subscription.spans == [Span("2018-02-20", "2018-04-20")])
        }
    }

    @Test("older renewal info inside a newer notification does not apply")
    func olderIntentionInside() throws {
        let off = V2Body("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", at: "2018-03-05", row, V2Action.off)
        let late = V2Body("REFUND_DECLINED", at: "2018-03-10", row, V2Action.on.with(["signedDate": ms("2018-03-01")]))

        try inEveryOrder([bought, off, late]) { subscription in
            #expect(subscription.renewal(at: day("2018-03-15")).autoRenewStatus == false)
            #expect(subscription.status(at: day("2018-03-15")) == .activeWillEnd)
        }
    }

    @Test("contradictory statements with the same time give one result in any order")
    func equalTimes() throws {
        let bodies = [
            bought, V2Body("RENEWAL_EXTENDED", at: "2018-03-10", extended, V2Action.on),
            V2Body("REFUND", at: "2018-03-10", row.refunded("2018-03-10"), V2Action.off),
            V2Body("DID_CHANGE_RENEWAL_PREF", at: "2018-03-10", row, v2Renewal(next: premium)),
        ]
        let first = try folded(bodies)

        try inEveryOrder(bodies) { subscription in
            #expect(subscription.spans == first.spans)
            #expect(subscription.transactions.map(\.transaction) == first.transactions.map(\.transaction))
            #expect(subscription.renewal(at: day("2018-03-11")) == first.renewal(at: day("2018-03-11")))
            #expect(subscription.status(at: day("2018-03-11")) == first.status(at: day("2018-03-11")))
        }
    }

    @Test("a refund that is reversed and granted again is refunded")
    func refundedAgain() throws {
        let bodies = [
            bought, V2Body("REFUND", at: "2018-03-01", row.refunded("2018-03-01")),
            V2Body("REFUND_REVERSED", at: "2018-03-05", row),
            V2Body("REFUND", at: "2018-03-08", row.refunded("2018-03-08")),
        ]

        try inEveryOrder(bodies) { #expect($0.access == []) }
    }

    @Test("an unreadable revocation does not undo an earlier one")
    func unreadableRevocation() throws {
        let odd = row.with(["revocationDate": "soon"])
        let bodies = [
            bought, V2Body("REFUND", at: "2018-03-01", row.refunded("2018-03-01")),
            V2Body("REFUND", at: "2018-03-05", odd),
        ]

        try inEveryOrder(bodies) { #expect($0.access == []) }
    }

    @Test("grace is kept in any order of arrival")
    func grace() throws {
        let recovered = V2Body(
            "DID_RENEW", "BILLING_RECOVERY", at: "2018-03-30", V2Action.rowB.with(["purchaseDate": ms("2018-03-30")]),
            V2Action.on)

        try inEveryOrder([bought, V2Action.failedInGrace, recovered]) { subscription in
            #expect(subscription.spans == [Span("2018-02-20", "2018-04-20")])
            #expect(subscription.status(at: day("2018-03-25")) == .grace)
            #expect(subscription.lapses == [])
        }
    }

    @Test("sandbox and production are separate even with equal ids", arguments: Arrival.allCases)
    func environments(arrival: Arrival) throws {
        let production = try V2MagazineVariant.base.bodies.map { try $0.event() }
        let refund = V2Body(
            "REFUND", at: "2019-01-01", v2Row("1000000000000001", "2018-02-20", "2018-03-20").refunded("2019-01-01"),
            v2Renewal(autoRenew: false), environment: "Sandbox")
        let sandbox = try [
            V2Body("SUBSCRIBED", "INITIAL_BUY", at: "2018-02-20", row, V2Action.on, environment: "Sandbox"), refund,
        ].map { try $0.event() }

        let ledger = MemoryLedger(arriving: arrival.arrange(production + sandbox))

        #expect(ledger.subscriptions(products: [:]).count == 2)
        #expect(try ledger.subscription().spans == V2MagazineVariant.base.spans)
        #expect(try ledger.subscription(environment: .sandbox).access == [])
    }

    @Test("one UUID in two environments gives two notifications")
    func sameUUID() throws {
        let sandbox = V2Body("SUBSCRIBED", "INITIAL_BUY", at: "2018-02-20", row, V2Action.on, environment: "Sandbox")
            .changing { $0.payload["notificationUUID"] = bought.payload["notificationUUID"] }

        let ledger = MemoryLedger(arriving: [try bought.event(), try sandbox.event()])

        #expect(try ledger.subscription().access.count == 1)
        #expect(try ledger.subscription(environment: .sandbox).access.count == 1)
    }
}
