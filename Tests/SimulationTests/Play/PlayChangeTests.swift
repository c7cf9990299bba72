import Encoding
import Simulation
import Testing

@Suite("On Google Play, a change of the plan is a new token; refunds and voids take back what they name")
struct PlayChangeTests {
    private func subscribed() -> PlayLife {
        var life = newPlayLife()
        life.buy(plusMonthly, at: day("2025-01-10T12:00:00Z"))
        return life
    }

    @Test("an upgrade ends the old token a tenth of a second early, without a gap in access")
    func upgrade() {
        var life = subscribed()
        let billing = life.paidEnd

        life.replace(with: premiumMonthly, at: day("2025-01-20"))

        #expect(life.sent == ["4", "4", "13"] && (2000...4000).contains(life.gaps[1]))
        #expect(life.messages[1].purchaseToken == life.tokens[1].token)
        #expect(life.messages[2].purchaseToken == life.tokens[0].token)
        let old = life.answer("2025-01-20", token: 0)
        #expect(old.state == "EXPIRED" && old.cancellation == "replacementCancellation")
        let shown = day(old.expiry ?? "").duration(to: day("2025-01-20"))
        #expect((.milliseconds(100) ... .milliseconds(150)).contains(shown))
        let new = life.answer("2025-01-20", token: 1)
        #expect(new["linkedPurchaseToken"] == life.tokens[0].token && new["startTime"] == "2025-01-20T00:00:00Z")
        #expect(life.paidEnd == billing.advanced(by: .seconds(3)))
        #expect(life.isActive(from: day("2025-01-10T12:00:00Z"), to: life.paidEnd))
        let spans = life.key.access.spans
        #expect(spans.map(\.product.id) == ["plus:monthly", "premium:monthly"])
        #expect(spans[0].span.upperBound == day("2025-01-20") && spans[1].span.lowerBound == day("2025-01-20"))
    }

    @Test(
        "a deferred change has both items at once; nothing is sent until the new one is paid", arguments: [false, true])
    func deferred(showsExpiry: Bool) {
        var life = newPlayLife()
        life.buy(premiumMonthly, at: day("2025-01-10T12:00:00Z"))
        let end = life.paidEnd
        life.replaceLater(with: plusMonthly, showsExpiry: showsExpiry, at: day("2025-01-20"))
        let waiting = life.answer("2025-01-21", token: 1)

        life.renew()

        #expect(life.sent == ["4", "2"] && life.messages[1].purchaseToken == life.tokens[1].token)
        #expect(waiting.items.count == 2 && waiting.expiry == end.description)
        #expect(waiting.order == life.orders[0].orderId)
        let item = waiting.items[1]
        #expect(item["productId"] as? String == "plus")
        #expect(item["expiryTime"] as? String == (showsExpiry ? end.description : nil))
        #expect(item["offerDetails"] == nil && item["latestSuccessfulOrderId"] == nil)
        #expect((waiting.items[0]["deferredItemReplacement"] as? [String: String]) == ["productId": "plus"])
        let paid = life.answer("2025-02-11", token: 1)
        #expect(paid.items.count == 1 && paid.items[0]["productId"] as? String == "plus")
        #expect(life.answer("2025-01-20", token: 0).state == "EXPIRED")
        let spans = life.key.access.spans
        #expect(spans.map(\.product.id) == ["premium:monthly", "premium:monthly", "plus:monthly"])
        #expect(spans[2].span.lowerBound == end && life.isActive("2025-02-28"))
    }

    @Test("a change that is never paid leaves the old plan alone")
    func pendingChange() {
        var life = subscribed()
        var details = PlayLife.Details()
        details.isPending = true
        life.replace(with: premiumMonthly, at: day("2025-01-20"), details)

        life.cancelPending(at: day("2025-01-22"))
        life.renew()

        #expect(life.sent == ["4", "20", "2"] && life.messages[1].purchaseToken == life.tokens[1].token)
        #expect(life.answer("2025-01-21", token: 1).state == "PENDING")
        #expect(life.answer("2025-01-21", token: 1)["linkedPurchaseToken"] == life.tokens[0].token)
        #expect(life.answer("2025-01-23", token: 1).state == "PENDING_PURCHASE_CANCELED")
        #expect(life.answer("2025-01-23", token: 0).state == "ACTIVE")
        #expect(life.key.access.spans.map(\.product.id) == ["plus:monthly", "plus:monthly"])
        #expect(life.orders[1].orderId == "\(life.orders[0].orderId)..0")
    }

