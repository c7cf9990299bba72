import Logging
import Synchronization

/// Logs apps whose secrets or keys a store rejects, each at most once an hour.
final class CredentialAlarm: Sendable {
    private let message: Logger.Message
    private let logger: Logger
    private let loggedAt = Mutex<[Rejected: ContinuousClock.Instant]>([:])

    private struct Rejected: Hashable, Sendable {
        let app: String
        let host: String?
    }

    init(_ message: Logger.Message, logger: Logger) {
        self.message = message
        self.logger = logger
    }

    /// - Parameters:
    ///   - app: The bundle id or package name of a configured app.
    ///   - host: The only host that rejects it; nil if all do.
    func note(_ app: String, of host: String? = nil, at now: ContinuousClock.Instant) {
        let isDue = loggedAt.withLock { loggedAt in
            let rejected = Rejected(app: app, host: host)
            if let last = loggedAt[rejected], now - last < Limits.credentialAlarmInterval { return false }
            loggedAt[rejected] = now
            return true
        }
        guard isDue else { return }
        var metadata: Logger.Metadata = ["stream.app": "\(app)"]
        if let host { metadata["store.host"] = "\(host)" }
        logger.error(message, metadata: metadata)
    }
}
