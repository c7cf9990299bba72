import Encoding
import Testing

@testable import Subscriptions

@Suite("When Google is asked about a purchase without a notification")
struct PlayScheduleTests {
    private static let now = Instant(iso8601: "2026-11-01T00:00:00.000Z")!
    private static let dayLength: Int64 = 86_400

    /// The pause from now to the next question, without the spread, and its reason.
    ///
    /// - Parameters:
    ///   - end: Seconds from now, as all others.
    ///   - answered: When the last answer that stated something new was given; the state was confirmed now.
    private static func next(
        _ state: PurchaseSnapshot.State?, end: Int64? = nil, resume: Int64? = nil, pending: Int64? = nil,
        answered: Int64 = 0, in environment: Environment = .production, isSubscription: Bool = true,
        isGone: Bool = false
    ) -> String? {
        func instant(_ seconds: Int64) -> Instant { now.advanced(by: .seconds(seconds)) }
        let purchase = PlayPurchase(
            purchaseToken: "t", fullPurchaseToken: "t", isSubscription: isSubscription,
            stateName: state?.rawValue ?? "NEW", startTime: nil, productIds: ["p"], isAcknowledged: true,
            autoResumeTime: resume.map(instant), expiryTime: end.map(instant), answeredAt: instant(answered),
            replacedAt: nil, latestOrderId: nil,
            suspensions: pending.map {
                [PlayPurchase.Suspension(status: .pending, start: instant($0), end: .latest)]
            } ?? [], isGone: isGone)
        let schedule = PlaySchedule(purchase: purchase, isOfSandbox: environment == .sandbox)
        return schedule.next(after: now).map { check in
            // The spread of this token is less than a second of the sandbox's ten, and 30 times that in production.
            let pause = (check.dueAt.milliseconds - now.milliseconds - spread(environment)) / 1000
            return "\(pause) \(check.reason.rawValue)"
        }
    }

    private static func spread(_ environment: Environment) -> Int64 {
        let hash = (UInt32(2_166_136_261) ^ UInt32(UInt8(ascii: "t"))) &* 16_777_619
        return Int64((environment == .sandbox ? 10_000 : 300_000) * Double(hash >> 8) / Double(1 << 24))
    }

    @Test("an active purchase: 5 minutes, 1, 6 and 24 hours after its end, then daily for two months")
    func active() {
        #expect(Self.next(.active, end: 1000) == "1300 renewal")
        #expect(Self.next(.active, end: -300) == "3300 retry")
        #expect(Self.next(.active, end: -3600) == "18000 retry")
        #expect(Self.next(.active, end: -6 * 3600) == "64800 retry")
        #expect(Self.next(.active, end: -Self.dayLength) == "86400 retry")
        #expect(Self.next(.active, end: -59 * Self.dayLength) == "86400 retry")
        #expect(Self.next(.active, end: -60 * Self.dayLength) == nil)
        #expect(Self.next(.active, end: nil) == nil)
        #expect(Self.next(.active, end: 1000, isSubscription: false) == nil)
    }

    @Test("a cancelled one: 5 minutes and a day after its end")
    func canceled() {
        #expect(Self.next(.canceled, end: 1000) == "1300 end")
        #expect(Self.next(.canceled, end: -3600) == "82800 end")
        #expect(Self.next(.canceled, end: -Self.dayLength) == nil)
        #expect(Self.next(.canceled, end: nil) == nil)
    }

    @Test("in grace: daily, and 5 minutes and an hour after its end, when Google has decided")
    func grace() {
        #expect(Self.next(.inGracePeriod, end: 3 * Self.dayLength) == "86400 retry")
        #expect(Self.next(.inGracePeriod, end: 1000) == "1300 retry")
        #expect(Self.next(.inGracePeriod, end: -300) == "3300 retry")
        #expect(Self.next(.inGracePeriod, end: -3600) == "86400 retry")
        #expect(Self.next(.inGracePeriod, end: -61 * Self.dayLength) == nil)
    }

    @Test("in account hold: daily for a week, then every third day to the sixty-first, then never")
    func hold() {
        #expect(Self.next(.onHold, end: -10) == "86390 retry")
        #expect(Self.next(.onHold, end: -7 * Self.dayLength) == "\(3 * Self.dayLength) retry")
        #expect(Self.next(.onHold, end: -59 * Self.dayLength) == "\(2 * Self.dayLength) retry")
        #expect(Self.next(.onHold, end: -61 * Self.dayLength) == nil)
        // An end that is ahead is none.
        #expect(Self.next(.onHold, end: 300 * Self.dayLength, answered: -10) == "86390 retry")
    }

