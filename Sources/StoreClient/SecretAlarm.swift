import Logging
import Synchronization

/// Logs apps whose shared secrets the App Store rejects, each at most once an hour.
final class SecretAlarm: Sendable {
    private let logger: Logger
    private let loggedAt = Mutex<[String: ContinuousClock.Instant]>([:])

    init(logger: Logger) {
        self.logger = logger
    }

    /// - Parameter app: The bundle id of a configured app.
    func note(_ app: String, at now: ContinuousClock.Instant) {
        let isDue = loggedAt.withLock { loggedAt in
            if let last = loggedAt[app], now - last < Limits.secretAlarmInterval { return false }
            loggedAt[app] = now
            return true
        }
        guard isDue else { return }
        logger.error("shared secret rejected by the App Store", metadata: ["stream.app": "\(app)"])
    }
}