    @Test("a pending purchase gives access from its payment on")
    func pending() {
        var life = newPlayLife()
        var details = PlayLife.Details()
        details.isPending = true
        life.buy(plusMonthly, at: day("2025-01-10"), details)

        life.payPending(at: day("2025-01-12"))

        #expect(life.sent == ["4"] && life.isActive(from: day("2025-01-12"), to: life.paidEnd))
        let pending = life.answer("2025-01-11")
        #expect(pending.state == "PENDING" && pending["startTime"] == nil && pending.expiry == nil)
        #expect(life.status("2025-01-11") == .pending && life.status("2025-01-12") == .active)
        #expect(life.answer("2025-01-12")["startTime"] == "2025-01-12T00:00:00Z")
    }

    @Test("a refund of the newest payment ends the subscription: 12, 13 and a void")
    func refund() {
        var life = subscribed()
        life.renew()

        life.refund(at: day("2025-02-20"))

        #expect(life.sent == ["4", "2", "12", "13", "void"] && (2000...3000).contains(life.gaps[2]))
        #expect(life.isActive("2025-02-09") && !life.isActive("2025-02-11") && !life.isActive("2025-02-19"))
        #expect(life.key.access.isHeld(at: day("2025-02-19")) && !life.key.access.isHeld(at: day("2025-02-20")))
        let answer = life.answer("2025-02-20")
        #expect(answer.state == "EXPIRED" && answer.expiry == "2025-02-20T00:00:00Z")
        #expect(answer.cancellation == "userInitiatedCancellation")
        #expect(life.voids.map(\.orderId) == ["\(life.orders[0].orderId)..0"] && life.status("2025-02-20") == .refunded)
    }

    @Test("a refund of an older payment takes its period only; one without a revocation takes nothing")
    func olderRefund() {
        var life = subscribed()
        life.renew()
        life.renew()
        let orders = life.orders.map(\.orderId)

        life.refund(orders[0], at: day("2025-03-20"))
        life.refundWithoutRevoke(orders[1], at: day("2025-03-21"))

        #expect(life.sent == ["4", "2", "2", "void"])
        #expect(!life.isActive("2025-01-20") && life.isActive("2025-02-20") && life.isActive("2025-03-25"))
        #expect(life.answer("2025-03-22").state == "ACTIVE" && life.voids.count == 1)
        #expect(life.orders.map { $0.state(at: day("2025-03-22")) } == [.refunded, .refunded, .processed])
    }

    @Test("a void wins while the store still shows an active subscription")
    func voidedWhileActive() {
        var life = subscribed()

        life.refund(source: .google, reason: .fraud, staysActive: true, at: day("2025-01-20"))

        #expect(life.sent == ["4", "void"] && life.answer("2025-01-21").state == "ACTIVE")
        #expect(!life.isActive("2025-01-15") && !life.isActive("2025-01-25"))
    }

    @Test("a purchase that is never acknowledged is taken back after three days")
    func unacknowledged() {
        var life = newPlayLife(isAcknowledgedByApp: false)
        life.buy(plusMonthly, at: day("2025-01-10"))

        life.renew()
        life.cancel(at: day("2025-02-20"))

        #expect(life.sent == ["4", "12", "13", "void"])
        let answer = life.answer("2025-01-13")
        #expect(answer.state == "EXPIRED" && answer.expiry == "2025-01-13T00:00:00Z")
        #expect(answer["acknowledgementState"] == "ACKNOWLEDGEMENT_STATE_PENDING")
        #expect(life.answer("2025-01-12").state == "ACTIVE" && !life.isActive("2025-01-11"))
        #expect(life.voids.map(\.reason) == [.unacknowledged] && life.voids[0].voidedTime == day("2025-01-13"))
    }

