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
    package let polling: Polling
    private let holds = Holds<Int32>()
    /// By stream: `originalTransactionId`s.
    private let claims: Claims<Int32>
    private let underWay = UnderWay<Int32>()
    private let progress = Mutex(Progress())

    private struct Progress: Sendable {
        /// The ids of the streams that are led and looked at next, in this order: each some checks at a time.
        var waiting: [Int32] = []
        /// The number of questions since the last round began.
        var asked = 0
        /// What the database said since the last look.
        var failure: (any Error)?
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
        claims = Claims(lasting: Limits.claimTime, clock) { try await queue.claim($0, in: $1, until: $2) }
        self.apps = Dictionary(apps.filter(\.isPolled).map { ($0.bundleId, $0) }) { $1 }
        self.clock = clock
        self.logger = logger
        parts = RoundParts(.checks, clock, factory: factory, logger: logger)
        polling = Polling(.checks, leadership, clock, logger)
    }

    /// The streams whose checks this process leads and cannot make, whatever the reason.
    package var failing: [FailingPart] { parts.failing(at: clock.now()) }

    // MARK: Running

    /// Runs until its task is cancelled. Failures are logged and repeated; none ends the run. Questions in flight are
    /// abandoned at the end without a record, so they are still due, and answers that have arrived are stored.
    package func run() async {
        await polling.run(keeping: claims, counting: { try await self.count(at: self.clock.date()) }) {
            await self.underWay.repeating(
                "due checks not read", pause: .zero, self.clock, self.logger, orLookingEvery: Limits.roundPauseMax
            ) { look, start in
                let led = try await self.poll(look, at: self.clock.date(), start)
                guard look.isOfAll else { return nil }
                let nextDue = try await self.nextDue(in: led, after: self.clock.date())
                let wait = nextDue.map { self.clock.date().duration(to: $0) } ?? Limits.roundPauseMax
                return min(Limits.roundPauseMax, max(Limits.roundPauseMin, wait))
            }
        }
    }

    /// Counts the checks that are due.
    private func count(at now: Instant) async throws(ReadError) -> PollBacklog {
        var counted = PollBacklog()
        for stream in try await streams() {
            let backlog = try await queue.backlog(of: stream, at: now)
            counted.due += backlog.due
            if let nextAt = backlog.nextAt { counted.oldest = max(counted.oldest, nextAt.duration(to: now)) }
        }
        checker.note(counted)
        return counted
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
        progress.withLock { $0.asked = 0 }
        var led: [CheckQueue.PolledStream] = []
        try await underWay.once { look, start in led = try await poll(look, at: now, start) }
        return PollRound(
            asked: progress.withLock { $0.asked }, nextDue: try await nextDue(in: led, after: now))
    }

    private func nextDue(
        in led: [CheckQueue.PolledStream], after now: Instant
    ) async throws(ReadError) -> Instant? {
        let scheduled = try await queue.nextDue(in: led, after: now)
        let claimed = try await queue.nextClaimEnd(in: led, after: now)
        let held = led.map { holds.end(of: $0.id, after: now) }
        return ([scheduled, claimed] + held).compactMap(\.self).min()
    }

    /// Starts to make checks in the streams that this process leads, as far as there are places: some checks of a stream, then
    /// some of the next one.
    ///
    /// - Returns: The streams that this process leads.
    private func poll(
        _ look: UnderWay<Int32>.Look, at now: Instant, _ start: UnderWay<Int32>.Start
    ) async throws -> [CheckQueue.PolledStream] {
        let failure = progress.withLock { progress in
            defer { progress.failure = nil }
            return progress.failure
        }
        if let failure { throw failure }
        let streams = try await streams()
        let ids = try await leadership.lead(streams.map(\.id))
        let led = streams.filter { ids.contains($0.id) }
        parts.keep(led.map { .init($0.key) })
        let underWay = underWay.parts
        let due = led.map(\.id).filter { look.isOfAll || look.ended.contains($0) }
        let next = progress.withLock { progress in
            progress.waiting.removeAll { !ids.contains($0) }
            progress.waiting += due.filter { !progress.waiting.contains($0) && !underWay.contains($0) }
            let next = progress.waiting.prefix(Limits.polledStreamsMax - underWay.count)
            progress.waiting.removeFirst(next.count)
            return next
        }
        for id in next {
            guard let stream = led.first(where: { $0.id == id }) else { continue }
            self.underWay.ask("checks", of: id, start) { await self.poll(stream, at: now) }
        }
        return led
    }

    /// Makes some of the due checks of a stream, and leaves it alone for a while if that fails for a reason of the stream.
    ///
    /// - Returns: Whether more may be due.
    private func poll(_ stream: CheckQueue.PolledStream, at now: Instant) async -> Bool {
        // What is not tried has not succeeded.
        guard let app = apps[stream.key.app], !holds.isHeld(stream.id, at: now) else { return false }
        do {
            let claimed = try await parts.make(.init(stream.key)) {
                let due = try await queue.claimDue(
                    in: stream, at: now, until: claims.end(at: now), limit: Limits.checksClaimedMax)
                guard !due.isEmpty else { return false }
                let ids = due.map(\.originalTransactionId)
                claims.note(ids, of: stream.id)
                do {
                    let asked = try await ask(due, of: app, in: stream, at: now)
                    progress.withLock { $0.asked += asked }
                } catch {
                    await release(ids, in: stream)
                    throw error
                }
                return true
            }
            if claimed == nil { holds.hold(stream.id, until: now.advanced(by: Limits.brokenCheckPause)) }
            return claimed ?? false
        } catch {
            progress.withLock { $0.failure = error }
            return true
        }
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
            await release(open.map(\.originalTransactionId), in: stream)
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
            claims.forget(claimed, of: question.stream.id)
            // Those that the answer does not name are asked about by themselves.
            let open = Set(claimed).subtracting(outcome.records.map(\.originalTransactionId))
            await release(open.sorted(), in: question.stream)
            return outcome.wasAsked
        } catch {
            try await hold(claimed, in: question.stream, at: question.now, error)
            return true
        }
    }

    /// Ends claims without a record, also in a task that is cancelled: the checks stay as due as they are. If the database is
    /// away, they end by themselves.
    private func release(_ ids: [String], in stream: CheckQueue.PolledStream) async {
        claims.forget(ids, of: stream.id)
        await Task { [queue] in try? await queue.claim(ids, in: stream.id, until: nil) }.value
    }

    /// Leaves checks alone for a while, so that a single one that always fails does not hold up the others.
    ///
    /// - Throws: The error, if the database is unavailable: then all would fail.
    private func hold(
        _ ids: [String], in stream: CheckQueue.PolledStream, at now: Instant, _ error: any Error
    ) async throws {
        guard !error.isOfDatabase else { throw error }
        claims.forget(ids, of: stream.id)
        try await queue.claim(ids, in: stream.id, until: now.advanced(by: Limits.brokenCheckPause))
        var detail = "\(error)"
        if case .damaged(let problem) = error as? ReadError { detail = problem }
        logger.error("check failed", metadata: stream.key.metadata(["error": "\(detail)"]))
    }
}
