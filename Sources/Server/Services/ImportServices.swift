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
        let logger = try settings.logger()
        let (apps, googleApps) = (try settings.apps(), try settings.googleApps())
        let verifier = NotificationVerifier(
            apps: Apps(apps), signatures: SignatureVerifier(roots: try settings.roots()))
        let store = StoreServices(
            addresses: try settings.receiptAddresses(), apiAddresses: try settings.serverAPIAddresses(),
            googleAddresses: try settings.googleAddresses(), now: SystemClock.now, logger: logger)
        let result: Result<Value, any Error>
        do {
            result = .success(
                try await Database.withExisting(settings, logger: logger) { database in
                    try await with(store, verifier, apps, googleApps, database, logger, body)
                })
        } catch {
            result = .failure(error)
        }
        // Also after an error: the client must not be released with open connections.
        await store.service.transport.shutDown()
        return try result.get()
    }

    private static func with<Value: Sendable>(
        _ store: StoreServices, _ verifier: NotificationVerifier, _ apps: [App], _ googleApps: [GoogleApp],
        _ database: Database, _ logger: Logger,
        _ body: (PurchaseImporter, [App], [GoogleApp]) async throws -> Value
    ) async throws -> Value {
        try await database.check([.receiver, .reader])
        return try await database.withAppender(logger: logger) { appender in
            let receipts = ReceiptServices(
                apps: apps, store: store, verifier: verifier, appender: appender, database: database, logger: logger)
            return try await body(
                importer(
                    receipts.handIns, apps: apps, googleApps: googleApps, store: store, appender: appender,
                    database: database, logger: logger), apps, googleApps)
        }
    }
}
