import AppStore
import Encoding
import EventLog
import Logging

/// Takes notifications from the quarantine into the log once their apps are configured, and enforces the bounds of the
/// quarantine.
///
/// Any number of servers may do so at the same time: the log has each notification once. A notification is deleted from
/// the quarantine after its event is durable, so a crash in between repeats it and loses nothing.
package struct QuarantineIntake: Sendable {
    private let quarantine: Quarantine
    private let apps: [String]
    private let verifier: NotificationVerifier
    private let appender: Appender
    private let now: @Sendable () -> Instant
    private let logger: Logger
    private let metrics = QuarantineMetrics()

    /// - Parameters:
    ///   - apps: The bundle ids of the configured apps.
    ///   - verifier: Accepts notifications of those apps.
    package init(
        quarantine: Quarantine, apps: [String], verifier: NotificationVerifier, appender: Appender,
        now: @escaping @Sendable () -> Instant, logger: Logger
    ) {
        self.quarantine = quarantine
        self.apps = apps
        self.verifier = verifier
        self.appender = appender
        self.now = now
        self.logger = logger
    }

    /// The notifications of an app that were processed.
    private struct Course {
        /// The number of the last one.
        var number: Int64 = 0
        var takenIn = 0
        /// Refused again, by the rules of their app: they stay in quarantine until they are too old.
        var refused = 0
        var lastReason: String?
    }

    /// Takes in what is in quarantine, and then enforces the bounds hourly, until the task is cancelled.
    package func run() async {
        for app in apps { await takeIn(app) }
        while !Task.isCancelled {
            await prune()
            try? await Task.sleep(for: Limits.quarantineInterval)
        }
    }

    /// Takes in the notifications of an app in the order in which they arrived. Waits while the database or an OCSP
    /// responder is unavailable.
    private func takeIn(_ app: String) async {
        var course = Course()
        while !Task.isCancelled {
            do {
                while let entry = try await quarantine.next(of: app, after: course.number) {
                    guard !Task.isCancelled else { break }
                    try await takeIn(entry, &course)
                }
                return log(course, app)
            } catch {
                // The descriptions of these errors contain nothing of a notification.
                logger.warning(
                    "notifications wait in quarantine", metadata: ["stream.app": "\(app)", "error": "\(error)"])
                try? await Task.sleep(for: Limits.quarantinePause)
            }
        }
    }

    private func takeIn(_ entry: Quarantine.Entry, _ course: inout Course) async throws {
        do {
            let notification = try await verifier.verify(entry.body, receivedAt: entry.receivedAt)
            _ = try await appender.append(PreparedEvent(notification, receivedAt: entry.receivedAt))
            try await quarantine.remove(entry.number)
            course.takenIn += 1
            metrics.noteTakenIn()
        } catch let refusal as Refusal {
            if case .unverified(.revocationUnknown, _) = refusal { throw refusal }
            course.refused += 1
            course.lastReason = refusal.label
        } catch let error as AppendError {
            guard case .refused = error else { throw error }
            course.refused += 1
            course.lastReason = error.label
        }
        course.number = entry.number
    }

    private func log(_ course: Course, _ app: String) {
        if course.takenIn > 0 {
            logger.notice(
                "notifications taken in from quarantine",
                metadata: ["stream.app": "\(app)", "quarantine.count": "\(course.takenIn)"])
        }
        if course.refused > 0 {
            logger.warning(
                "notifications in quarantine refused",
                metadata: [
                    "stream.app": "\(app)", "quarantine.count": "\(course.refused)",
                    "refusal.reason": "\(course.lastReason ?? "none")",
                ])
        }
    }

    private func prune() async {
        do throws(ReadError) {
            let dropped = try await quarantine.prune(at: now())
            metrics.note(dropped)
            if dropped.count > 0 {
                logger.warning(
                    "oldest notifications dropped from quarantine",
                    metadata: [
                        "quarantine.for_bytes": "\(dropped.forBytes)", "quarantine.for_age": "\(dropped.forAge)",
                    ])
            }
        } catch {
            logger.debug("quarantine not pruned", metadata: ["error": "\(error)"])
        }
    }
}
