import Encoding
import EventLog
import Simulation
import Subscriptions

/// One store's part in a run in step: what it and the apps send to the server, and what the server asks.
protocol StoreCourse {
    /// The end of the next step; nil after the last one.
    var next: Instant? { get }
    /// Sends everything that is due, and makes every check that is due. The clock of the server shows the time already.
    mutating func step(to now: Instant) async throws
    /// The server's database was restored. Apps and backends send again what they sent in the lost time, and stores do not.
    mutating func restore(_ lost: LostTime) async
}

/// Waits until a server has projected what it has stored.
struct ProjectionWait {
    let log: LogReader
    let streams: [StreamKey]

    struct TooSlow: Error, CustomStringConvertible {
        let description = "the projection stands still: see the log lines above"
    }

    private static let longest = Duration.seconds(60)
    private static let pause = Duration.milliseconds(2)

    func callAsFunction() async throws {
        for stream in streams {
            let last = try await log.lastPosition(of: stream)
            let end = ContinuousClock.now + Self.longest
            while try await log.foldedPosition(of: stream) < last {
                guard ContinuousClock.now < end else { throw TooSlow() }
                try await Task.sleep(for: Self.pause)
            }
        }
    }
}

extension StoryWindow {
    /// The end of the step in which something is due; nil after the last step. Stories that go on are followed to the end of
    /// the window, which may be now.
    ///
    /// - Parameters:
    ///   - now: The end of the step before.
    ///   - rest: How long after the end of stories that are over something is due.
    func endOfStep(
        _ length: Duration, due: Instant, after now: Instant = .earliest, rest: Duration
    ) -> Instant? {
        guard due <= (goesOn ? end : end.advanced(by: rest)) else { return nil }
        let step = max(due, now.advanced(byMilliseconds: 1)).endOfStep(length)
        guard goesOn else { return step }
        return now < end ? min(step, end) : nil
    }
}

extension Instant {
    /// The first instant that is not before this one and a multiple of a duration after the start of a run.
    func endOfStep(_ length: Duration) -> Instant {
        let step = Int64(length / .milliseconds(1))
        let passed = max(0, milliseconds - Simulation.start.milliseconds)
        return Simulation.start.advanced(byMilliseconds: (passed + step - 1) / step * step)
    }
}
