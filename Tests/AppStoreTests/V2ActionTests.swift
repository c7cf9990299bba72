import AppStore
import Subscriptions
import Testing

@Suite("Table of actions in signed notifications")
struct V2ActionTests {
    @Test("an action gives the result in the table for any order of arrival", arguments: V2Action.all, Arrival.allCases)
    func result(action: V2Action, arrival: Arrival) throws {
        let subscription = try folded(action.bodies, arrival)

        #expect(subscription.spans == action.spans)
        #expect(subscription.status(at: day(action.at)) == action.status)
        #expect(subscription.renewal(at: day(action.at)).autoRenewStatus == action.autoRenew)
        #expect(subscription.renewal(at: day(action.at)).autoRenewProductId == action.next)
    }

    @Test("notifications sent again under other ids change nothing", arguments: V2Action.all)
    func sentAnew(action: V2Action) throws {
        let again = action.bodies + action.bodies.map { $0.renumbered("again") }

        let subscription = try folded(again.reversed())

        #expect(subscription.spans == action.spans)
        #expect(subscription.status(at: day(action.at)) == action.status)
    }

    @Test("an upgrade ends the old period where the new one starts", arguments: Arrival.allCases)
    func upgrade(arrival: Arrival) throws {
        let bodies = [
            V2Body("SUBSCRIBED", "INITIAL_BUY", at: "2018-02-20", V2Action.rowA, V2Action.on), V2Action.upgraded,
        ]

        let subscription = try folded(bodies, arrival)

        let old = try #require(subscription.access.first { $0.transactionId == "1000000000000001" })
        #expect(old.end == day("2018-03-01"))
        #expect(old.cut == .upgraded)
        #expect(subscription.period(at: day("2018-02-28T23:59:59.999Z"))?.productId == monthly)
        #expect(subscription.period(at: day("2018-03-01"))?.productId == premium)
    }

    @Test("grace after an upgrade starts where the new product's period ends", arguments: Arrival.allCases)
    func graceAfterUpgrade(arrival: Arrival) throws {
        let subscription = try folded(V2Action.failureAfterUpgrade, arrival)

        #expect(subscription.spans == [Span("2018-01-01", "2019-01-05")])
        #expect(subscription.status(at: day("2018-12-20")) == .grace)
        #expect(subscription.status(at: day("2019-01-05")) == .retry)
    }

    @Test("an upgrade without a transaction reason (before June 2023) ends the old period", arguments: Arrival.allCases)
    func upgradeWithoutReason(arrival: Arrival) throws {
        let bodies = [
            V2Body(
                "SUBSCRIBED", "INITIAL_BUY", at: "2018-02-20", V2Action.rowA.without("transactionReason"), V2Action.on),
            V2Action.upgraded.changing { $0.transaction?["transactionReason"] = nil },
        ]

        let subscription = try folded(bodies, arrival)

        #expect(subscription.access.map(\.end) == [day("2018-03-01"), day("2018-04-01")])
        #expect(subscription.period(at: day("2018-03-10"))?.productId == premium)
    }

    @Test("a prorated refund and a family revocation are the reason for the end of the period")
    func cuts() throws {
        let bought = V2Body("SUBSCRIBED", "INITIAL_BUY", at: "2018-02-20", V2Action.rowA, V2Action.on)
        let prorated = V2Body("REFUND", at: "2018-03-10", V2Action.rowA.refunded("2018-03-10", type: "REFUND_PRORATED"))
        let revoked = V2Body("REVOKE", at: "2018-03-10", V2Action.rowA.refunded("2018-03-10", type: "FAMILY_REVOKE"))

        #expect(try folded([bought, prorated]).access.map(\.cut) == [.refundedInPart])
        #expect(try folded([bought, revoked]).access.map(\.cut) == [.familyRevoked])
    }

    @Test("a trial is an ordinary period with the trial flag")
    func trial() throws {
        let row = v2Row("1000000000000001", "2018-02-20", "2018-02-27").with([
            "offerType": 1, "offerDiscountType": "FREE_TRIAL",
        ])

        let subscription = try folded([V2Body("SUBSCRIBED", "INITIAL_BUY", at: "2018-02-20", row, V2Action.on)])

        #expect(subscription.spans == [Span("2018-02-20", "2018-02-27")])
        #expect(subscription.transactions.first?.transaction.offerType == 1)
    }
}
