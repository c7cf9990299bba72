import AppStore
import Encoding
import PlayStore
import Testing

@testable import StoreClient
@testable import Subscriptions

/// Google answers 3,000 questions about subscriptions a minute. The questions are those of ``PlaySchedule``, and the
/// budget is that of ``GoogleClient``.
@Suite("A million subscriptions are asked about within the quota of Google Play")
struct PurchaseLoadTests {
    private static let quota = 3000
    private static let subscriptions = 1_000_000.0
    private static let budget = PlayRequest.Quota.subscriptions.budget
    private static let day: Int64 = 86_400
    private static let minutesOfMonth = 30.0 * 1440

    /// How a month ends for a part of the subscriptions.
    private struct End: Sendable {
        let name: String
        /// Per ten thousand.
        let share: Double
        /// What Google answers this many seconds after the end of the paid period.
        let answer: @Sendable (Int64) -> PurchaseSnapshot
    }

    /// At the end of the paid period.
    private static let end = Instant(iso8601: "2026-11-01T00:00:00.000Z")!

    private static func snapshot(
        _ state: PurchaseSnapshot.State, until: Int64, resume: Int64? = nil
    ) -> PurchaseSnapshot {
        var snapshot = PurchaseSnapshot(purchaseToken: "t", kind: .subscription, stateName: state.rawValue)
        var item = PurchaseSnapshot.Item(productId: "p")
        item.expiryTime = end.advanced(by: .seconds(until))
        snapshot.items = [item]
        snapshot.autoResumeTime = resume.map { end.advanced(by: .seconds($0)) }
        return snapshot
    }

    private static func renewed(from start: Int64) -> PurchaseSnapshot { snapshot(.active, until: start + 30 * day) }

    private static let ends = [
        End(name: "renewed", share: 9000) { _ in renewed(from: 0) },
        End(name: "charged three hours late", share: 300) {
            $0 < 3 * 3600 ? snapshot(.active, until: 0) : renewed(from: 0)
        },
        End(name: "cancelled", share: 300) { _ in snapshot(.expired, until: 0) },
        End(name: "paid in grace", share: 200) {
            $0 < 3 * day ? snapshot(.inGracePeriod, until: 7 * day) : renewed(from: 0)
        },
        End(name: "paid in account hold", share: 100) {
            $0 < 7 * day
                ? snapshot(.inGracePeriod, until: 7 * day)
                : $0 < 20 * day ? snapshot(.onHold, until: 7 * day) : renewed(from: 20 * day)
        },
        End(name: "never paid", share: 75) {
            $0 < 7 * day
                ? snapshot(.inGracePeriod, until: 7 * day)
                : $0 < 60 * day ? snapshot(.onHold, until: 7 * day) : snapshot(.expired, until: 60 * day)
        },
        End(name: "paused for a month", share: 25) {
            $0 < 30 * day ? snapshot(.paused, until: 0, resume: 30 * day) : renewed(from: 30 * day)
        },
    ]

    /// The number of questions from the end of a paid period until the next one begins, or none follows.
    private static func questions(_ ending: End) -> Int {
        var (count, now) = (0, end.advanced(byMilliseconds: -1))
        var answer = snapshot(.active, until: 0)
        while count < 100 {
            let purchase = PlayPurchase(
                purchaseToken: "t", fullPurchaseToken: "t", isSubscription: true, stateName: answer.stateName,
                startTime: nil, productIds: [], isAcknowledged: true, autoResumeTime: answer.autoResumeTime,
                expiryTime: answer.items[0].expiryTime, answeredAt: now, replacedAt: nil, latestOrderId: nil,
                suspensions: [], isGone: false)
            let schedule = PlaySchedule(purchase: purchase, isOfSandbox: false)
            guard let next = schedule.next(after: now)?.dueAt else { return count }
            // The first question about the period after.
            let isRenewed = answer.state == .active && answer.items[0].expiryTime.map { $0 > now } ?? false
            if isRenewed, count > 0 { return count }
            count += 1
            now = next
            answer = ending.answer((now.milliseconds - end.milliseconds) / 1000)
        }
        return count
    }

    private static let perMonth = ends.reduce(0) { $0 + $1.share / 10_000 * Double(questions($1)) }

    @Test("a subscription that is renewed in time costs one question a month, one that is never paid about thirty")
    func each() {
        let found = Dictionary(uniqueKeysWithValues: Self.ends.map { ($0.name, Self.questions($0)) })

        #expect(Self.ends.reduce(0) { $0 + $1.share } == 10_000)
        #expect(found["renewed"] == 1)
        #expect(found["charged three hours late"] == 3)
        #expect(found["cancelled"] == 2)
        #expect(found["paid in grace"] == 4)
        #expect(found["paid in account hold"].map { (15...20).contains($0) } == true, "\(found)")
        #expect(found["never paid"].map { (28...36).contains($0) } == true, "\(found)")
        #expect(found["paused for a month"] == 2)
    }

    @Test("the budget is half of the quota; a million subscriptions need a fortieth of it, and half of the day's")
    func month() {
        let perMinute = Self.perMonth * Self.subscriptions / Self.minutesOfMonth

        #expect(PlayRequest.Quota.subscriptions.perMinute == Self.quota)
        #expect(Self.budget.callsPerMinute == Self.quota / 2)
        #expect(perMinute < Double(Self.budget.callsPerMinute) / 40, "\(perMinute)")
        #expect(perMinute * 1440 < Double(Limits.googleCallsOfDayMax) / 2 * 0.6, "\(perMinute * 1440)")
    }

    /// How long it takes until all questions that are due at an instant are sent, and the most of them in a minute.
    private static func sweep(_ questions: Int) -> (took: Duration, busiestMinute: Int) {
        let start = ContinuousClock.now
        var (now, sent) = (start, [ContinuousClock.Instant]())
        var meter = BudgetMeter(budget, at: start)
        for _ in 0..<questions {
            now = max(now, meter.readyAt)
            guard meter.take(at: now) else { preconditionFailure("the bucket has no token when it says so") }
            sent.append(now)
        }
        var (first, busiest) = (0, 0)
        for (index, instant) in sent.enumerated() {
            while instant - sent[first] >= .seconds(60) { first += 1 }
            busiest = max(busiest, index - first + 1)
        }
        return (now - start, busiest)
    }

    @Test(
        "however many are due at once, no minute has more than the quota",
        arguments: [
            // A day's expiries at one instant; a lost day with its repetitions; 100,000; all.
            (33_333, 23), (70_000, 47), (100_000, 67), (1_000_000, 667),
        ])
    func sweeps(_ questions: Int, _ minutes: Int) {
        let sweep = Self.sweep(questions)

        #expect(sweep.took <= .seconds(minutes * 60))
        #expect(sweep.busiestMinute <= Self.budget.callsPerMinute + Self.budget.burst)
        #expect(sweep.busiestMinute < Self.quota)
    }
}
