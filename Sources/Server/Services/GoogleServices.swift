import EventLog
import Logging
import Postgres
import Readers
import StoreClient

/// The services that ask Google Play: about purchases, and which of them were voided.
package struct GoogleServices {
    package let poller: PurchasePoller
    package let voids: VoidAudits

    /// What fails of the work that this process leads.
    var failing: [FailingPart] { poller.failing + voids.failing }

    /// - Parameter events: Hears of notifications, and is run by others; nil if rounds are made from outside.
    package init(
        apps: [GoogleApp], store: StoreServices, appender: Appender, database: Database, elector: Elector,
        events: ChangeSignal? = nil, logger: Logger
    ) {
        let pool = database.pool(for: .asking, logger: logger)
        let queue = PurchaseQueue(pool: pool)
        let log = LogReader(pool: pool)
        let subscriptions = SubscriptionReader(pool: pool)
        // A question to Google never waits for a turn to link.
        let linker = database.pool(for: .links, logger: logger)
        let links = LinkService(
            log: LogReader(pool: linker), appender: appender, apps: Set(apps.map(\.packageName)))
        poller = PurchasePoller(
            client: store.google, apps: apps, queue: queue, log: log, subscriptions: subscriptions, appender: appender,
            links: links, leadership: StreamLeadership(elector, for: .google),
            events: events.map { events in
                EventWatch(
                    mark: { await events.markOfAny() }, wait: { await events.waitForAny(since: $0, until: $1) })
            }, clock: store.clock, logger: logger)
        voids = VoidAudits(
            client: store.google, apps: apps, queue: queue, voids: VoidLog(pool: pool), log: log,
            subscriptions: subscriptions, appender: appender, links: links,
            leadership: StreamLeadership(elector, for: .voids), clock: store.clock, logger: logger)
    }
}

/// What asks Google Play about the purchases that backends hand in, or that a command names.
package struct GoogleHandInServices {
    package let purchases: PurchaseHandIn

    init(apps: [GoogleApp], store: StoreServices, appender: Appender, database: Database, logger: Logger) {
        let receiver = database.pool(for: .handIns, logger: logger)
        let linker = database.pool(for: .links, logger: logger)
        let reader = database.pool(for: .background, logger: logger)
        let log = LogReader(pool: reader)
        purchases = PurchaseHandIn(
            client: store.google, apps: apps, queue: PurchaseQueue(pool: receiver), log: log,
            subscriptions: SubscriptionReader(pool: reader), appender: appender,
            links: LinkService(
                log: LogReader(pool: linker), appender: appender, apps: Set(apps.map(\.packageName))),
            clock: store.clock, logger: logger)
    }

    /// Runs the body with services of its own, beside a server that may be running.
    package static func with<Value: Sendable>(
        _ settings: Settings, _ body: (GoogleHandInServices) async throws -> Value
    ) async throws -> Value {
        try await AskingServices.with(settings) { asking in
            try await body(
                GoogleHandInServices(
                    apps: asking.googleApps, store: asking.store, appender: asking.appender,
                    database: asking.database, logger: asking.logger))
        }
    }
}