    @Test("an acknowledgement by the server counts until the deadline, and not after it", arguments: [true, false])
    func acknowledged(isInTime: Bool) {
        let token = newPlayLife().identifiedToken
        let at = day(isInTime ? "2025-01-13T00:00:00Z" : "2025-01-13T00:00:01Z")
        var life = newPlayLife(isAcknowledgedByApp: false, acknowledged: [token: at])
        life.buy(plusMonthly, at: day("2025-01-10"))

        life.renew()

        #expect(life.sent == (isInTime ? ["4", "2"] : ["4", "12", "13", "void"]))
    }

    @Test("a prepaid plan of a week must be acknowledged within three days, one of five minutes at its end")
    func deadlines() {
        var weekly = newPlayLife()
        weekly.buy(PlayPlan(.plus, .weekly, .prepaid), at: day("2025-01-10"))
        var monthly = newPlayLife()
        monthly.buy(PlayPlan(.plus, .monthly, .prepaid), at: day("2025-01-10"))
        var test = newPlayLife(.test)
        test.buy(plusMonthly, at: day("2025-01-10"))

        // Half the length of a period that is a moment shorter than a week.
        #expect(weekly.current.deadline?.description.hasPrefix("2025-01-13T11:59:59") == true)
        #expect(monthly.current.deadline == day("2025-01-13"))
        #expect(test.current.deadline == day("2025-01-10T00:05:01Z"))
    }

    @Test("a top-up adds a period to what is left, with a token of its own")
    func topUp() {
        var life = newPlayLife()
        life.buy(PlayPlan(.plus, .monthly, .prepaid), at: day("2025-01-10"))
        let first = life.paidEnd

        life.topUp(at: day("2025-01-20"))
        life.expire()

        #expect(life.sent == ["4", "4", "13", "13"] && life.paidEnd == first.advanced(byMonths: 1))
        #expect(life.isActive(from: day("2025-01-10"), to: life.paidEnd))
        let item = life.answer("2025-01-21", token: 1).items.first ?? [:]
        #expect(item["prepaidPlan"] != nil && item["autoRenewingPlan"] == nil)
        #expect(life.status("2025-02-01") == .activeWillEnd && life.status("2025-03-11") == .expired)
    }

    @Test("two items share a token; the removal of one leaves the other")
    func items() {
        var life = newPlayLife()
        life.buy([premiumMonthly, PlayPlan(.audio, .monthly)], at: day("2025-01-10"))
        let end = life.paidEnd
        life.removeItem("audio", at: day("2025-01-20"))

        life.renew()

        #expect(life.sent == ["4", "17", "2"])
        #expect(life.answer("2025-01-21").items.map { $0["deferredItemRemoval"] != nil } == [false, true])
        #expect(life.answer("2025-02-11").items.map { $0["productId"] as? String } == ["premium"])
        let audio = life.key.access.spans.filter { $0.product.id == "audio:monthly" }
        #expect(audio.map(\.span) == [day("2025-01-10")..<end])
        #expect(life.key.access.spans.count == 3)
    }

    @Test("the user of an upgrade owns it from then on; one without a user leaves the owner")
    func owners() {
        var life = subscribed()
        var details = PlayLife.Details()
        details.account = PlayAccount(obfuscatedAccountId: "user-2")
        life.replace(with: premiumMonthly, at: day("2025-01-20"), details)
        details.account = PlayAccount.none
        life.replace(with: plusMonthly, at: day("2025-01-25"), details)

        let dates = ["2025-01-01", "2025-01-19", "2025-01-20", "2025-01-26"].map { day($0) }
        #expect(dates.map { life.key.owners(at: $0) } == [["user-1"], ["user-1"], ["user-2"], ["user-2"]])
        #expect(dates.map { life.key.owners(at: $0, .firstBuyer) } == Array(repeating: ["user-1"], count: 4))
        #expect(life.key.owners(at: dates[0], .shared) == ["user-1", "user-2"])
        #expect(life.answer("2025-01-26", token: 2).json["externalAccountIdentifiers"] == nil)
    }
}

extension PlayLife {
    /// The token of the first purchase, which depends on the ids alone.
    fileprivate var identifiedToken: String {
        var life = self
        life.buy(plusMonthly, at: day("2025-01-01"))
        return life.current.token
    }
}
