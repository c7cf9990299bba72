import AppStore
import EventLog
import Logging
import Postgres
import Readers
import ServiceLifecycle
import StoreClient

/// The services that ask the App Store by themselves, and answer what it asks.
struct PollerServices {
    let service: PollerService
    /// Nil without a verifier.
    let audits: DeliveryAudits?
    /// Nil without a verifier.
    let backfills: HistoryBackfills?
    let consumption: ConsumptionService
    let pools: [PostgresPool]

    var poller: Poller { service.poller }

    /// - Parameters:
    ///   - verifier: Nil if no app has a key.
    ///   - auditWindows: See ``DeliveryAuditor``.
    init(
        apps: [App], store: StoreServices, verifier: NotificationVerifier?, appender: Appender, database: Database,
        elector: Elector, auditWindows: Int = 24, logger: Logger
    ) {
        if !apps.contains(where: \.isPolled) {
            logger.info(
                "no subscription is checked with the App Store: no app has polling and a key or a shared secret")
        }
        // A separate pool: receipts of many megabytes must not delay notifications or readers.
        let pool = database.pool(.poller, limit: 4, logger: logger)
        let checker = Checker(
            apps: apps, store: store, verifier: verifier, pool: pool, appender: appender, logger: logger)
        pools = [pool]
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
        consumption = ConsumptionService(
            sender: ConsumptionSender(
                client: store.api, apps: apps, log: ConsumptionLog(pool: pool),
                leadership: StreamLeadership(elector, for: .refunds), clock: store.clock,
                logger: logger))
        service = PollerService(
            poller: Poller(
                checker: checker, apps: apps, queue: CheckQueue(pool: pool),
                leadership: StreamLeadership(elector), clock: store.clock, logger: logger))
    }
}

extension Checker {
    /// - Parameter pool: With the rights of `subledger_poller`.
    init(
        apps: [App], store: StoreServices, verifier: NotificationVerifier?, pool: PostgresPool, appender: Appender,
        logger: Logger
    ) {
        self.init(
            client: store.client, api: verifier.map { (store.api, $0) }, apps: apps, queue: CheckQueue(pool: pool),
            log: LogReader(pool: pool), histories: HistoryLog(pool: pool), handIns: HandInLog(pool: pool),
            subscriptions: SubscriptionReader(pool: pool), appender: appender, clock: store.clock, logger: logger)
    }
}

/// Audits the deliveries of each day. Stops before the appender; an audit in progress is abandoned and made again.
struct AuditService: Service {
    let audits: DeliveryAudits

    func run() async throws {
        await cancelWhenGracefulShutdown { await audits.run() }
    }
}

/// Reads the past of accounts. Stops before the appender; an account that is being read is abandoned and read again.
struct BackfillService: Service {
    let backfills: HistoryBackfills

    func run() async throws {
        await cancelWhenGracefulShutdown { await backfills.run() }
    }
}

/// Sends answers to refund requests. An answer in flight is abandoned, and sent again by the next server.
struct ConsumptionService: Service {
    let sender: ConsumptionSender

    func run() async throws {
        await cancelWhenGracefulShutdown { await sender.run() }
    }
}

/// Makes the checks that are due. Stops before the appender; a question in flight is abandoned, and its check stays due.
struct PollerService: Service {
    let poller: Poller

    func run() async throws {
        await cancelWhenGracefulShutdown { await poller.run() }
    }
}
