import Encoding
import EventLog
import Logging
import Metrics
import PlayStore
import Readers
import Synchronization

/// Asks Google Play about the purchases that are due: after notifications, after failed questions, and at the times of the
/// schedule. Acknowledges new purchases.
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
    private let events: EventWatch?
    private let clock: StoreClock
    private let metrics: PurchaseMetrics
    private let logger: Logger
    private let parts: RoundParts
    package let polling: Polling
    private let underWay = UnderWay<String>()
    /// By app: purchase tokens.
    private let claims: Claims<String>
    private let holds = Holds<Hold>()
    private let state = Mutex(State())

    private struct State: Sendable {
        /// The number of questions since the last round began.
        var asked = 0
        /// The first of the times that the latest answers plan.
        var plannedAt: Instant?
    }

    /// The scheduled questions about an app, or the others.
    private struct Hold: Sendable, Hashable {
        let app: String
        let isScheduled: Bool
    }

    /// - Parameters:
    ///   - apps: Those without credentials are left out.
    ///   - queue: With the rights of `subledger_poller`, as well as `log` and `subscriptions`.
    ///   - leadership: Of its own.
    ///   - events: Hears of notifications; if nil, they are looked for.
    package init(
        client: GoogleClient, apps: [GoogleApp], queue: PurchaseQueue, log: LogReader,
        subscriptions: SubscriptionReader, appender: Appender, links: LinkService, leadership: StreamLeadership,
        events: EventWatch? = nil, clock: StoreClock,
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
        self.events = events
        self.clock = clock
        self.metrics = metrics
        self.logger = logger
        parts = RoundParts(.purchases, clock, factory: factory, logger: logger)
        polling = Polling(.purchases, leadership, clock, logger)
        claims = Claims(lasting: Limits.claimTime, clock) { try await queue.keep($0, of: $1, until: $2) }
        asker = PurchaseAsker(
            client: client, queue: queue, appender: appender,
            news: NewsAppender(log: log, subscriptions: subscriptions, appender: appender),
            links: PurchaseLinks(log: log, links: links, clock: clock), clock: clock, random: random, metrics: metrics,
            logger: logger)
        intake = PurchaseIntake(
            queue: queue, apps: names, parts: RoundParts(.intake, clock, factory: factory, logger: logger))
    }

    /// The apps that this process cannot ask about, and the streams whose notifications it cannot take in, whatever the
    /// reason, if it leads.
    package var failing: [FailingPart] { [parts, intake.parts].flatMap { $0.failing(at: clock.now()) } }

    // MARK: Running

    /// Runs until its task is cancelled. Failures are logged and repeated; none ends the run. Questions in flight are
    /// abandoned at the end, so they are still due, and answers that have arrived are stored.
    package func run() async {
        guard !apps.isEmpty else {
            // A service that ends stops the server.
            while !Task.isCancelled { try? await clock.sleep(clock.now() + Limits.voidAuditInterval) }
            return
        }
        await polling.run(keeping: claims, counting: { try await self.count(at: self.clock.date()) }) {
            await self.repeatRounds()
        }
    }

    /// Asks whenever a question is due. What the log gets meanwhile is taken in at once.
    private func repeatRounds() async {
        await underWay.repeating(
            "purchases not checked", pause: Limits.purchaseRoundPauseMin, clock, logger, hearing: events,
            orLookingEvery: Limits.purchaseLookInterval
        ) { look, start in
            guard try await leads() else { return Limits.roundPauseMax }
            let isTried = try await takeInAndAsk(look, at: clock.date(), start)
            guard isTried else { return nil }
            let wait = try await nextDue(at: clock.date()).map { clock.date().duration(to: $0) }
            return max(
                Limits.purchaseRoundPauseMin, min(wait ?? Limits.purchaseRoundPauseMax, Limits.purchaseRoundPauseMax))
        }
    }

    /// Takes in the notifications of the log, and starts questions about what is due.
    ///
    /// - Returns: False if nothing can be due.
    private func takeInAndAsk(
        _ look: UnderWay<String>.Look, at now: Instant, _ start: UnderWay<String>.Start
    ) async throws -> Bool {
        let due = try await intake.takeIn().union(look.ended)
        let tried = apps.filter { look.isOfAll || due.contains($0.packageName) }
        try await ask(about: tried, at: now, start)
        return !tried.isEmpty
    }

    /// Counts the questions that are due and the purchases that are not acknowledged.
    private func count(at now: Instant) async throws(ReadError) -> PollBacklog {
        var counted = PollBacklog()
        var (unanswered, oldestUnacknowledged) = (Int64(0), Duration.zero)
        for app in apps {
            let backlog = try await queue.backlog(of: app.packageName, at: now, isPolled: app.polling)
            counted.due += backlog.due
            unanswered += try await queue.unanswered(of: app.packageName, limit: Limits.unansweredPurchasesMax)
            if let since = backlog.dueSince { counted.oldest = max(counted.oldest, since.duration(to: now)) }
            if let since = backlog.unacknowledgedSince {
                oldestUnacknowledged = max(oldestUnacknowledged, since.duration(to: now))
            }
        }
        metrics.note(counted, unanswered: unanswered, oldestUnacknowledged: oldestUnacknowledged)
        return counted
    }

    // MARK: Rounds

    /// Takes in the notifications of the log, and asks about all purchases that are due at an instant, if no other process
    /// does.
    ///
    /// Returns when nothing more is due then, except what cannot be asked now. If the task is cancelled, it returns early.
    ///
    /// - Throws: ``ReadError`` if the database is unavailable. What was not recorded is still due.
    package func round(at now: Instant) async throws -> PollRound {
        guard try await leads() else { return PollRound(asked: 0, nextDue: nil) }
        state.withLock { $0.asked = 0 }
        try await underWay.once { look, start in _ = try await takeInAndAsk(look, at: now, start) }
        return PollRound(asked: state.withLock { $0.asked }, nextDue: try await nextDue(at: now))
    }

    private func leads() async throws(ReadError) -> Bool {
        guard try await leadership.leads() else {
            // The leader reports what fails.
            parts.keep([])
            intake.parts.keep([])
            return false
        }
        return true
    }

    /// When the next question can be asked; nil if none is planned. What waits for the end of another question does not count.
    private func nextDue(at now: Instant) async throws(ReadError) -> Instant? {
        let now = max(now, clock.date())
        let all = apps.flatMap { app in PurchaseRank.allCases.map { (app: app, rank: $0) } }
        let held = all.compactMap { heldUntil($0.app, $0.rank, at: now) }
        let free = all.filter { heldUntil($0.app, $0.rank, at: now) == nil && places($0.app, $0.rank) > 0 }
        let queued = try await queue.nextDue(
            of: free.map { (app: $0.app.packageName, rank: $0.rank) }, at: now)
        let scheduled = try await queue.nextScheduled(of: apps.filter(\.polling).map(\.packageName), after: now)
        // The projections may not have the answers yet.
        let planned = state.withLock { state in
            defer { state.plannedAt = nil }
            return state.plannedAt
        }
        return ([queued, scheduled, planned] + held).compactMap(\.self).min()
    }

    /// Starts questions about what is due, as far as there are places. What fails for one app holds up no other.
    private func ask(about apps: [GoogleApp], at now: Instant, _ start: UnderWay<String>.Start) async throws {
        for app in apps {
            let now = max(now, clock.date())
            let ranks = PurchaseRank.allCases.filter { heldUntil(app, $0, at: now) == nil }
            // What is not tried has not succeeded.
            guard !ranks.isEmpty else { continue }
            let made: Void? = try await parts.make(.init(app.packageName)) {
                try await ask(about: app, ranks, at: now, start)
            }
            if made == nil { hold(app, .notice, until: clock.date().advanced(by: Limits.brokenCheckPause)) }
        }
    }

    private func ask(
        about app: GoogleApp, _ ranks: [PurchaseRank], at now: Instant, _ start: UnderWay<String>.Start
    ) async throws {
        if app.polling, ranks.contains(.scheduled), places(app, .scheduled) > 0 {
            try await queue.takeInScheduled(
                of: app.packageName, at: now, limit: 2 * Int64(Limits.purchasesInFlightMax))
        }
        for some in [ranks.filter { $0 == .notice }, ranks.filter { $0 != .notice }] {
            guard let first = some.first, places(app, first) > 0 else { continue }
            let due = try await queue.claimDue(
                of: app.packageName, ranks: some, at: now, until: claims.end(at: now), limit: Int64(places(app, first)))
            for claim in due {
                underWay.ask(claim.purchaseToken, of: app.packageName, start) {
                    await self.ask(claim, app)
                    return true
                }
            }
        }
    }

    /// How many questions of a rank can be started. Half of the places are for notifications, however long others wait.
    private func places(_ app: GoogleApp, _ rank: PurchaseRank) -> Int {
        let all = rank == .notice ? Limits.purchasesInFlightMax : Limits.purchasesInFlightMax / 2
        return max(0, all - underWay.count(of: app.packageName))
    }

    private func ask(_ claim: ClaimedPurchase, _ app: GoogleApp) async {
        claims.note([claim.purchaseToken], of: app.packageName)
        defer { claims.forget([claim.purchaseToken], of: app.packageName) }
        do {
            let outcome = try await asker.ask(claim, of: app)
            if outcome.pause > .zero { hold(app, claim.rank, until: clock.date().advanced(by: outcome.pause)) }
            guard let record = outcome.record else { return }
            state.withLock { state in
                state.asked += 1
                guard app.polling, let planned = record.plannedAt else { return }
                state.plannedAt = min(state.plannedAt ?? planned, planned)
            }
        } catch {
            // Errors contain nothing of the purchase.
            logger.warning(
                "purchase not checked", metadata: ["stream.app": "\(app.packageName)", "error": "\(error)"])
            // Asked again soon, since nobody knows what came of it. Without the database, when the claim ends.
            let end = clock.date().advanced(by: Limits.purchasePauseFirst)
            await Task { [queue] in try? await queue.release(claim, until: end) }.value
        }
    }

    /// Until when questions about an app must wait; nil if they need not.
    private func heldUntil(_ app: GoogleApp, _ rank: PurchaseRank, at now: Instant) -> Instant? {
        if let pause = client.isHeld(app) { return now.advanced(by: pause) }
        return holds.end(of: Hold(app: app.packageName, isScheduled: rank == .scheduled), after: now)
    }

    private func hold(_ app: GoogleApp, _ rank: PurchaseRank, until end: Instant) {
        // Scheduled questions may use only a part of the day's quota: others go on.
        holds.hold(Hold(app: app.packageName, isScheduled: true), until: end)
        if rank != .scheduled { holds.hold(Hold(app: app.packageName, isScheduled: false), until: end) }
    }
}
