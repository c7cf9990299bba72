import Foundation
import Synchronization

/// Reports the progress of a long run on stderr: at most once per second to a terminal, else every five seconds.
package final class ProgressReport: Sendable {
    private let name: String
    private let unit: String
    private let interval: Duration
    private let state: Mutex<State>
    private let write: @Sendable (String) -> Void

    private struct State {
        var started: ContinuousClock.Instant
        var lastUpdate: ContinuousClock.Instant
        var done: Int64 = 0
    }

    package init(
        _ name: String, unit: String, isTerminal: Bool = isatty(2) == 1, started: ContinuousClock.Instant = .now,
        write: @escaping @Sendable (String) -> Void = printError
    ) {
        self.name = name
        self.unit = unit
        self.interval = isTerminal ? .seconds(1) : .seconds(5)
        self.write = write
        state = Mutex(State(started: started, lastUpdate: started))
    }

    /// Reports progress if the interval has passed. Zero, or less than in the previous call, starts a new run.
    package func update(_ done: Int64, of total: Int64, now: ContinuousClock.Instant = .now) {
        let elapsed = state.withLock { state -> Duration? in
            if done == 0 || done < state.done { state.started = now }
            state.done = done
            guard now - state.lastUpdate >= interval else { return nil }
            state.lastUpdate = now
            return now - state.started
        }
        if let elapsed { write(line(done, of: total, after: elapsed)) }
    }

    private func line(_ done: Int64, of total: Int64, after elapsed: Duration) -> String {
        let seconds = Double(elapsed.components.seconds) + Double(elapsed.components.attoseconds) / 1e18
        let rate = seconds > 0 ? Double(done) / seconds : 0
        let percent = total > 0 ? min(100, done * 100 / total) : 100
        let left = rate > 0 ? Self.time(Int64((Double(max(0, total - done)) / rate).rounded(.up))) : "unknown time"
        return "\(name): \(done) of \(total) \(unit), \(percent)%, \(Int64(rate)) \(unit)/s, \(left) left"
    }

    private static func time(_ seconds: Int64) -> String {
        switch seconds {
        case ..<120: "\(seconds) s"
        case ..<7200: "\(seconds / 60) min"
        default: "\(seconds / 3600) h \(seconds % 3600 / 60) min"
        }
    }
}
