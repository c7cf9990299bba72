import AppStore
import EventLog
import HTTPServer
import Logging
import Postgres
import Readers
import StoreClient

/// The services for what backends hand in: receipts, about which the App Store is asked, and signed data of devices.
struct ReceiptServices {
    let handIns: HandInSources
    let queue: ReceiptQueue

    init(
        apps: [App], store: StoreServices, verifier: NotificationVerifier, appender: Appender, database: Database,
        logger: Logger
    ) {
        let receiver = database.pool(for: .handIns, logger: logger)
        let linker = database.pool(for: .links, logger: logger)
        let reader = database.pool(for: .background, logger: logger)
        let log = LogReader(pool: reader)
        let subscriptions = SubscriptionReader(pool: reader)
        let bundleIds = Set(apps.map(\.bundleId))
        let links = LinkService(log: LogReader(pool: linker), appender: appender, apps: bundleIds)
        let receiptLog = HandInLog(pool: receiver)
        let receipts = ReceiptHandIn(
            client: store.client, apps: apps, handIns: receiptLog, log: log,
            subscriptions: subscriptions, appender: appender, links: links, clock: store.clock, logger: logger)
        var handIns = HandInSources()
        (handIns.receipts, handIns.receiptLog) = (receipts, receiptLog)
        handIns.transactions = TransactionHandIn(
            verifier: verifier, apps: bundleIds,
            lookup: TransactionLookup(client: store.api, apps: apps, clock: store.clock), log: log,
            subscriptions: subscriptions, appender: appender, links: links, clock: store.clock, logger: logger)
        self.handIns = handIns
        queue = ReceiptQueue(service: receipts, clock: store.clock, logger: logger)
    }
}
