import AppStore
import EventLog
import Logging
import StoreClient

/// What gives access by hand.
package enum GrantServices {
    static func service(
        apps: [App], googleApps: [GoogleApp], appender: Appender, database: Database, logger: Logger
    ) -> GrantService {
        GrantService(
            pool: database.pool(for: .background, logger: logger),
            links: LinkService(
                log: LogReader(pool: database.pool(for: .links, logger: logger)), appender: appender,
                apps: Set(apps.map(\.bundleId) + googleApps.map(\.packageName))),
            appender: appender)
    }

    /// Runs the body with a service of its own, beside a server that may be running.
    package static func with<Value: Sendable>(
        _ settings: Settings, _ body: (GrantService) async throws -> Value
    ) async throws -> Value {
        let logger = try settings.logger()
        let (apps, googleApps) = (try settings.apps(), try settings.googleApps())
        return try await Database.withExisting(settings, logger: logger) { database in
            try await database.check([.receiver, .reader])
            let appender = Appender(pool: database.pool(for: .appending, logger: logger), logger: logger)
            let service = service(
                apps: apps, googleApps: googleApps, appender: appender, database: database, logger: logger)
            async let appending: Void = appender.run()
            let result: Result<Value, any Error>
            do {
                result = .success(try await body(service))
            } catch {
                result = .failure(error)
            }
            await appender.stop()
            await appending
            for pool in database.pools.all { await pool.close() }
            return try result.get()
        }
    }
}
