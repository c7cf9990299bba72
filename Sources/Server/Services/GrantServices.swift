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
            return try await database.withAppender(logger: logger) { appender in
                try await body(
                    service(apps: apps, googleApps: googleApps, appender: appender, database: database, logger: logger))
            }
        }
    }
}
