import AppStore
import Encoding
import Logging
import Postgres
import Projector
import StoreClient

/// The services that fold the log.
struct ProjectorServices {
    let projector: Projector
    let pools: [PostgresPool]

    init(
        apps: [App], googleApps: [GoogleApp] = [], database: Database, now: @escaping @Sendable () -> Instant,
        logger: Logger
    ) {
        // An app may have the same name in both stores. Its owner rules are then those of the App Store.
        let ownership = apps.map { ($0.bundleId, $0.ownership) } + googleApps.map { ($0.packageName, $0.ownership) }
        var session = database.configuration(.projector)
        session.sessionSettings.merge(Projector.sessionSettings) { $1 }
        let pool = PostgresPool(session, limit: Projector.connectionsMax, logger: logger)
        pools = [pool]
        projector = Projector(
            pool: pool, listener: session,
            ownership: Dictionary(ownership) { first, _ in first },
            joins: googleApps.compactMap { app in app.joinedWith.map { (app.packageName, $0) } },
            checks: Dictionary(uniqueKeysWithValues: apps.map { ($0.bundleId, $0.checks) }),
            now: now, logger: logger)
    }
}
