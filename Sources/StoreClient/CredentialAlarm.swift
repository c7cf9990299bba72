import Logging
import Synchronization

/// Logs apps whose secrets or keys the App Store rejects, each at most once an hour.
final class CredentialAlarm: Sendable {
    private let message: Logger.Message
    private let logger: Logger
    private let loggedAt = Mutex<[String: ContinuousClock.Instant]>([:])

    init(_ message: Logger.Message, logger: Logger) {
        self.message = message
        self.logger = logger
    }

    /// - Parameter app: The bundle id of a configured app.
    func note(_ app: String, at now: ContinuousClock.Instant) {
        let isDue = loggedAt.withLock { loggedAt in
            if let last = loggedAt[app], now - last < Limits.credentialAlarmInterval { return false }
            loggedAt[app] = now
            return true
        }
        guard isDue else { return }
        logger.error(message, metadata: ["stream.app": "\(app)"])
    }
}
