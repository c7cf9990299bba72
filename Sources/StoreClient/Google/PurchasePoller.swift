import Encoding
import EventLog
import Logging
import Metrics
import PlayStore
import Readers
import Synchronization

/// Asks Google Play about the purchases that are due: after notifications, after failed questions, and at the times at
/// which something may have happened without a notification. Acknowledges new purchases.
///
/// Any number of processes may run one: one of them asks, so that the budget is that of one process.
package final class PurchasePoller: Sendable {
    private let asker: PurchaseAsker
    private let intake: PurchaseIntake
    private let queue: PurchaseQueue
    private let leadership: StreamLeadership
    private let client: GoogleClient
    /// Those that are asked about.
    private let apps: [GoogleApp]
    private let clock: StoreClock
    private let metrics: PurchaseMetrics
    private let logger: Logger
    private let state = Mutex(State())

    private struct State: Sendable {
        /// When ``run()`` began.
        var runsSince: ContinuousClock.Instant?
        var backlog = PurchaseBacklog()
        /// By package name: until when nothing is asked about an app, of scheduled questions and of others.
        var heldUntil: [Hold: Instant] = [:]
    }

    private struct Hold: Sendable, Hashable {
        let app: String
        let isScheduled: Bool
    }

    /// - Parameters:
    ///   - apps: Those without credentials are left out.
    ///   - queue: With the rights of `subledger_poller`, as well as `log` and `subscriptions`.
    ///   - leadership: Of its own.
    package init(
        client: GoogleClient, apps: [GoogleApp], queue: PurchaseQueue, log: LogReader,
        subscriptions: SubscriptionReader, appender: Appender, links: LinkService, leadership: StreamLeadership,
        clock: StoreClock,
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) },
        metrics factory: any MetricsFactory = MetricsSystem.factory, logger: Logger
    ) {
        let asked = apps.filter { $0.credentials != nil }
        let names = asked.map(\.packageName)
        let metrics = PurchaseMetrics(apps: names, factory: factory)
        self.client = client
        self.apps = asked
        self.queue = queue
        self.leadership = leadership
        self.clock = clock
        self.metrics = metrics
        self.logger = logger
        asker = PurchaseAsker(
            client: client, queue: queue, appender: appender,
            news: NewsAppender(log: log, subscriptions: subscriptions, appender: appender),
            links: PurchaseLinks(log: log, links: links, clock: clock), clock: clock, random: random, metrics: metrics,
            logger: logger)
        intake = PurchaseIntake(queue: queue, apps: names)
    }

    /// The questions that were due when they were last counted, whichever process asks them, if the oldest has been due for
    /// longer than ``Limits/overdueMax``; nil if they are kept up with, or this has not run for so long.
    package var overdue: PurchaseBacklog? {
        let latest = state.withLock { ($0.backlog, $0.runsSince) }
        guard latest.0.oldest > Limits.overdueMax, let since = latest.1, since + Limits.overdueMax < clock.now() else {
            return nil
        }
        return latest.0
    }

    // MARK: Running

    /// Runs until its task is cancelled. Failures are logged and repeated; none ends the run. Questions in flight are
    /// abandoned at the end, so they are still due, and answers that have arrived are stored.
    package func run() async {
        guard !apps.isEmpty else {
            // A service that ends stops the server.
            while !Task.isCancelled { try? await clock.sleep(clock.now() + Limits.voidAuditInterval) }
            return
        }
        state.withLock { $0.runsSince = clock.now() }
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                await self.repeatedly("purchases not checked", every: Limits.purchaseLookInterval) {
                    _ = try await self.round(at: self.clock.date())
                }
            }
            group.addTask {
                await self.repeatedly("poller cannot use the database", every: Limits.leadInterval) {
                    try await self.leadership.keep()
                }
            }
            group.addTask {
                await self.repeatedly("due purchases not counted", every: Limits.backlogInterval) {
                    try await self.count(at: self.clock.date())
                }
            }
        }
        await leadership.release()
    }

    private func repeatedly(
        _ problem: Logger.Message, every interval: Duration, _ work: @Sendable () async throws -> Void
    ) async {
        var worked = true
        while !Task.isCancelled {
            do {
                try await work()
                worked = true
            } catch {
                // Repeated failures add nothing until the database is back. Errors contain nothing of the purchase.
                if worked, !Task.isCancelled { logger.warning(problem, metadata: ["error": "\(error)"]) }
                worked = false
            }
            try? await clock.sleep(clock.now() + interval)
        }
    }

    /// Counts the questions that are due and the purchases that are not acknowledged.
    package func count(at now: Instant) async throws(ReadError) {
        var counted = PurchaseBacklog()
        for app in apps {
            let backlog = try await queue.backlog(of: app.packageName, at: now)
            counted.due += backlog.due
            if let since = backlog.dueSince { counted.oldest = max(counted.oldest, since.duration(to: now)) }
            if let since = backlog.unacknowledgedSince {
                counted.oldestUnacknowledged = max(counted.oldestUnacknowledged, since.duration(to: now))
            }
        }
        let backlog = counted
        state.withLock { $0.backlog = backlog }
        metrics.note(backlog)
    }

    // MARK: Rounds

    /// Takes in the notifications of the log, and asks about all purchases that are due at an instant, if no other process
    /// does.
    ///
    /// Returns when nothing more is due then, except what cannot be asked now. If the task is cancelled, it returns early.
    ///
    /// - Throws: ``ReadError`` if the database is unavailable. What was not recorded is still due.
    package func round(at now: Instant) async throws -> PollRound {
        guard try await leadership.lead([Self.everyApp]).contains(Self.everyApp) else {
            return PollRound(asked: 0, nextDue: nil)
        }
        _ = try await intake.takeIn()
        let asked = try await withThrowingTaskGroup(of: Int.self) { group in
            for app in apps { group.addTask { try await self.poll(app, at: now) } }
            return try await group.reduce(0, +)
        }
        let next = try await queue.nextDue(of: apps.map(\.packageName))
        return PollRound(asked: asked, nextDue: next)
    }

    /// Asks about the due purchases of an app, and returns the number of questions.
    private func poll(_ app: GoogleApp, at now: Instant) async throws -> Int {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            var asked = 0
            var inFlight = 0
            while !Task.isCancelled {
                let now = max(now, clock.date())
                let ranks = PurchaseRank.allCases.filter { !isHeld(app, $0, at: now) }
                if client.isHeld(app) == nil, !ranks.isEmpty, inFlight <= Limits.purchasesInFlightMax / 2 {
                    let claims = try await queue.claimDue(
                        of: app.packageName, ranks: ranks, at: now,
                        until: clock.date().advanced(by: Limits.purchaseClaimMax),
                        limit: Int64(Limits.purchasesInFlightMax - inFlight))
                    for claim in claims { group.addTask { await self.ask(claim, app) } }
                    inFlight += claims.count
                }
                guard inFlight > 0, let wasAsked = try await group.next() else { break }
                inFlight -= 1
                if wasAsked { asked += 1 }
                // Notifications come first, also while many questions are due.
                if inFlight <= Limits.purchasesInFlightMax / 2 { _ = try await intake.takeIn() }
            }
            for try await wasAsked in group where wasAsked { asked += 1 }
            return asked
        }
    }

    /// - Returns: Whether the question was sent.
    private func ask(_ claim: ClaimedPurchase, _ app: GoogleApp) async -> Bool {
        do {
            let outcome = try await asker.ask(claim, of: app)
            if outcome.pause > .zero { hold(app, claim.rank, until: clock.date().advanced(by: outcome.pause)) }
            return outcome.record != nil
        } catch {
            // It is due again when the claim ends. Errors contain nothing of the purchase.
            logger.warning(
                "purchase not checked", metadata: ["stream.app": "\(app.packageName)", "error": "\(error)"])
            return false
        }
    }

    private func isHeld(_ app: GoogleApp, _ rank: PurchaseRank, at now: Instant) -> Bool {
        state.withLock { state in
            let hold = Hold(app: app.packageName, isScheduled: rank == .scheduled)
            return state.heldUntil[hold].map { $0 > now } ?? false
        }
    }

    private func hold(_ app: GoogleApp, _ rank: PurchaseRank, until end: Instant) {
        state.withLock { state in
            // Scheduled questions may use only a part of the day's quota: others go on.
            state.heldUntil[Hold(app: app.packageName, isScheduled: true)] = end
            if rank != .scheduled { state.heldUntil[Hold(app: app.packageName, isScheduled: false)] = end }
        }
    }

    /// One process asks about all apps.
    private static let everyApp: Int32 = 0
}
