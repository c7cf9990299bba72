import Foundation
import Synchronization

/// Tells on stderr how far a long run is: at most once a second to a terminal, every five seconds to anything else.
final class ProgressReport: Sendable {
    private let name: String
    private let unit: String
    private let interval: Duration
    private let started: ContinuousClock.Instant
    private let lastTold: Mutex<ContinuousClock.Instant>
    private let write: @Sendable (String) -> Void

    init(
        _ name: String, unit: String, isTerminal: Bool = isatty(2) == 1, started: ContinuousClock.Instant = .now,
        write: @escaping @Sendable (String) -> Void = printError
    ) {
        self.name = name
        self.unit = unit
        self.interval = isTerminal ? .seconds(1) : .seconds(5)
        self.started = started
        self.write = write
        lastTold = Mutex(started)
    }

    func tell(_ done: Int64, of total: Int64, now: ContinuousClock.Instant = .now) {
        let isDue = lastTold.withLock { last in
            guard now - last >= interval else { return false }
            last = now
            return true
        }
        if isDue { write(line(done, of: total, after: now - started)) }
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
