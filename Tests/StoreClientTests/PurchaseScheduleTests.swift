import Encoding
import Subscriptions
import Testing

@testable import StoreClient

@Suite("When purchases of Google Play are asked about without a notification")
struct PurchaseScheduleTests {
    private static let now = Instant(iso8601: "2026-11-01T00:00:00.000Z")!
    private static let day: Int64 = 86_400

    private static func next(
        _ state: PurchaseSnapshot.State, end: Int64? = nil, resume: Int64? = nil, noticed: Int64 = 0,
        in environment: Environment = .production, part: Double = 0, kind: PurchaseSnapshot.Kind = .subscription
    ) -> Int64? {
        var snapshot = PurchaseSnapshot(purchaseToken: "t", kind: kind, stateName: state.rawValue)
        var item = PurchaseSnapshot.Item(productId: "p")
        item.expiryTime = end.map { now.advanced(by: .seconds($0)) }
        snapshot.items = [item]
        snapshot.autoResumeTime = resume.map { now.advanced(by: .seconds($0)) }
        let schedule = PurchaseSchedule(
            snapshot: snapshot, environment: environment, noticedAt: now.advanced(by: .seconds(-noticed)), part: part)
        return schedule.next(after: now).map { ($0.milliseconds - now.milliseconds) / 1000 }
    }

    @Test(
        "around the shown end: after 5 minutes, 1, 6 and 24 hours",
        arguments: [PurchaseSnapshot.State.active, .canceled])
    func end(_ state: PurchaseSnapshot.State) {
        #expect(Self.next(state, end: 1000) == 1300)
        #expect(Self.next(state, end: -300) == 3300)
        #expect(Self.next(state, end: -3600) == 18_000)
        #expect(Self.next(state, end: -6 * 3600) == 64_800)
        #expect(Self.next(state, end: -Self.day) == nil)
        #expect(Self.next(state, end: nil) == nil)
    }

    @Test("in grace daily and at its end")
    func grace() {
        #expect(Self.next(.inGracePeriod, end: 3 * Self.day) == Self.day)
        #expect(Self.next(.inGracePeriod, end: 1000) == 1300)
    }

    @Test("in account hold daily for a week, then every third day to the sixtieth, then never")
    func hold() {
        #expect(Self.next(.onHold, end: -10) == Self.day - 10)
        #expect(Self.next(.onHold, end: -7 * Self.day) == 3 * Self.day)
        #expect(Self.next(.onHold, end: -59 * Self.day) == 2 * Self.day)
        #expect(Self.next(.onHold, end: -61 * Self.day) == nil)
    }

    @Test("paused: after the planned end of the pause, then daily")
    func pause() {
        #expect(Self.next(.paused, end: -10, resume: 40 * Self.day) == 40 * Self.day + 300)
        #expect(Self.next(.paused, end: -10, resume: -1000) == Self.day)
        #expect(Self.next(.paused, end: -10) == Self.day)
    }

    @Test("pending: hourly for a day, then daily, for two months")
    func pending() {
        #expect(Self.next(.pending) == 3600)
        #expect(Self.next(.pending, noticed: 2 * Self.day) == Self.day)
        #expect(Self.next(.pending, noticed: 61 * Self.day) == nil)
        #expect(Self.next(.pending, kind: .product) == 3600)
    }

    @Test("ended: once after a day, then never; what is paid for once, never")
    func ended() {
        #expect(Self.next(.expired, end: -10) == Self.day - 10)
        #expect(Self.next(.expired, end: -2 * Self.day) == nil)
        #expect(Self.next(.pendingPurchaseCanceled) == nil)
        #expect(Self.next(.purchased, kind: .product) == nil)
        #expect(Self.next(.cancelled, kind: .product) == nil)
    }

    @Test("test purchases are asked about within 30 seconds to 5 minutes")
    func sandbox() {
        #expect(Self.next(.active, end: 100, in: .sandbox) == 130)
        #expect(Self.next(.active, end: -30, in: .sandbox) == 90)
        #expect(Self.next(.onHold, end: 0, in: .sandbox) == 120)
        #expect(Self.next(.expired, end: 0, in: .sandbox) == 300)
        #expect(Self.next(.inGracePeriod, end: 300, in: .sandbox) == 60)
    }

    @Test("questions about purchases that end at the same time are spread over five minutes")
    func spread() {
        #expect(Self.next(.active, end: 1000, part: 0.5) == 1450)
        #expect(Self.next(.active, end: 1000, in: .sandbox, part: 0.5) == 1035)
    }
}
