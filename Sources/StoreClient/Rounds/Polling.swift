import EventLog
import Logging
import Synchronization

/// The questions to a store that are due, of all apps.
package struct PollBacklog: Sendable {
    package var due: Int64 = 0
    /// How long the oldest one has been due; zero if none is.
    package var oldest = Duration.zero
}

/// What a poller does beside its rounds: it reports that this process is alive, and counts what is due.
package final class Polling: Sendable {
    private let work: RoundParts.Work
    private let leadership: StreamLeadership
    private let clock: StoreClock
    private let logger: Logger
    private let counted = Mutex(Counted())

    private struct Counted: Sendable {
        /// When ``run(keeping:counting:_:)`` began.
        var runsSince: ContinuousClock.Instant?
        var backlog = PollBacklog()
    }

    init(_ work: RoundParts.Work, _ leadership: StreamLeadership, _ clock: StoreClock, _ logger: Logger) {
        self.work = work
        self.leadership = leadership
        self.clock = clock
        self.logger = logger
    }

    /// The questions that were due when they were last counted, whichever process asks them, if the oldest has been due for
    /// longer than ``Limits/overdueMax``; nil if they are kept up with, or this has not run for so long.
    package var overdue: PollBacklog? {
        let latest = counted.withLock { $0 }
        guard latest.backlog.oldest > Limits.overdueMax, let since = latest.runsSince,
            since + Limits.overdueMax < clock.now()
        else { return nil }
        return latest.backlog
    }

    /// Runs the rounds until the task is cancelled, and then leaves the work to others.
    ///
    /// - Parameter count: Counts what is due, whichever process asks it.
    func run(
        keeping claims: Claims<some Hashable & Sendable>,
        counting count: @escaping @Sendable () async throws -> PollBacklog,
        _ rounds: @escaping @Sendable () async -> Void
    ) async {
        counted.withLock { $0.runsSince = clock.now() }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await rounds() }
            group.addTask {
                let problem: Logger.Message = "lead of \(self.work.rawValue) not kept"
                await self.clock.repeating(problem, every: Limits.leadInterval, self.logger) {
                    try await claims.keep()
                    try await self.leadership.keep()
                    return nil
                }
            }
            group.addTask {
                let problem: Logger.Message = "due \(self.work.rawValue) not counted"
                await self.clock.repeating(problem, every: Limits.backlogInterval, self.logger) {
                    let backlog = try await count()
                    self.counted.withLock { $0.backlog = backlog }
                    return nil
                }
            }
        }
        await leadership.release()
    }
}
