import AppStore
import Encoding
import EventLog
import Logging
import Metrics
import Subscriptions
import Synchronization

/// Reads the past of Apple Accounts that became known from version 1 notifications or from receipts: their histories, and
/// the notifications that Apple still has.
///
/// The log is read once, and then what is added to it, so a key that an app gets later leads to what came before. Any
/// number of processes may run one: one of them reads.
package final class HistoryBackfills: Sendable {
    private let backfiller: Backfiller
    private let log: BackfillLog
    private let leadership: StreamLeadership
    private let apps: [App]
    private let clock: StoreClock
    private let metrics: BackfillMetrics
    private let parts: RoundParts
    private let logger: Logger
    /// The streams whose store does not answer.
    private let holds = Holds<StreamKey>()
    /// The accounts of a stream that hold it up, by their first purchases.
    private let failures = Mutex<[StreamKey: [String: Failure]]>([:])
    /// When the App Store last answered about an account.
    private let answered = Mutex<[Environment: Instant]>([:])

    private struct Failure {
        var attempts = 0
        let since: Instant
    }

    /// - Parameters:
    ///   - log: With the rights of `subledger_poller`.
    ///   - leadership: For backfills.
    ///   - apps: Those without a key, or that are not polled, are left out.
    package init(
        backfiller: Backfiller, log: BackfillLog, leadership: StreamLeadership, apps: [App], clock: StoreClock,
        metrics factory: any MetricsFactory = MetricsSystem.factory, logger: Logger
    ) {
        self.backfiller = backfiller
        self.log = log
        self.leadership = leadership
        self.apps = apps.filter { $0.polling && $0.serverAPIKey != nil }
        self.clock = clock
        self.logger = logger
        parts = RoundParts(.histories, clock, factory: factory, logger: logger)
        metrics = BackfillMetrics(apps: self.apps.map(\.bundleId), factory: factory)
    }

    /// The streams whose histories this process cannot read, whatever the reason, if it leads.
    package var failing: [FailingPart] { parts.failing(at: clock.now()) }

    /// An account that is being read is abandoned at the end, and read again later.
    package var rounds: LedRounds.Round {
        LedRounds.Round("histories not read", leadership, every: Limits.backfillPause) {
            _ = try await self.round()
        }
    }

    /// Reads the accounts of all events that are folded, if no other process does.
    ///
    /// Returns when none is left, except those whose store does not answer. If the task is cancelled, it returns early.
    ///
    /// - Returns: The number of accounts that were read.
    /// - Throws: ``ReadError``, ``AppendError`` if the database is unavailable. The accounts of the last events are read again.
    package func round() async throws -> Int {
        var open = apps.flatMap { app in
            ReceiptHost.allCases.map(\.environment).filter(app.environments.contains).map { (app, $0) }
        }
        var read = 0
        // A stream with many events does not hold up the others.
        while !open.isEmpty, !Task.isCancelled {
            guard try await leadership.leads() else {
                parts.keep([])
                break
            }
            var rest: [(App, Environment)] = []
            for (app, environment) in open {
                let stream = StreamKey(app: app.bundleId, environment: environment)
                // What is not tried has not succeeded.
                guard !holds.isHeld(stream, at: clock.date()) else { continue }
                guard let step = try await parts.make(.init(stream), { try await step(stream, app) }) else {
                    holds.hold(stream, until: clock.date().advanced(by: Limits.unavailablePause))
                    continue
                }
                read += step.read
                if step.hasMore { rest.append((app, environment)) }
            }
            open = rest
        }
        return read
    }

    private func step(_ stream: StreamKey, _ app: App) async throws -> (read: Int, hasMore: Bool) {
        guard let batch = try await log.next(in: stream) else {
            metrics.note(waiting: 0, in: stream)
            return (0, false)
        }
        metrics.note(waiting: batch.waiting, in: stream)
        let began = clock.date()
        let result = try await self.read(batch.accounts, of: app, in: stream.environment)
        let read = result.read
        if let pause = result.pause, !isGivenUp(result, stream, app, began) {
            holds.hold(stream, until: clock.date().advanced(by: pause))
            return (read, false)
        }
        guard !Task.isCancelled else { return (read, false) }
        try await log.record(batch.last, in: stream)
        failures.withLock { $0[stream] = nil }
        metrics.note(open: 0, in: stream)
        metrics.note(waiting: batch.hasMore ? batch.waiting : 0, in: stream)
        if read > 0 {
            logger.info(
                "histories read",
                metadata: stream.metadata(["event.position": "\(batch.last)", "accounts": "\(read)"]))
        }
        return (read, batch.hasMore)
    }

    // MARK: Accounts

    /// What came of the accounts of a batch.
    private struct BatchResult {
        /// The number that was read.
        var read = 0
        /// How long to wait before the others are tried again; nil if there are none.
        var pause: Duration?
        /// The first purchases of those that could not be read.
        var open: [String] = []
        /// Whether the rest of the batch was not tried, because the App Store seems to be away.
        var isCutShort = false
    }

    /// Whether accounts that cannot be read are left out: all others of the batch are read, and about these the App Store has
    /// not answered in several attempts, while it answered about others, or for a day. A later event about them leads to
    /// another attempt.
    private func isGivenUp(_ result: BatchResult, _ stream: StreamKey, _ app: App, _ began: Instant) -> Bool {
        metrics.note(open: Int64(result.open.count), in: stream)
        let (open, isNew) = failures.withLock { failures in
            let isNew = failures[stream] == nil
            var known = failures[stream] ?? [:]
            for id in result.open { known[id, default: Failure(since: began)].attempts += 1 }
            failures[stream] = known
            return (result.open.compactMap { known[$0] }, isNew)
        }
        let answeredAt = answered.withLock { $0[stream.environment] } ?? .earliest
        let now = clock.date()
        let isGivenUp =
            !result.isCutShort
            && open.allSatisfy { failure in
                failure.attempts >= Limits.backfillAttemptsMax
                    && (answeredAt > failure.since || failure.since.duration(to: now) >= Limits.backfillFailureAgeMax)
            }
        if isNew || isGivenUp {
            logger.warning(
                isGivenUp ? "histories given up: the App Store does not answer about them" : "histories not read yet",
                metadata: stream.metadata(["accounts": "\(result.open.count)"]))
        }
        if isGivenUp { for _ in result.open { metrics.note(.unavailable, of: app.bundleId) } }
        return isGivenUp
    }

    /// Reads accounts, a few at a time. One that cannot be read keeps no other from it.
    private func read(
        _ accounts: [[String]], of app: App, in environment: Environment
    ) async throws -> BatchResult {
        try await withThrowingTaskGroup(of: (ids: [String], read: Int, stop: Stop?).self) { group in
            var waiting = accounts[...]
            for ids in waiting.prefix(Limits.backfillAccountsMax) {
                group.addTask { try await self.read(ids, of: app, in: environment) }
            }
            waiting = waiting.dropFirst(Limits.backfillAccountsMax)
            var result = BatchResult()
            while let (ids, read, stop) = try await group.next() {
                result.read += read
                if let stop {
                    result.pause = max(result.pause ?? stop.pause, stop.pause)
                    result.open.append(ids.first ?? "")
                    // So many are not the fault of single accounts.
                    if stop.isOfAll || result.open.count >= Limits.backfillFailuresMax { result.isCutShort = true }
                }
                if !result.isCutShort, let next = waiting.popFirst() {
                    group.addTask { try await self.read(next, of: app, in: environment) }
                }
            }
            return result
        }
    }

    /// Why an account is not read to its end.
    private struct Stop {
        let pause: Duration
        /// Whether no other account can be read either.
        var isOfAll = false
    }

    /// Reads an account by the first of its purchases, and those that its history does not have.
    private func read(
        _ ids: [String], of app: App, in environment: Environment
    ) async throws -> (ids: [String], read: Int, stop: Stop?) {
        var read = 0
        for id in ids {
            // What Apple is still delivering is left to its attempts, and to the audit of yesterday.
            let end = AuditDay(containing: clock.date()).previous.start
            let outcome = try await backfiller.read(
                id, of: app, in: environment, priority: .backfill, notificationsBefore: end)
            switch outcome {
            case .read, .notFound, .refused:
                let now = clock.date()
                answered.withLock { $0[environment] = now }
            case .known, .keyRejected, .unavailable: break
            }
            switch outcome {
            case .read:
                read += 1
                metrics.note(.read, of: app.bundleId)
            case .known: break
            case .notFound: note(.notFound, app, environment)
            case .refused: note(.refused, app, environment)
            case .keyRejected: return (ids, read, Stop(pause: Limits.keyRejectedPause, isOfAll: true))
            case .unavailable(let pause): return (ids, read, Stop(pause: max(pause, Limits.roundPauseMin)))
            }
        }
        return (ids, read, nil)
    }

    /// Notes an account that cannot be read. A later event about it leads to another attempt.
    private func note(_ result: BackfillMetrics.Result, _ app: App, _ environment: Environment) {
        metrics.note(result, of: app.bundleId)
        let stream = StreamKey(app: app.bundleId, environment: environment)
        logger.notice("history not read", metadata: stream.metadata(["result": "\(result.rawValue)"]))
    }
}
