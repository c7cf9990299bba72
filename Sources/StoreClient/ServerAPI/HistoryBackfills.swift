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
    private let logger: Logger
    /// When a stream may be asked about again whose store does not answer.
    private let held = Mutex<[StreamKey: Instant]>([:])

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
        metrics = BackfillMetrics(apps: self.apps.map(\.bundleId), factory: factory)
    }

    /// Runs until its task is cancelled. Failures are logged and repeated; none ends the run. An account that is being read
    /// is abandoned at the end, and read again later.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                var isWorking = true
                while !Task.isCancelled {
                    do {
                        _ = try await self.round()
                        isWorking = true
                    } catch {
                        // Repeated failures add nothing until the database is back.
                        if isWorking, !Task.isCancelled {
                            self.logger.warning("histories not read", metadata: ["error": "\(error)"])
                        }
                        isWorking = false
                    }
                    try? await self.clock.sleep(self.clock.now() + Limits.backfillPause)
                }
            }
            group.addTask {
                while !Task.isCancelled {
                    // A round that finds the database away reports it.
                    try? await self.leadership.keep()
                    try? await self.clock.sleep(self.clock.now() + Limits.leadInterval)
                }
            }
        }
        await leadership.release()
    }

    /// Reads the accounts of all events that are folded, if no other process does.
    ///
    /// Returns when none is left, except those whose store does not answer. If the task is cancelled, it returns early.
    ///
    /// - Returns: The number of accounts that were read.
    /// - Throws: ``ReadError``, ``AppendError``. The accounts of the last events are read again.
    package func round() async throws -> Int {
        var open = apps.flatMap { app in
            ReceiptHost.allCases.map(\.environment).filter(app.environments.contains).map { (app, $0) }
        }
        var read = 0
        // A stream with many events does not hold up the others.
        while !open.isEmpty, !Task.isCancelled {
            guard try await leadership.lead([Self.everyStream]).contains(Self.everyStream) else { break }
            var rest: [(App, Environment)] = []
            for (app, environment) in open {
                let step = try await step(StreamKey(app: app.bundleId, environment: environment), app)
                read += step.read
                if step.hasMore { rest.append((app, environment)) }
            }
            open = rest
        }
        return read
    }

    private func step(_ stream: StreamKey, _ app: App) async throws -> (read: Int, hasMore: Bool) {
        let heldUntil = held.withLock { $0[stream] }
        guard heldUntil ?? clock.date() <= clock.date() else { return (0, false) }
        guard let batch = try await log.next(in: stream) else {
            metrics.note(waiting: 0, in: stream)
            return (0, false)
        }
        metrics.note(waiting: batch.waiting, in: stream)
        let (read, pause) = try await self.read(batch.accounts, of: app, in: stream.environment)
        if let pause {
            held.withLock { $0[stream] = clock.date().advanced(by: pause) }
            return (read, false)
        }
        guard !Task.isCancelled else { return (read, false) }
        try await log.record(batch.last, in: stream)
        metrics.note(waiting: batch.hasMore ? batch.waiting : 0, in: stream)
        if read > 0 {
            logger.info(
                "histories read",
                metadata: [
                    "stream.app": "\(stream.app)", "stream.environment": "\(stream.environment.rawValue)",
                    "event.position": "\(batch.last)", "accounts": "\(read)",
                ])
        }
        return (read, batch.hasMore)
    }

    // MARK: Accounts

    /// Reads accounts, a few at a time.
    ///
    /// - Returns: The number that was read, and how long to wait if not all could be.
    private func read(
        _ accounts: [[String]], of app: App, in environment: Environment
    ) async throws -> (read: Int, pause: Duration?) {
        try await withThrowingTaskGroup(of: (read: Int, pause: Duration?).self) { group in
            var waiting = accounts[...]
            for ids in waiting.prefix(Limits.backfillAccountsMax) {
                group.addTask { try await self.read(ids, of: app, in: environment) }
            }
            waiting = waiting.dropFirst(Limits.backfillAccountsMax)
            var total = 0
            var longest: Duration?
            while let (read, pause) = try await group.next() {
                total += read
                if let pause { longest = max(longest ?? pause, pause) }
                if longest == nil, let next = waiting.popFirst() {
                    group.addTask { try await self.read(next, of: app, in: environment) }
                }
            }
            return (total, longest)
        }
    }

    /// Reads an account by the first of its purchases, and those that its history does not have.
    private func read(
        _ ids: [String], of app: App, in environment: Environment
    ) async throws -> (read: Int, pause: Duration?) {
        var read = 0
        for id in ids {
            // What Apple is still delivering is left to its attempts, and to the audit of yesterday.
            let end = AuditDay(containing: clock.date()).previous.start
            let outcome = try await backfiller.read(
                id, of: app, in: environment, priority: .backfill, notificationsBefore: end)
            switch outcome {
            case .read:
                read += 1
                metrics.note(.read, of: app.bundleId)
            case .known: break
            case .notFound: note(.notFound, app, environment)
            case .refused: note(.refused, app, environment)
            case .keyRejected: return (read, Limits.keyRejectedPause)
            case .unavailable(let pause): return (read, max(pause, Limits.roundPauseMin))
            }
        }
        return (read, nil)
    }

    /// Notes an account that cannot be read. A later event about it leads to another attempt.
    private func note(_ result: BackfillMetrics.Result, _ app: App, _ environment: Environment) {
        metrics.note(result, of: app.bundleId)
        logger.notice(
            "history not read",
            metadata: [
                "stream.app": "\(app.bundleId)", "stream.environment": "\(environment.rawValue)",
                "result": "\(result.rawValue)",
            ])
    }

    /// One process reads for all streams.
    private static let everyStream: Int32 = 0
}
