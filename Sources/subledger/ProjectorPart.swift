import Logging
import Postgres
import Projector
import Subscriptions

/// What folds the log.
struct ProjectorPart {
    let service: ProjectorService
    let pools: [PostgresPool]

    init(database: Database, products: [String: ProductCatalog], logger: Logger) {
        var session = database.configuration(.projector)
        session.sessionSettings.merge(Projector.sessionSettings) { $1 }
        let pool = PostgresPool(session, limit: 2, logger: logger)
        pools = [pool]
        service = ProjectorService(
            projector: Projector(pool: pool, listener: session, products: products, logger: logger))
    }
}
