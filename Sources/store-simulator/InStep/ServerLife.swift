import HTTPServer
import Logging
import Server
import ServiceLifecycle
import Simulation
import StoreClient

/// Where the server of a run listens, and the token for its private listener.
struct ServerSite: Sendable {
    static let host = "127.0.0.1"

    let publicPort: Int
    let privatePort: Int
    let token: String

    var publicAddress: String { "http://\(Self.host):\(publicPort)" }
    var privateAddress: String { "http://\(Self.host):\(privatePort)" }
}

/// Starts the server of a run, lets a part of the simulated time pass, and stops it.
struct ServerLife: Sendable {
    let simulation: SimulationInStep
    let stores: SimulationInStep.Stores
    let storeAddress: String
    let posters: Posters
    let clock = SimulatedClock()

    /// - Parameter site: Where the server listened before; nil for the first time, for which the database must be empty.
    func live<Outcome: Sendable>(
        at site: ServerSite?, _ work: @escaping @Sendable (SimulationInStep.Run) async throws -> Outcome
    ) async throws -> Outcome {
        let ports = (public: Expected<Int>(), private: Expected<Int>())
        let plan = try simulation.plan(storeAddress, clock, at: site, ports.public, ports.private)
        let database = try await Database.open(simulation.settings, logger: simulation.logger)
        let token = try await database.stoppingOnError {
            if let site { return site.token }
            return try await simulation.prepare(database).text
        }
        let server = try await database.stoppingOnError {
            try await Server(
                plan, database: database, now: { clock.now }, metrics: MetricsRegistry(), logger: simulation.logger)
        }
        let services = try await database.stoppingOnError {
            try ServerParts(plan: plan, server: server, database: database, simulation)
        }
        let steps = StepService {
            let site = ServerSite(
                publicPort: try await ports.public.value(), privatePort: try await ports.private.value(), token: token)
            return try await work(
                SimulationInStep.Run(
                    simulation, stores: stores, site: site, posters: posters, parts: services, clock: clock))
        }
        var configurations = server.services.map { ServiceGroupConfiguration.ServiceConfiguration(service: $0) }
        configurations.append(
            .init(
                service: steps, successTerminationBehavior: .gracefullyShutdownGroup,
                failureTerminationBehavior: .gracefullyShutdownGroup))
        let group = ServiceGroup(
            configuration: .init(
                services: configurations, gracefulShutdownSignals: [.sigterm, .sigint], logger: simulation.quiet))
        do {
            try await group.run()
        } catch {
            await services.close()
            throw error
        }
        await services.close()
        guard let outcome = steps.outcome else { throw CancellationError() }
        return outcome
    }
}
