import AppStore
import EventLog
import Logging
import Postgres
import Readers
import StoreClient

/// The services that ask the App Store by themselves.
package struct PollerServices {
    package let poller: Poller
    /// Nil without a verifier.
    package let audits: DeliveryAudits?
    /// Nil without a verifier.
    package let backfills: HistoryBackfills?

    /// The work that one process does, in rounds.
    var rounds: [LedRounds.Round] { [audits?.rounds, backfills?.rounds].compactMap(\.self) }

    /// What fails of the work that this process leads.
    var failing: [FailingPart] { poller.failing + (backfills?.failing ?? []) }

    /// - Parameters:
    ///   - verifier: Nil if no app has a key.
    ///   - auditWindows: See ``DeliveryAuditor``.
    package init(
        apps: [App], store: StoreServices, verifier: NotificationVerifier?, appender: Appender, database: Database,
        elector: Elector, auditWindows: Int = 24, logger: Logger
    ) {
        if !apps.contains(where: \.isPolled) {
            logger.info(
                "no subscription is checked with the App Store: no app has polling and a key or a shared secret")
        }
        let pool = database.pool(for: .asking, logger: logger)
        let checker = Checker(
            apps: apps, store: store, verifier: verifier, pool: pool, archive: database.archive, appender: appender,
            logger: logger)
        let deliveries = DeliveryLog(pool: pool)
        audits = verifier.map { verifier in
            DeliveryAudits(
                auditor: DeliveryAuditor(
                    client: store.api, verifier: verifier, apps: apps, deliveries: deliveries, appender: appender,
                    clock: store.clock, windows: auditWindows, logger: logger),
                deliveries: deliveries,
                leadership: StreamLeadership(elector, for: .audits), apps: apps,
                clock: store.clock, logger: logger)
        }
        backfills = verifier.map { verifier in
            HistoryBackfills(
                backfiller: Backfiller(
                    client: store.api, verifier: verifier, log: LogReader(pool: pool),
                    histories: HistoryLog(pool: pool),
                    subscriptions: SubscriptionReader(pool: pool), appender: appender, clock: store.clock),
                log: BackfillLog(pool: pool),
                leadership: StreamLeadership(elector, for: .backfills), apps: apps,
                clock: store.clock, logger: logger)
        }
        poller = Poller(
            checker: checker, apps: apps, queue: CheckQueue(pool: pool),
            leadership: StreamLeadership(elector), clock: store.clock, logger: logger)
    }
}

extension ConsumptionSender {
    /// Answers what both stores ask.
    package convenience init(
        apps: [App], googleApps: [GoogleApp], store: StoreServices, appender: Appender, database: Database,
        elector: Elector, logger: Logger
    ) {
        self.init(
            client: store.api, apps: apps, google: (store.google, googleApps),
            log: ConsumptionLog(pool: database.pool(for: .asking, logger: logger)),
            writes: WriteLog(pool: database.pool(for: .asking, logger: logger), appender: appender),
            leadership: StreamLeadership(elector, for: .refunds), clock: store.clock, logger: logger)
    }
}

extension Checker {
    /// - Parameter pool: With the rights of `subledger_poller`.
    package init(
        apps: [App], store: StoreServices, verifier: NotificationVerifier?, pool: PostgresPool, archive: BodyArchive,
        appender: Appender, logger: Logger
    ) {
        self.init(
            client: store.client, api: verifier.map { (store.api, $0) }, apps: apps, queue: CheckQueue(pool: pool),
            log: LogReader(pool: pool, archive: archive), histories: HistoryLog(pool: pool),
            handIns: HandInLog(pool: pool), subscriptions: SubscriptionReader(pool: pool), appender: appender,
            clock: store.clock, logger: logger)
    }
}
