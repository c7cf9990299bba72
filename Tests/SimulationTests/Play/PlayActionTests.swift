import Encoding
import Simulation
import Testing

@Suite("On Google Play, each action has the effect of the table of types")
struct PlayActionTests {
    /// Paid from 10 January to a moment before the same time on 10 February.
    private func subscribed(_ terms: PlayTerms = PlayTerms(graceDays: 7)) -> PlayLife {
        var life = newPlayLife(terms)
        life.buy(plusMonthly, at: day("2025-01-10T12:00:00Z"))
        return life
    }

    @Test("a purchase opens at its start and ends four to seven tenths of a second before a whole period")
    func purchase() {
        let life = subscribed()

        let short = life.paidEnd.duration(to: day("2025-02-10T12:00:00Z"))
        #expect((.milliseconds(400) ... .milliseconds(700)).contains(short))
        #expect(life.isActive(from: day("2025-01-10T12:00:00Z"), to: life.paidEnd))
        #expect(life.sent == ["4"] && life.status("2025-01-10T12:00:00Z") == .active)
        #expect(life.status("2025-01-10T11:59:59.999Z") == nil)
        #expect(life.key.owners(at: day("2025-01-11")) == ["user-1"])
    }

    @Test("a renewal is contiguous, charged early or late", arguments: [-3600, 135])
    func renewal(seconds: Int) {
        var life = subscribed()
        let first = life.paidEnd

        life.renew(after: .seconds(seconds))

        #expect(life.isActive(from: day("2025-01-10T12:00:00Z"), to: first.advanced(byMonths: 1)))
        #expect(life.sent == ["4", "2"])
        #expect(life.answer(at: first.advanced(by: .seconds(seconds))).order == "\(life.orders[0].orderId)..0")
        let before = life.answer(at: first.advanced(by: .seconds(seconds - 1)))
        #expect(before.state == "ACTIVE" && before.order == life.orders[0].orderId)
    }

    @Test("a cancellation leaves access to the end; a restart in Play takes it back")
    func cancelAndRestart() {
        var cancelled = subscribed()
        cancelled.cancel(reason: "TECHNICAL_ISSUES", at: day("2025-01-20"))
        var restarted = cancelled
        restarted.restart(at: day("2025-01-25"))
        cancelled.expire()

        #expect(cancelled.sent == ["4", "3", "13"] && restarted.sent == ["4", "3", "7"])
        #expect(cancelled.isActive(from: day("2025-01-10T12:00:00Z"), to: cancelled.paidEnd))
        #expect(cancelled.status("2025-01-19") == .active && cancelled.status("2025-01-20") == .activeWillEnd)
        #expect(cancelled.status("2025-02-10T12:00:00Z") == .expired && restarted.status("2025-02-11") == .active)
        #expect(cancelled.answer("2025-01-21").state == "CANCELED" && cancelled.answer("2025-03-01").state == "EXPIRED")
        let answer = restarted.answer("2025-01-26")
        #expect(answer.state == "ACTIVE" && answer.cancellation == nil)
        #expect(answer.order == cancelled.answer("2025-01-21").order)
    }

    @Test("grace gives access from the end of the paid period; a payment in it keeps the billing cycle")
    func graceRecovered() {
        var life = subscribed()
        let due = life.paidEnd
        life.failToRenew()
        let graceEnd = due.advanced(by: .seconds(7 * 86_400))
        let unpaid = life

        life.recover(at: day("2025-02-13"))

        #expect(unpaid.isActive(from: day("2025-01-10T12:00:00Z"), to: graceEnd))
        #expect(life.isActive(from: day("2025-01-10T12:00:00Z"), to: due.advanced(byMonths: 1)))
        #expect(life.sent == ["4", "6", "2"])
        #expect((5000...35_000).contains(life.messages[1].eventTime.milliseconds - due.milliseconds))
        let inGrace = life.answer("2025-02-12")
        #expect(inGrace.state == "IN_GRACE_PERIOD" && inGrace.expiry == graceEnd.description)
        #expect(inGrace["latestOrderId"] == "\(life.orders[0].orderId)..0" && inGrace.order == life.orders[0].orderId)
        #expect(unpaid.key.status(at: day("2025-02-12")) == .grace)
        // Paid for now.
        #expect(life.status("2025-02-12") == .active && life.status("2025-02-13") == .active)
        #expect(life.answer("2025-02-13").order == "\(life.orders[0].orderId)..0")
    }

    @Test("a cancellation in grace ends access at once: 3 and then 13, both answered as expired")
    func cancelledInGrace() {
        var life = subscribed()
        life.failToRenew()

        life.cancel(at: day("2025-02-12"))

        #expect(life.isActive(from: day("2025-01-10T12:00:00Z"), to: day("2025-02-12")))
        #expect(life.sent == ["4", "6", "3", "13"] && (2000...3000).contains(life.gaps[2]))
        let answer = life.answer(at: life.messages[2].eventTime)
        #expect(answer.state == "EXPIRED" && answer.expiry == "2025-02-12T00:00:00Z")
        #expect(life.status("2025-02-12") == .expired)
    }