    @Test("paused: after the planned end of the pause, then daily")
    func paused() {
        #expect(Self.next(.paused, end: -10, resume: 40 * Self.dayLength) == "\(40 * Self.dayLength + 300) renewal")
        #expect(Self.next(.paused, end: -10, resume: -100) == "200 retry")
        #expect(Self.next(.paused, end: -10, resume: -1000) == "86400 retry")
        #expect(Self.next(.paused, end: -10) == "86400 retry")
    }

    @Test("pending: hourly for a day, then daily, for two months")
    func pending() {
        #expect(Self.next(.pending) == "3600 retry")
        #expect(Self.next(.pending, pending: -3600) == "3600 retry")
        #expect(Self.next(.pending, pending: -2 * Self.dayLength) == "86400 retry")
        #expect(Self.next(.pending, pending: -61 * Self.dayLength) == nil)
        #expect(Self.next(.pending, isSubscription: false) == "3600 retry")
    }

    @Test("ended: once a day after the end; an end that is missing or ahead: soon, and a day after the answer")
    func expired() {
        #expect(Self.next(.expired, end: -10) == "86390 end")
        #expect(Self.next(.expired, end: -2 * Self.dayLength) == nil)
        #expect(Self.next(.expired, end: nil, answered: 0) == "300 end")
        #expect(Self.next(.expired, end: 300 * Self.dayLength, answered: -300) == "3300 end")
        #expect(Self.next(.expired, end: nil, answered: -3600) == "82800 end")
        #expect(Self.next(.expired, end: nil, answered: -Self.dayLength) == nil)
    }

    @Test("what is paid for once, was never paid, or is no longer answered: never")
    func never() {
        #expect(Self.next(.pendingPurchaseCanceled) == nil)
        #expect(Self.next(.purchased, isSubscription: false) == nil)
        #expect(Self.next(.cancelled, isSubscription: false) == nil)
        #expect(Self.next(.active, end: 1000, isGone: true) == nil)
    }

    @Test("a state that this release does not know may lead anywhere: daily")
    func unknown() {
        #expect(Self.next(nil, end: 1000) == "86400 retry")
    }

    @Test("test purchases, whose months last minutes: within 30 seconds to 5 minutes, for a day")
    func sandbox() {
        #expect(Self.next(.active, end: 100, in: .sandbox) == "130 renewal")
        #expect(Self.next(.active, end: -30, in: .sandbox) == "90 retry")
        #expect(Self.next(.active, end: -300, in: .sandbox) == "300 retry")
        #expect(Self.next(.active, end: -Self.dayLength, in: .sandbox) == nil)
        #expect(Self.next(.onHold, end: 0, in: .sandbox) == "120 retry")
        #expect(Self.next(.expired, end: 0, in: .sandbox) == "300 end")
        #expect(Self.next(.inGracePeriod, end: 300, in: .sandbox) == "60 retry")
        #expect(Self.next(.pending, pending: -60, in: .sandbox) == "300 retry")
    }

    @Test("questions about purchases that end at the same time are spread over minutes, in the sandbox over seconds")
    func spread() {
        func offset(_ token: String, _ isOfSandbox: Bool) -> Int64 {
            let purchase = PlayPurchase(
                purchaseToken: token, fullPurchaseToken: token, isSubscription: true, stateName: "ACTIVE",
                startTime: nil, productIds: [], isAcknowledged: nil, autoResumeTime: nil, expiryTime: Self.now,
                answeredAt: Self.now, replacedAt: nil, latestOrderId: nil, suspensions: [], isGone: false)
            let next = PlaySchedule(purchase: purchase, isOfSandbox: isOfSandbox).next(after: Self.now)
            return (next?.dueAt.milliseconds ?? 0) - Self.now.milliseconds
        }
        let all = (0..<200).map { offset("token-\($0)", false) }
        let test = (0..<200).map { offset("token-\($0)", true) }

        #expect(all.allSatisfy { (300_000..<600_000).contains($0) } && Set(all).count > 150)
        #expect(test.allSatisfy { (30_000..<40_000).contains($0) } && Set(test).count > 150)
        #expect(all == (0..<200).map { offset("token-\($0)", false) })
    }

    @Test("a subscription follows its current purchase, and none follows once Google answers no more")
    func folded() {
        var story = PlayStory()
        story.answer("2025-02-20T00:00:03Z", .active, start: "2025-02-20", until: "2025-03-20", order: "G")
        func check(_ last: String) -> String? {
            story.subscription.nextCheck(after: day(last), policy: .standard)
                .map { "\($0.dueAt.description.prefix(15)) \($0.reason.rawValue)" }
        }

        #expect(check("2025-03-01")?.hasSuffix("renewal") == true)
        #expect(check("2025-03-01")?.hasPrefix("2025-03-20T00:0") == true)
        #expect(check("2025-06-01") == nil)
    }
}
