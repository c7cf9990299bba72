import EventLog
import Postgres
import Server
import StoreClient

/// What a run in step uses of its server: the services that ask the stores, which it drives by the simulated time.
struct ServerParts: Sendable {
    /// Nil without an app of the App Store.
    let polling: PollerServices?
    let consumption: ConsumptionSender
    /// Nil without an app of Google Play.
    let asking: GoogleServices?
    let readers: PostgresPool
    let wait: ProjectionWait

    init(plan: ServerPlan, server: Server, database: Database, _ simulation: SimulationInStep) throws {
        guard let appending = server.appending, let store = server.store else {
            throw SettingError(description: "the database user cannot append events")
        }
        // A lease lasts seconds of real time, in which months are simulated: the next parts continue those of the last ones.
        let elector = Elector(database.configuration(.poller), holder: "simulate")
        polling =
            plan.apps.isEmpty
            ? nil
            : PollerServices(
                apps: plan.apps, store: store, verifier: server.verifier, appender: appending.appender,
                database: database, elector: elector, auditWindows: 1, logger: simulation.logger)
        consumption = ConsumptionSender(
            apps: plan.apps, googleApps: plan.googleApps, store: store, appender: appending.appender,
            database: database, elector: elector, logger: simulation.logger)
        asking =
            plan.googleApps.isEmpty
            ? nil
            : GoogleServices(
                apps: plan.googleApps, store: store, appender: appending.appender, database: database,
                elector: elector, logger: simulation.logger)
        readers = database.pool(.reader, limit: 1, logger: simulation.logger)
        wait = ProjectionWait(log: LogReader(pool: readers), streams: simulation.streams)
    }

    func close() async {
        await readers.close()
    }
}
