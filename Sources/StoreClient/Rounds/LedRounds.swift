import EventLog
import Logging

extension Error {
    /// Whether the database is unavailable, so that the rest of a round fails as well. Any other error concerns the app or the
    /// stream that it was thrown for.
    var isOfDatabase: Bool {
        if let error = self as? ReadError { return error == .unavailable }
        switch self as? AppendError {
        case .queueFull, .unavailable, .outcomeUnknown: return true
        case .refused, nil: return false
        }
    }
}

/// Work that one process at a time does, in rounds: each is made again after a pause, whatever came of it. Any number of
/// processes may run one.
package struct LedRounds: Sendable {
    package struct Round: Sendable {
        fileprivate let problem: Logger.Message
        fileprivate let leadership: StreamLeadership
        fileprivate let pause: Duration
        fileprivate let work: @Sendable () async throws -> Void

        /// - Parameters:
        ///   - problem: The log line about a round that fails.
        ///   - leadership: Of the work, which takes the lead itself.
        package init(
            _ problem: Logger.Message, _ leadership: StreamLeadership, every pause: Duration,
            _ work: @escaping @Sendable () async throws -> Void
        ) {
            self.problem = problem
            self.leadership = leadership
            self.pause = pause
            self.work = work
        }
    }

    private let rounds: [Round]
    private let elector: Elector
    private let clock: StoreClock
    private let logger: Logger

    /// - Parameter elector: That of the rounds' leaderships.
    package init(_ rounds: [Round], elector: Elector, clock: StoreClock, logger: Logger) {
        self.rounds = rounds
        self.elector = elector
        self.clock = clock
        self.logger = logger
    }

    /// Runs until its task is cancelled, and then leaves the work to others. Failures are logged and repeated; none ends the
    /// run.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            for round in rounds {
                group.addTask {
                    await clock.repeating(round.problem, every: round.pause, logger) {
                        try await round.work()
                        return nil
                    }
                }
            }
            group.addTask {
                while !Task.isCancelled {
                    // A round that finds the database away reports it.
                    try? await elector.keep()
                    try? await clock.sleep(clock.now() + Limits.leadInterval)
                }
            }
        }
        for round in rounds { await round.leadership.release() }
    }
}
