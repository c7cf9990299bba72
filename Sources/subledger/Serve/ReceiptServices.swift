import AppStore
import EventLog
import Logging
import Postgres
import Readers
import StoreClient

/// The services for what backends hand in: receipts, about which the App Store is asked, and signed data of devices.
struct ReceiptServices {
    let handIns: HandInService
    let devices: DeviceService
    /// What backends answer to refund requests.
    let consumption: ConsumptionLog
    let queue: ReceiptQueue
    let pools: [PostgresPool]

    init(
        apps: [App], store: StoreServices, verifier: NotificationVerifier, appender: Appender, database: Database,
        logger: Logger
    ) {
        // Separate pools: receipts of many megabytes, and requests that wait for their turn to link, must not delay
        // notifications, readers or each other.
        let receiver = database.pool(.receiver, limit: 2, logger: logger)
        let linker = database.pool(.receiver, limit: 2, logger: logger)
        let reader = database.pool(.reader, limit: 4, logger: logger)
        let log = LogReader(pool: reader)
        let subscriptions = SubscriptionReader(pool: reader)
        let bundleIds = Set(apps.map(\.bundleId))
        let links = LinkService(log: LogReader(pool: linker), appender: appender, apps: bundleIds)
        handIns = HandInService(
            client: store.client, apps: apps, handIns: HandInLog(pool: receiver), log: log,
            subscriptions: subscriptions, appender: appender, links: links, clock: store.clock, logger: logger)
        devices = DeviceService(
            verifier: verifier, apps: bundleIds,
            lookup: TransactionLookup(client: store.api, apps: apps, clock: store.clock), log: log,
            subscriptions: subscriptions, appender: appender, links: links, clock: store.clock, logger: logger)
        queue = ReceiptQueue(service: handIns, clock: store.clock, logger: logger)
        consumption = ConsumptionLog(pool: receiver)
        pools = [receiver, linker, reader]
    }
}
