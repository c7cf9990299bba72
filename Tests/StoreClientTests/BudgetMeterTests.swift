import AppStore
import Testing

@testable import StoreClient

@Suite("A call budget is kept exactly")
struct BudgetMeterTests {
    private let start = ContinuousClock.now

    @Test(
        "an app makes its burst at once, and then one call per interval",
        arguments: [(1, 1), (6, 1), (60, 5), (300, 25), (1000, 83)])
    func rate(callsPerMinute: Int, burst: Int) {
        var meter = BudgetMeter(CallBudget(callsPerMinute: callsPerMinute, concurrency: 1), at: start)

        let first = (0..<200).count { _ in meter.take(at: start) }
        var later = 0
        for millisecond in 1...120_000 where meter.take(at: start + .milliseconds(millisecond)) { later += 1 }

        #expect(first == burst)
        #expect(later == 2 * callsPerMinute)
    }

    @Test("a token is available at the end of its interval and not earlier")
    func boundary() {
        var meter = BudgetMeter(CallBudget(callsPerMinute: 6, concurrency: 1), at: start)
        let isFirstTaken = meter.take(at: start)

        let isEarlyTaken = meter.take(at: start + .milliseconds(9999))
        let isLaterTaken = meter.take(at: start + .seconds(10))

        #expect(isFirstTaken && !isEarlyTaken && isLaterTaken)
    }

    @Test("idle time fills the bucket up to the burst")
    func idle() {
        var meter = BudgetMeter(CallBudget(callsPerMinute: 60, concurrency: 1), at: start)
        for _ in 0..<5 { _ = meter.take(at: start) }

        let taken = (0..<100).count { _ in meter.take(at: start + .seconds(3600)) }

        #expect(taken == 5)
    }

    @Test("a returned token can be taken again")
    func putBack() {
        var meter = BudgetMeter(CallBudget(callsPerMinute: 1, concurrency: 1), at: start)
        _ = meter.take(at: start)
        let isSecondTaken = meter.take(at: start)

        meter.putBack()
        let isReturnedTaken = meter.take(at: start)

        #expect(!isSecondTaken && isReturnedTaken)
    }

    @Test("the expected wait is the time until that many calls can have been made")
    func wait() {
        var meter = BudgetMeter(CallBudget(callsPerMinute: 60, concurrency: 1), at: start)
        let waits = [1, 5, 6, 7].map { meter.wait(for: $0, at: start) }
        for _ in 0..<5 { _ = meter.take(at: start) }
        let waitsAfterBurst = [1, 2].map { meter.wait(for: $0, at: start + .milliseconds(400)) }

        #expect(waits == [.zero, .zero, .seconds(1), .seconds(2)])
        #expect(waitsAfterBurst == [.milliseconds(600), .milliseconds(1600)])
    }
}
