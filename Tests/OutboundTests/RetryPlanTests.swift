import Encoding
import Outbound
import Testing

@Suite("Retry plan of outbound delivery")
struct RetryPlanTests {
    @Test("ten attempts within 75 hours")
    func plan() {
        let plan = RetryPlan.standard

        // The middle of the jitter is the plan itself.
        let pauses = (1...9).map { plan.pause(after: $0, part: 0.5) }

        let seconds: [Int64] = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400]
        #expect(pauses == seconds.map { Duration.seconds($0) })
        // 75:35:05.
        let total: Int64 = seconds.reduce(0, +)
        #expect(total == 272_105)
        #expect(plan.pause(after: 10, part: 0.5) == nil)
        #expect(plan.pause(after: 11, part: 0.5) == nil)
    }

    @Test("pauses are up to 20 percent shorter or longer")
    func jitter() throws {
        for attempts in 1...9 {
            let planned = RetryPlan.standard.pauses[attempts]
            let shortest = try #require(RetryPlan.standard.pause(after: attempts, part: 0))
            let longest = try #require(RetryPlan.standard.pause(after: attempts, part: 0.999_999))
            #expect(abs(shortest / planned - 0.8) < 0.001)
            #expect(abs(longest / planned - 1.2) < 0.001)
        }
    }

    @Test("Retry-After makes a pause longer, within its bound, and never shorter")
    func retryAfter() {
        let plan = RetryPlan.standard

        #expect(plan.pause(after: 1, part: 0.5, retryAfter: .seconds(60)) == .seconds(60))
        #expect(plan.pause(after: 1, part: 0.5, retryAfter: .seconds(1)) == .seconds(5))
        #expect(plan.pause(after: 1, part: 0.5, retryAfter: .seconds(86_400)) == Limits.retryAfterMax)
        #expect(plan.pause(after: 9, part: 0.5, retryAfter: .seconds(60)) == .seconds(86_400))
        #expect(plan.pause(after: 10, part: 0.5, retryAfter: .seconds(60)) == nil)
    }

    @Test("Retry-After is a number of seconds or a date")
    func header() throws {
        let now = try #require(Instant(iso8601: "1994-11-06T08:49:00Z"))

        #expect(RetryAfter.pause("120", now: now) == .seconds(120))
        #expect(RetryAfter.pause(" 0 ", now: now) == .zero)
        #expect(RetryAfter.pause("99999999999999999999", now: now) == .seconds(999_999_999))
        #expect(RetryAfter.pause("Sun, 06 Nov 1994 08:49:37 GMT", now: now) == .seconds(37))
        for text in ["Sun, 06 Nov 1994 08:48:00 GMT", "", "soon", "-5", "1.5", "Sun, 99 Nov 1994 08:49:37 GMT"] {
            #expect(RetryAfter.pause(text, now: now) == nil)
        }
    }

    @Test(
        "answers are classified",
        arguments: [
            (200, "success"), (204, "success"), (299, "success"), (300, "redirect"), (301, "redirect"),
            (308, "redirect"), (400, "client_error"), (401, "client_error"), (404, "client_error"), (410, "gone"),
            (429, "client_error"), (500, "server_error"), (503, "server_error"), (100, "server_error"),
            (600, "server_error"),
        ])
    func classes(_ status: Int, _ name: String) {
        let outcome = AttemptOutcome(status: status, retryAfter: .seconds(9))

        #expect(outcome.class.rawValue == name)
        #expect(outcome.isSuccess == (200..<300).contains(status))
        #expect(outcome.hold == ([429, 502, 503, 504].contains(status) ? .seconds(9) : nil))
    }
}
