import Logging
import Synchronization
import TestSupport
import Testing

@testable import HTTPServer

@Suite("Log lines of rejected requests are limited for each reason")
struct LineBudgetTests {
    private let start = ContinuousClock.now

    @Test("lines above the limit of a second are counted, and the first one schedules a summary")
    func oneSecond() {
        var budget = LineBudget(linesPerSecond: 2)

        let verdicts = (0..<4).map { budget.admit("a", at: start + .milliseconds(100 * $0)) }

        let leftOut = budget.close("a")

        #expect(
            verdicts == [.write, .write, .leaveOut(summaryDue: start + .seconds(1)), .leaveOut(summaryDue: nil)])
        #expect(leftOut == 2)
    }

    @Test("each reason has its own budget for each second")
    func reasonsAndSeconds() {
        var budget = LineBudget(linesPerSecond: 1)

        var verdicts = [
            budget.admit("a", at: start), budget.admit("b", at: start),
            budget.admit("a", at: start + .milliseconds(999)), budget.admit("b", at: start + .milliseconds(1000)),
        ]
        // The second of "a" lasts until its summary is written, however late.
        verdicts.append(budget.admit("a", at: start + .seconds(5)))
        let leftOut = budget.close("a")
        let next = budget.admit("a", at: start + .seconds(5))
        let nothing = budget.close("a")

        #expect(
            verdicts == [
                .write, .write, .leaveOut(summaryDue: start + .seconds(1)), .write, .leaveOut(summaryDue: nil),
            ])
        #expect(leftOut == 2)
        #expect(next == .write)
        #expect(nothing == 0)
    }

    @Test("a burst writes its allowed lines and one summary with the number of omitted lines")
    func burst() async throws {
        let recorder = LogRecorder()
        let wake = AsyncStream<Void>.makeStream()
        let log = RefusalLog(
            logger: recorder.logger, now: { [start] in start }, sleep: { _ in for await _ in wake.stream { return } })

        for _ in 0..<1000 { log.note("not_json", ["http.status": "400"]) }
        let lines = recorder.text.split(separator: "\n")
        wake.continuation.yield()
        let all = try await eventually("the summary is written") {
            let all = recorder.text.split(separator: "\n")
            return all.count > lines.count ? all : nil
        }

        #expect(lines.count == Limits.refusalLinesPerSecond)
        #expect(all.count == lines.count + 1)
        #expect(all.last?.contains("\"refusal.left_out\": \(1000 - Limits.refusalLinesPerSecond)") == true)
    }

    @Test("a token bucket allows a burst, then its rate")
    func bucket() {
        var bucket = TokenBucket(perSecond: 10, capacity: 3, at: start)

        let burst = (0..<4).map { _ in bucket.take(at: start) }
        let later = [99, 101, 101].map { bucket.take(at: start + .milliseconds($0)) }
        let muchLater = (0..<4).map { _ in bucket.take(at: start + .seconds(60)) }

        #expect(burst == [true, true, true, false])
        #expect(later == [false, true, false])
        #expect(muchLater == [true, true, true, false])
    }
}
