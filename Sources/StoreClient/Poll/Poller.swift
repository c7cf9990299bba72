import AppStore
import Encoding
import EventLog
import Logging
import Metrics
import Synchronization

/// Makes the checks of subscriptions that are due.
///
/// Any number of processes may run one: each stream is led by the first that takes it.
package final class Poller: Sendable {
    private let checker: Checker
    private let queue: CheckQueue
    private let leadership: StreamLeadership
    /// Those that are polled, by bundle id.
    private let apps: [String: App]
    private let clock: StoreClock
    private let logger: Logger
    private let parts: RoundParts
    private let holds = PollHolds()
    private let claims: PollClaims
    private let progress = Mutex(Progress())

    private struct Progress: Sendable {
        /// When ``run()`` began.
        var runsSince: ContinuousClock.Instant?
        var backlog = PollBacklog(due: 0, oldest: .zero)
    }

    /// - Parameters:
    ///   - apps: Those that are not polled are left out.
    ///   - queue: With the rights of `subledger_poller`.
    package init(
        checker: Checker, apps: [App], queue: CheckQueue, leadership: StreamLeadership, clock: StoreClock,
        metrics factory: any MetricsFactory = MetricsSystem.factory, logger: Logger
    ) {
        self.checker = checker
        self.queue = queue
        self.leadership = leadership
        claims = PollClaims(queue: queue, clock: clock)
        self.apps = Dictionary(apps.filter(\.isPolled).map { ($0.bundleId, $0) }) { $1 }
        self.clock = clock
        self.logger = logger
        parts = RoundParts(.checks, clock, factory: factory, logger: logger)
    }

    /// The checks that were due when they were last counted, whichever process makes them, if the oldest has been due for
    /// longer than ``Limits/overdueMax``; nil if polling keeps up, or has not run for so long.
    package var overdue: PollBacklog? {
        let latest = progress.withLock { $0 }
        guard latest.backlog.oldest > Limits.overdueMax, let since = latest.runsSince,
            since + Limits.overdueMax < clock.now()
        else { return nil }
        return latest.backlog
    }

    /// The streams whose checks this process leads and cannot make, whatever the reason.
    package var failing: [FailingPart] { parts.failing(at: clock.now()) }

    // MARK: Running

    /// Runs until its task is cancelled. Failures are logged and repeated; none ends the run. Questions in flight are
    /// abandoned at the end without a record, so they are still due, and answers that have arrived are stored.
    package func run() async {
        progress.withLock { $0.runsSince = clock.now() }
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                await self.clock.repeating("due checks not read", every: Limits.roundPauseMax, self.logger) {
                    let round = try await self.round(at: self.clock.date())
                    guard let nextDue = round.nextDue else { return nil }
                    return min(
                        Limits.roundPauseMax, max(Limits.roundPauseMin, self.clock.date().duration(to: nextDue)))
                }
            }
            group.addTask {
                await self.clock.repeating("lead of checks not kept", every: Limits.leadInterval, self.logger) {
                    try await self.claims.keep()
                    try await self.leadership.keep()
                    return nil
                }
            }
            group.addTask {
                await self.clock.repeating("due checks not counted", every: Limits.backlogInterval, self.logger) {
                    try await self.count(at: self.clock.date())
                    return nil
                }
            }
        }
        await leadership.release()
    }

    /// Counts the checks that are due.
    func count(at now: Instant) async throws(ReadError) {
        var due: Int64 = 0
        var oldest = Duration.zero
        for stream in try await streams() {
            let backlog = try await queue.backlog(of: stream, at: now)
            due += backlog.due
            if let nextAt = backlog.nextAt { oldest = max(oldest, nextAt.duration(to: now)) }
        }
        let backlog = PollBacklog(due: due, oldest: oldest)
        progress.withLock { $0.backlog = backlog }
        checker.note(backlog)
    }

    private func streams() async throws(ReadError) -> [CheckQueue.PolledStream] {
        let withKey = apps.values.filter { $0.serverAPIKey != nil }.map(\.bundleId)
        return try await queue.streams(of: apps.keys.sorted(), withKey: Set(withKey))
    }

    // MARK: Rounds

    /// Makes all checks that are due at an instant in the streams that this process leads.
    ///
    /// Returns when nothing more is due then, except what cannot be asked now: while the store does not answer, and
    /// checks that failed to be stored. If the task is cancelled, it returns early.
    ///
    /// - Throws: ``ReadError`` if the database is unavailable. Checks that were not recorded are still due.
    package func round(at now: Instant) async throws -> PollRound {
        let streams = try await streams()
        let ids = try await leadership.lead(streams.map(\.id))
        let led = streams.filter { ids.contains($0.id) }
        parts.keep(led.map { .init($0.key) })
        let asked = try await withThrowingTaskGroup(of: Int.self) { group in
            var waiting = led[...]
            for stream in waiting.prefix(Limits.polledStreamsMax) {
                group.addTask { try await self.pollAlone(stream, at: now) }
            }
            waiting = waiting.dropFirst(Limits.polledStreamsMax)
            var asked = 0
            while let count = try await group.next() {
                asked += count
                if let stream = waiting.popFirst() { group.addTask { try await self.pollAlone(stream, at: now) } }
            }
            return asked
        }
        let scheduled = try await queue.nextDue(in: Array(led), after: now)
        let claimed = try await queue.nextClaimEnd(in: Array(led), after: now)
        let held = holds.nextEnd(in: led.map(\.id), after: now)
        return PollRound(asked: asked, nextDue: [scheduled, claimed, held].compactMap(\.self).min())
    }

    /// As ``poll(_:at:)``, and leaves the stream alone for a while if that fails for a reason of the stream.
    private func pollAlone(_ stream: CheckQueue.PolledStream, at now: Instant) async throws -> Int {
        // What is not tried has not succeeded.
        guard !holds.isHeld(stream.id, at: now) else { return 0 }
        if let asked = try await parts.make(.init(stream.key), { try await poll(stream, at: now) }) { return asked }
        holds.hold(stream.id, until: now.advanced(by: Limits.brokenCheckPause))
        return 0
    }

    /// Makes the due checks of a stream, and returns the number of questions.
    private func poll(_ stream: CheckQueue.PolledStream, at now: Instant) async throws -> Int {
        guard let app = apps[stream.key.app] else { return 0 }
        var asked = 0
        while !Task.isCancelled, !holds.isHeld(stream.id, at: now) {
            let due = try await claims.claimDue(in: stream, at: now)
            guard !due.isEmpty else { break }
            do {
                asked += try await ask(due, of: app, in: stream, at: now)
            } catch {
                await release(due.map(\.originalTransactionId), in: stream, at: now)
                throw error
            }
            // Another process may have taken the stream over.
            guard try await leadership.lead([stream.id]).contains(stream.id) else { break }
        }
        return asked
    }

    /// Asks about claimed checks, a few at a time, waits for all answers, and returns the number of questions.
    private func ask(
        _ due: [CheckQueue.DueCheck], of app: App, in stream: CheckQueue.PolledStream, at now: Instant
    ) async throws -> Int {
        let known = try await checker.subscriptions(due.map(\.originalTransactionId), in: stream)
        return try await withThrowingTaskGroup(of: Bool.self) { group in
            var open = due[...]
            var (asked, inFlight) = (0, 0)
            while let check = open.popFirst() {
                while inFlight >= Limits.checksInFlightMax, let wasAsked = try await group.next() {
                    inFlight -= 1
                    if wasAsked { asked += 1 }
                }
                guard !Task.isCancelled, !holds.isHeld(stream.id, at: now) else {
                    open.insert(check, at: open.startIndex)
                    break
                }
                let question: Checker.Question
                do {
                    guard let subscription = known[check.originalTransactionId] else {
                        throw ReadError.damaged(detail: "a check is scheduled for a subscription without facts")
                    }
                    question = try await checker.question(
                        subscription, of: app, in: stream, scheduled: check.scheduled, at: now)
                } catch {
                    try await hold([check.originalTransactionId], in: stream, at: now, error)
                    continue
                }
                // One answer serves all subscriptions of an Apple Account: it is one claim.
                let covered = open.filter { other in
                    question.covers(other.originalTransactionId, known[other.originalTransactionId])
                }
                open.removeAll { covered.contains($0) }
                let ids = [check.originalTransactionId] + covered.map(\.originalTransactionId)
                group.addTask { try await self.answer(question, claimed: ids) }
                inFlight += 1
            }
            for try await wasAsked in group where wasAsked { asked += 1 }
            if !open.isEmpty { await release(open.map(\.originalTransactionId), in: stream, at: now) }
            return asked
        }
    }

    /// - Parameter claimed: The subscriptions whose checks the answer probably makes.
    /// - Returns: Whether the question was sent.
    private func answer(_ question: Checker.Question, claimed: [String]) async throws -> Bool {
        do {
            let outcome = try await checker.ask(question)
            if outcome.pause > .zero {
                holds.hold(question.stream.id, until: question.now.advanced(by: outcome.pause))
            }
            claims.forget(claimed, in: question.stream.id)
            // Those that the answer does not name are asked about by themselves.
            let open = Set(claimed).subtracting(outcome.records.map(\.originalTransactionId))
            await release(open.sorted(), in: question.stream, at: question.now)
            return outcome.wasAsked
        } catch {
            try await hold(claimed, in: question.stream, at: question.now, error)
            return true
        }
    }

    /// Ends claims, also in a task that is cancelled. If the database is away, they end by themselves.
    private func release(_ ids: [String], in stream: CheckQueue.PolledStream, at now: Instant) async {
        guard !ids.isEmpty else { return }
        await Task { [claims] in try? await claims.release(ids, in: stream.id, at: now) }.value
    }

    /// Leaves checks alone for a while, so that a single one that always fails does not hold up the others.
    ///
    /// - Throws: The error, if the database is unavailable: then all would fail.
    private func hold(
        _ ids: [String], in stream: CheckQueue.PolledStream, at now: Instant, _ error: any Error
    ) async throws {
        guard !error.isOfDatabase else { throw error }
        try await claims.release(ids, in: stream.id, for: Limits.brokenCheckPause, at: now)
        var detail = "\(error)"
        if case .damaged(let problem) = error as? ReadError { detail = problem }
        logger.error(
            "check failed",
            metadata: [
                "stream.app": "\(stream.key.app)", "stream.environment": "\(stream.key.environment.rawValue)",
                "error": "\(detail)",
            ])
    }
}
