import Synchronization
import Testing

@testable import Server

@Suite("Progress lines of long runs")
struct ProgressReportTests {
    private final class Lines: Sendable {
        let all = Mutex<[String]>([])
    }

    /// The lines of updates every quarter of a second, for twelve seconds.
    private static func told(isTerminal: Bool) -> [String] {
        let lines = Lines()
        let started = ContinuousClock.now
        let report = ProgressReport("rebuild", unit: "events", isTerminal: isTerminal, started: started) { line in
            lines.all.withLock { $0.append(line) }
        }
        for step in 1...48 {
            report.update(Int64(step) * 100, of: 10_000, now: started + .milliseconds(250 * step))
        }
        return lines.all.withLock { $0 }
    }

    @Test("on a terminal, a line with percent, rate and time left is printed once a second")
    func terminal() {
        let lines = Self.told(isTerminal: true)

        #expect(lines.count == 12)
        #expect(lines.first == "rebuild: 400 of 10000 events, 4%, 400 events/s, 24 s left")
        #expect(lines.last == "rebuild: 4800 of 10000 events, 48%, 400 events/s, 13 s left")
    }

    @Test("to a file, a line is printed every five seconds")
    func file() {
        #expect(Self.told(isTerminal: false).count == 2)
    }

    @Test("a remaining time above an hour is printed in hours and minutes")
    func hours() {
        let lines = Lines()
        let started = ContinuousClock.now
        let report = ProgressReport("verify", unit: "events", isTerminal: true, started: started) { line in
            lines.all.withLock { $0.append(line) }
        }

        report.update(10, of: 100_000, now: started + .seconds(1))

        let told = lines.all.withLock { $0 }
        #expect(told == ["verify: 10 of 100000 events, 0%, 10 events/s, 2 h 46 min left"])
    }
}
