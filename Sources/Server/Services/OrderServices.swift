import AppStore
import EventLog
import Logging
import Readers
import StoreClient

/// What finds the purchases of orders.
package enum OrderServices {
    static func lookup(
        _ purchases: any HandInSource, verifier: NotificationVerifier?, apps: [App], googleApps: [GoogleApp],
        store: StoreServices, appender: Appender, database: Database, logger: Logger
    ) -> OrderLookup {
        let reader = database.pool(for: .background, logger: logger)
        return OrderLookup(
            client: store.api, google: store.google, verifier: verifier, purchases: purchases, apps: apps,
            googleApps: googleApps, log: LogReader(pool: reader), subscriptions: SubscriptionReader(pool: reader),
            appender: appender,
            links: LinkService(
                log: LogReader(pool: database.pool(for: .links, logger: logger)), appender: appender,
                apps: Set(apps.map(\.bundleId) + googleApps.map(\.packageName))),
            clock: store.clock)
    }

    /// Runs the body with a lookup of its own, beside a server that may be running, and with a reader of what is stored.
    package static func with<Value: Sendable>(
        _ settings: Settings, _ body: (OrderLookup, ConsoleReader) async throws -> Value
    ) async throws -> Value {
        try await AskingServices.with(settings) { asking in
            let handIns = GoogleHandInServices(
                apps: asking.googleApps, store: asking.store, appender: asking.appender, database: asking.database,
                logger: asking.logger)
            return try await body(
                lookup(
                    handIns.purchases, verifier: asking.verifier, apps: asking.apps, googleApps: asking.googleApps,
                    store: asking.store, appender: asking.appender, database: asking.database, logger: asking.logger),
                ConsoleReader(pool: asking.database.pool(for: .background, logger: asking.logger)))
        }
    }
}
