import AppStore
import EventLog
import Logging
import Postgres
import Readers
import ServiceLifecycle
import StoreClient

/// The services that ask the App Store about receipts that backends hand in.
struct ReceiptServices {
    let handIns: HandInService
    let service: ReceiptQueueService
    let pools: [PostgresPool]

    init(apps: [App], addresses: ReceiptAddresses, appender: Appender, database: Database, logger: Logger) {
        let clock = StoreClock(date: SystemClock.now)
        let transport = HTTPStoreTransport()
        // Separate pools: receipts of many megabytes, and requests that wait for the lock of links, must not delay
        // notifications or readers.
        let receiver = database.pool(.receiver, limit: 2, logger: logger)
        let reader = database.pool(.reader, limit: 4, logger: logger)
        let log = LogReader(pool: reader)
        handIns = HandInService(
            client: ReceiptClient(transport: transport, addresses: addresses, clock: clock, logger: logger),
            apps: apps, handIns: HandInLog(pool: receiver), log: log,
            subscriptions: SubscriptionReader(pool: reader), appender: appender,
            links: LinkService(log: log, appender: appender, apps: Set(apps.map(\.bundleId))), clock: clock,
            logger: logger)
        service = ReceiptQueueService(
            queue: ReceiptQueue(service: handIns, clock: clock, logger: logger), transport: transport)
        pools = [receiver, reader]
    }
}

/// Asks about pending receipts. Stops after the listener whose requests ask as well, and before the appender.
struct ReceiptQueueService: Service {
    let queue: ReceiptQueue
    let transport: HTTPStoreTransport

    func run() async throws {
        await cancelWhenGracefulShutdown { await queue.run() }
        // A separate task, which a cancellation of this one does not interrupt.
        await Task { [transport] in await transport.shutDown() }.value
    }
}