    @Test("a hold gives no access; a payment in it begins a new cycle, and the gap stays")
    func holdRecovered() {
        var life = subscribed()
        let graceEnd = life.paidEnd.advanced(by: .seconds(7 * 86_400))
        life.failToRenew()
        life.enterHold()

        life.recover(at: day("2025-03-01"))

        #expect(life.isActive(from: day("2025-01-10T12:00:00Z"), to: graceEnd))
        #expect(life.isActive(from: day("2025-03-01"), to: day("2025-04-01")))
        #expect(life.sent == ["4", "6", "5", "1"])
        #expect((1000...31_000).contains(life.messages[2].eventTime.milliseconds - graceEnd.milliseconds))
        let onHold = life.answer("2025-02-20")
        #expect(onHold.state == "ON_HOLD" && onHold.expiry == graceEnd.description)
        #expect(life.status("2025-02-20") == .hold && life.status("2025-03-01") == .active)
        #expect(life.orders.last?.servicePeriod == day("2025-03-01")..<day("2025-04-01"))
    }

    @Test("the end of a hold moves the expiry forward, which was never paid: 3 and then 13")
    func holdEnded() {
        var life = subscribed()
        let graceEnd = life.paidEnd.advanced(by: .seconds(7 * 86_400))
        life.failToRenew()
        life.enterHold()

        life.endHold()

        let end = graceEnd.advanced(by: .seconds(53 * 86_400))
        #expect(life.isActive(from: day("2025-01-10T12:00:00Z"), to: graceEnd) && !life.isActive("2025-03-20"))
        #expect(life.sent == ["4", "6", "5", "3", "13"] && (2000...3000).contains(life.gaps[3]))
        let answer = life.answer("2025-05-01")
        #expect(answer.state == "EXPIRED" && answer.expiry == end.description)
        #expect(answer.cancellation == "systemInitiatedCancellation" && answer.order == life.orders[0].orderId)
    }

    @Test("without grace, the hold begins after a silent day in which the store shows an active subscription")
    func silentDay() {
        var life = subscribed(PlayTerms(graceDays: 0))
        let due = life.paidEnd
        life.failToRenew()

        life.enterHold()

        #expect(life.sent == ["4", "5"])
        let silent = life.answer("2025-02-11")
        #expect(silent.state == "ACTIVE" && silent.expiry == due.description)
        #expect(life.answer("2025-02-12").state == "ON_HOLD")
        #expect(life.isActive(from: day("2025-01-10T12:00:00Z"), to: due) && life.status("2025-02-11") == .hold)
    }

    @Test("a pause begins with the next period; the resumption begins a new cycle", arguments: [false, true])
    func pause(showsResume: Bool) {
        var life = subscribed()
        let end = life.paidEnd
        life.planPause(Period.monthly.duration, at: day("2025-01-20"))
        life.pause(showsResume: showsResume)

        life.recover(at: day("2025-03-05"))

        #expect(life.sent == ["4", "11", "10", "1"])
        #expect(life.answer("2025-01-21").state == "ACTIVE")
        let paused = life.answer("2025-02-20")
        let resume = end.advanced(byMonths: 1)
        #expect(paused.state == "PAUSED" && paused.expiry == (showsResume ? resume : end).description)
        #expect((paused.json["pausedStateContext"] as? [String: String])?["autoResumeTime"] == resume.description)
        #expect(life.isActive(from: day("2025-01-10T12:00:00Z"), to: end))
        #expect(life.isActive(from: day("2025-03-05"), to: day("2025-04-05")))
        #expect(life.status("2025-02-20") == .paused && life.status("2025-03-05") == .active)
    }

    @Test("a payment that fails at the end of a pause begins a hold")
    func resumeFailed() {
        var life = subscribed()
        life.planPause(Period.monthly.duration, at: day("2025-01-20"))
        life.pause()
        let resume = life.resumeTime

        life.failToResume()

        #expect(life.sent == ["4", "11", "10", "5"] && life.answer("2025-03-12").state == "ON_HOLD")
        #expect(life.answer("2025-03-12").expiry == resume.description)
        #expect(!life.isActive("2025-03-12") && life.status("2025-03-12") == .hold)
    }

    @Test("a deferral moves the end of the period that is paid")
    func deferral() {
        var life = subscribed()
        let end = life.paidEnd.advanced(by: .seconds(10 * 86_400))

        life.defer(by: .seconds(10 * 86_400), at: day("2025-01-20"))

        #expect(life.sent == ["4", "9"] && life.isActive(from: day("2025-01-10T12:00:00Z"), to: end))
        let answer = life.answer("2025-01-21")
        #expect(answer.state == "ACTIVE" && answer.expiry == end.description && answer.order == life.orders[0].orderId)
    }

    @Test("a renewal on the 31st moves to the month's last day and stays there")
    func lastDay() {
        var life = newPlayLife()
        life.buy(plusMonthly, at: day("2025-01-31T12:00:00Z"))
        life.renew()
        life.renew()

        #expect(life.paidEnd.description.hasPrefix("2025-04-28T11:59:59"))
    }

    @Test("a license tester's periods last minutes, and nothing else of them differs")
    func test() {
        var life = newPlayLife(.test)
        life.buy(plusMonthly, at: day("2025-01-10T12:00:00Z"))
        life.renew()

        #expect(life.paidEnd > day("2025-01-10T12:09:59Z") && life.paidEnd < day("2025-01-10T12:10:00Z"))
        #expect(life.answer("2025-01-10T12:01:00Z").keys.contains("testPurchase"))
        #expect(!subscribed().answer("2025-01-10T12:01:00Z").keys.contains("testPurchase"))
    }
}
