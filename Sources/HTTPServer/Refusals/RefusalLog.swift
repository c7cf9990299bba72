import Logging
import Synchronization

/// Logs refused requests within a ``LineBudget``.
final class RefusalLog: Sendable {
    private let logger: Logger
    private let budget = Mutex(LineBudget(linesPerSecond: Limits.refusalLinesPerSecond))
    private let now: @Sendable () -> ContinuousClock.Instant
    private let sleep: @Sendable (ContinuousClock.Instant) async -> Void

    init(
        logger: Logger, now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        sleep: @escaping @Sendable (ContinuousClock.Instant) async -> Void = { instant in
            try? await Task.sleep(until: instant, clock: .continuous)
        }
    ) {
        self.logger = logger
        self.now = now
        self.sleep = sleep
    }

    /// - Parameters:
    ///   - reason: A word from a closed list.
    ///   - metadata: The line's metadata besides the reason.
    func note(_ reason: String, _ metadata: @autoclosure () -> Logger.Metadata) {
        switch budget.withLock({ $0.admit(reason, at: now()) }) {
        case .write:
            logger.notice(
                "notification refused", metadata: metadata().merging(["refusal.reason": "\(reason)"]) { $1 })
        case .leaveOut(let summaryDue?):
            Task {
                await sleep(summaryDue)
                let count = budget.withLock { $0.close(reason) }
                logger.notice(
                    "more notifications refused",
                    metadata: ["refusal.reason": "\(reason)", "refusal.left_out": "\(count)"])
            }
        case .leaveOut(nil): break
        }
    }
}
