import Encoding
import EventLog
import Logging
import Metrics
import PlayStore
import Readers
import Subscriptions

/// Compares the log with Google Play's list of voided purchases once a day: Google does not announce every void by a
/// notification, and a notification may be lost. Also compares the orders of recent purchases, see ``OrderAudit``. What fails
/// for one app keeps none of another one from being compared.
///
/// Any number of processes may run one: one of them compares.
package struct VoidAudits: Sendable {
    private let client: GoogleClient
    private let queue: PurchaseQueue
    private let voids: VoidLog
    private let asker: PurchaseAsker
    private let appender: Appender
    private let leadership: StreamLeadership
    private let orders: OrderAudit
    private let apps: [GoogleApp]
    private let parts: RoundParts
    private let orderParts: RoundParts
    private let clock: StoreClock
    /// An app without a comparison is late from then on.
    private let started: Instant
    private let found: Counter
    private let age: Gauge
    private let open: Gauge
    private let orderAge: Gauge
    private let logger: Logger

    /// - Parameters:
    ///   - apps: Those without credentials, or that are not polled, are left out.
    ///   - queue: With the rights of `subledger_poller`, as well as `voids`, `log` and `subscriptions`.
    ///   - leadership: Of its own.
    package init(
        client: GoogleClient, apps: [GoogleApp], queue: PurchaseQueue, voids: VoidLog, log: LogReader,
        subscriptions: SubscriptionReader, appender: Appender, links: LinkService, leadership: StreamLeadership,
        clock: StoreClock,
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) },
        metrics factory: any MetricsFactory = MetricsSystem.factory, logger: Logger
    ) {
        self.client = client
        self.queue = queue
        self.voids = voids
        self.appender = appender
        self.leadership = leadership
        self.clock = clock
        started = clock.date()
        self.logger = logger
        parts = RoundParts(.voids, clock, factory: factory, logger: logger)
        orderParts = RoundParts(.orders, clock, factory: factory, logger: logger)
        self.apps = apps.filter { $0.credentials != nil && $0.polling }
        let news = NewsAppender(log: log, subscriptions: subscriptions, appender: appender)
        orders = OrderAudit(
            client: client, queue: queue, voids: voids, news: news, clock: clock, random: random, metrics: factory,
            logger: logger)
        asker = PurchaseAsker(
            client: client, queue: queue, appender: appender, news: news,
            links: PurchaseLinks(log: log, links: links, clock: clock), clock: clock, random: random,
            metrics: PurchaseMetrics(apps: self.apps.map(\.packageName), factory: factory), logger: logger)
        found = Counter(label: "subledger_google_voids_found_total", factory: factory)
        found.increment(by: 0)
        age = Gauge(label: "subledger_google_void_audit_age_seconds", factory: factory)
        age.record(0)
        open = Gauge(label: "subledger_google_voids_open", factory: factory)
        open.record(0)
        orderAge = Gauge(label: "subledger_google_order_audit_age_seconds", factory: factory)
        orderAge.record(0)
    }

    /// The apps whose purchases this process cannot compare, whatever the reason, if it leads.
    package var failing: [FailingPart] { [parts, orderParts].flatMap { $0.failing(at: clock.now()) } }

    /// A comparison in progress is abandoned at the end, and made again later.
    package var rounds: LedRounds.Round {
        LedRounds.Round("voided purchases not compared", leadership, every: Limits.voidAuditPause) {
            _ = try await round(at: clock.date())
        }
    }

    /// Makes the comparisons that are due at an instant, if no other process makes them.
    ///
    /// - Returns: Those with the list that were made. Others are still due.
    /// - Throws: ``ReadError``, ``AppendError`` if the database is unavailable.
    package func round(at now: Instant) async throws -> [VoidLog.Audit] {
        guard !apps.isEmpty, try await leadership.leads() else {
            // The leader reports them.
            age.record(0)
            open.record(0)
            orderAge.record(0)
            for parts in [parts, orderParts] { parts.keep([]) }
            return []
        }
        var audits: [VoidLog.Audit] = []
        var (oldest, oldestOrders) = (Duration.zero, Duration.zero)
        var rowsOpen: Int64 = 0
        for app in apps {
            guard !Task.isCancelled else { break }
            var last: VoidLog.Audit?
            try await parts.make(.init(app.packageName)) {
                last = try await voids.lastAudit(of: app.packageName)
                if last.map({ isDue(after: $0, at: now) }) ?? true,
                    let audit = try await audit(app, after: last, at: now, &rowsOpen)
                {
                    audits.append(audit)
                    last = audit
                }
            }
            oldest = max(oldest, (last?.auditedAt ?? started).duration(to: now))
            // What is not tried has not succeeded.
            if !orders.isHeld(app, at: now) {
                try await orderParts.make(.init(app.packageName)) {
                    try await orders.round(app, recorded: last?.ordersComparedAt, at: now)
                }
            }
            let comparedAt = orders.comparedAt(app, recorded: last?.ordersComparedAt) ?? started
            oldestOrders = max(oldestOrders, comparedAt.duration(to: now))
        }
        age.record(oldest / .seconds(1))
        open.record(rowsOpen)
        orderAge.record(oldestOrders / .seconds(1))
        return audits
    }

    /// Whether the daily comparison is due, or one that pushes without authentication ask for: Google may list a void some
    /// time after it was announced.
    private func isDue(after last: VoidLog.Audit, at now: Instant) -> Bool {
        if last.auditedAt.duration(to: now) >= Limits.voidAuditInterval { return true }
        guard let requestedAt = last.requestedAt, last.auditedAt.duration(to: now) >= Limits.voidAuditPause else {
            return false
        }
        return last.auditedAt < requestedAt.advanced(by: Limits.voidRequestedFor)
    }

    /// - Parameter rowsOpen: Grows by the rows about purchases of which Google gives no usable answer now. They keep no other
    ///   row from being stored.
    /// - Returns: Nil if Google cannot be asked now, or rows are open: then the list is asked for again.
    private func audit(
        _ app: GoogleApp, after last: VoidLog.Audit?, at now: Instant, _ rowsOpen: inout Int64
    ) async throws -> VoidLog.Audit? {
        let earliest = now.advanced(by: .zero - Limits.voidAuditAgeMax)
        let start = max(earliest, last.map { $0.seenUntil.advanced(by: .zero - Limits.voidAuditOverlap) } ?? earliest)
        var pageToken: String?
        var (listed, appended, unanswered) = (Int64(0), Int64(0), Int64(0))
        for number in 0..<Limits.voidPagesMax {
            // Google accepts one request a second to this list.
            if number > 0 { try await clock.sleep(clock.now() + Limits.voidPagePause) }
            let request = PlayRequest.voidedPurchases(
                from: start, until: now, pageToken: pageToken, of: app.packageName)
            let outcome = await client.ask(request, app: app, isScheduled: true)
            guard case .answered(let answer) = outcome, let page = try? VoidedPurchasePage(decoding: answer.body) else {
                logger.warning("voided purchases not listed", metadata: ["stream.app": "\(app.packageName)"])
                return nil
            }
            for row in page.rows {
                guard !Task.isCancelled else { return nil }
                listed += 1
                switch try await state(row, app, at: answer.answeredAt) {
                case .appended:
                    appended += 1
                    found.increment()
                case .known, .unknownPurchase: break
                case .unavailable:
                    unanswered += 1
                    rowsOpen += 1
                }
            }
            pageToken = page.nextPageToken
            guard pageToken != nil else { break }
        }
        guard pageToken == nil, unanswered == 0 else {
            logger.warning(
                pageToken == nil
                    ? "voided purchases remain open: no usable answer about them"
                    : "voided purchases not compared: the list has too many pages",
                metadata: [
                    "stream.app": "\(app.packageName)", "google.voids": "\(listed)",
                    "google.voids_new": "\(appended)", "google.voids_open": "\(unanswered)",
                ])
            return nil
        }
        let audit = VoidLog.Audit(
            app: app.packageName, auditedAt: now, seenUntil: now, listed: listed, appended: appended,
            ordersComparedAt: last?.ordersComparedAt)
        try await voids.record(audit)
        logger.info(
            "voided purchases compared",
            metadata: [
                "stream.app": "\(app.packageName)", "google.voids": "\(listed)", "google.voids_new": "\(appended)",
            ])
        return audit
    }

    private enum Stated {
        case appended
        case known
        /// Google does not answer about the purchase, and nothing is known of it that could end.
        case unknownPurchase
        case unavailable
    }

    /// Appends a row of the list, unless the log has it. Safe to repeat.
    private func state(_ row: VoidedPurchase, _ app: GoogleApp, at now: Instant) async throws -> Stated {
        let environment: Environment
        switch try await self.environment(of: row, app, at: now) {
        case .success(let known): environment = known
        case .failure(let stated): return stated.outcome
        }
        let statement = try PlayStatement.voided(
            row, packageName: app.packageName, environment: environment, answeredAt: now)
        guard try await !voids.isKnown(statement.bodyDigest, of: app.packageName) else { return .known }
        _ = try await appender.append(PreparedEvent(statement, receivedAt: now))
        try await voids.note(statement.bodyDigest, of: app.packageName, at: now)
        // What else has changed, the answer says.
        try await queue.notice(
            [PurchaseToAsk(purchaseToken: row.purchaseToken.text, noticedAt: now)], of: app.packageName, as: .again)
        return .appended
    }

    private struct NotKnown: Error {
        let outcome: Stated
    }

    /// The environment of a purchase, which only an answer about it says.
    private func environment(
        of row: VoidedPurchase, _ app: GoogleApp, at now: Instant
    ) async throws -> Result<Environment, NotKnown> {
        let token = row.purchaseToken.text
        if let known = try await queue.find(token, of: app.packageName)?.environment { return .success(known) }
        try await queue.noticeUnknown([PurchaseToAsk(purchaseToken: token, noticedAt: now)], of: app.packageName)
        let claimed = try await queue.claim(
            token, of: app.packageName, at: now, until: now.advanced(by: Limits.purchaseClaimMax))
        // Another process asks: its answer is there the next time.
        guard let claimed else { return .failure(NotKnown(outcome: .unavailable)) }
        let outcome = try await asker.ask(claimed, of: app)
        if let environment = outcome.record?.environment { return .success(environment) }
        switch outcome.record?.result {
        case .gone, .notFound, .refused: return .failure(NotKnown(outcome: .unknownPurchase))
        default: return .failure(NotKnown(outcome: .unavailable))
        }
    }
}
