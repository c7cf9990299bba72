import AppStore
import Encoding
import Logging
import Postgres
import Projector

/// The services that fold the log.
struct ProjectorServices {
    let service: ProjectorService
    let pools: [PostgresPool]

    var projector: Projector { service.projector }

    init(apps: [App], database: Database, now: @escaping @Sendable () -> Instant, logger: Logger) {
        var session = database.configuration(.projector)
        session.sessionSettings.merge(Projector.sessionSettings) { $1 }
        let pool = PostgresPool(session, limit: Projector.connectionsMax, logger: logger)
        pools = [pool]
        service = ProjectorService(
            projector: Projector(
                pool: pool, listener: session,
                ownership: Dictionary(uniqueKeysWithValues: apps.map { ($0.bundleId, $0.ownership) }),
                checks: Dictionary(uniqueKeysWithValues: apps.map { ($0.bundleId, $0.checks) }),
                now: now, logger: logger))
    }
}
