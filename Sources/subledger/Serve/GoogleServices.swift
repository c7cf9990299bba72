import EventLog
import Logging
import Postgres
import Readers
import StoreClient

/// The services that ask Google Play: about purchases, and which of them were voided.
struct GoogleServices {
    let poller: PurchasePoller
    let voids: VoidAudits
    let pools: [PostgresPool]

    init(
        apps: [GoogleApp], store: StoreServices, appender: Appender, database: Database, elector: Elector,
        logger: Logger
    ) {
        // A separate pool: many questions at a time must not delay Apple's checks.
        let pool = database.pool(.poller, limit: 4, logger: logger)
        let queue = PurchaseQueue(pool: pool)
        let log = LogReader(pool: pool)
        let subscriptions = SubscriptionReader(pool: pool)
        // A question to Google never waits for a turn to link.
        let linker = database.pool(.poller, limit: 2, logger: logger)
        let links = LinkService(
            log: LogReader(pool: linker), appender: appender, apps: Set(apps.map(\.packageName)))
        pools = [pool, linker]
        poller = PurchasePoller(
            client: store.google, apps: apps, queue: queue, log: log, subscriptions: subscriptions, appender: appender,
            links: links, leadership: StreamLeadership(elector, for: .google), clock: store.clock, logger: logger)
        voids = VoidAudits(
            client: store.google, apps: apps, queue: queue, voids: VoidLog(pool: pool), log: log,
            subscriptions: subscriptions, appender: appender, links: links,
            leadership: StreamLeadership(elector, for: .voids), clock: store.clock, logger: logger)
    }
}

/// What asks Google Play about the purchases that backends hand in.
struct GoogleHandInServices {
    let purchases: PurchaseHandIn
    let pools: [PostgresPool]

    init(apps: [GoogleApp], store: StoreServices, appender: Appender, database: Database, logger: Logger) {
        let receiver = database.pool(.receiver, limit: 2, logger: logger)
        let linker = database.pool(.receiver, limit: 2, logger: logger)
        let reader = database.pool(.reader, limit: 2, logger: logger)
        let log = LogReader(pool: reader)
        purchases = PurchaseHandIn(
            client: store.google, apps: apps, queue: PurchaseQueue(pool: receiver), log: log,
            subscriptions: SubscriptionReader(pool: reader), appender: appender,
            links: LinkService(
                log: LogReader(pool: linker), appender: appender, apps: Set(apps.map(\.packageName))),
            clock: store.clock, logger: logger)
        pools = [receiver, linker, reader]
    }
}
