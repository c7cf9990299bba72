import AppStore
import EventLog
import HTTPServer
import Logging
import StoreClient

/// What takes purchases over from another service.
package enum ImportServices {
    static func importer(
        _ handIns: HandInSources, apps: [App], googleApps: [GoogleApp], store: StoreServices, appender: Appender,
        database: Database, logger: Logger
    ) -> PurchaseImporter {
        let bundleIds = apps.map(\.bundleId)
        return PurchaseImporter(
            links: LinkService(
                log: LogReader(pool: database.pool(for: .links, logger: logger)), appender: appender,
                apps: Set(bundleIds + googleApps.map(\.packageName))),
            transactions: handIns.transactions, receipts: handIns.receipts,
            queue: PurchaseQueue(pool: database.pool(for: .handIns, logger: logger)), client: store.google,
            appleApps: bundleIds, googleApps: googleApps, clock: store.clock)
    }

    /// Runs the body with an importer of its own, beside a server that may be running.
    package static func with<Value: Sendable>(
        _ settings: Settings, _ body: (PurchaseImporter, [App], [GoogleApp]) async throws -> Value
    ) async throws -> Value {
        try await AskingServices.with(settings) { asking in
            let receipts = ReceiptServices(
                apps: asking.apps, store: asking.store, verifier: asking.verifier, appender: asking.appender,
                database: asking.database, logger: asking.logger)
            return try await body(
                importer(
                    receipts.handIns, apps: asking.apps, googleApps: asking.googleApps, store: asking.store,
                    appender: asking.appender, database: asking.database, logger: asking.logger),
                asking.apps, asking.googleApps)
        }
    }
}
