import Encoding
import EventLog
import HTTPServer
import Logging
import Postgres
import ServiceLifecycle
import SimulatedStore
import SimulatorClient
import StoreClient
import StoreSimulator
import Subscriptions

/// Runs stores and a server of its own in one process, on one simulated clock, and compares the server's answers.
///
/// The server is the one of `serve`. Only the clock is another, and checks are made when the simulated time says so.
struct SimulationInStep {
    /// Nil without the App Store.
    let simulation: Simulation?
    /// Nil without Google Play.
    let google: PlaySimulation?
    let settings: Settings
    let connections: Int
    let target: LateTarget
    /// How the App Store posts its notifications to the target, if the server asks the App Store Server API; nil if it asks
    /// with receipts, and the run delivers the notifications.
    let sending: NotificationSending?
    /// How Google Play pushes its messages.
    let pushing: PlaySending
    let faults: PlayFaultSettings
    let logger: Logger

    /// What goes wrong on Google Play's side, and with the server.
    struct PlayFaultSettings: Sendable {
        /// The fraction of requests with a fault.
        var fraction = 0.0
        /// When the API is away; nil for no such time.
        var storeOutage: Range<Instant>?
        /// When the server is down; nil for no such time.
        var serverOutage: Range<Instant>?
    }

    struct Outcome: Sendable {
        var apple: AppleOutcome?
        var google: PlayOutcome?
    }

    /// The simulated stores of a run.
    struct Stores: Sendable {
        let apple: SimulatedStore?
        let google: SimulatedPlay?
    }

    /// - Parameter onStep: Called after each step with the simulated time.
    func run(onStep: @escaping @Sendable (Instant) -> Void) async throws -> Outcome {
        let stores = Stores(apple: simulation.map { appStore($0) }, google: google.map { googlePlay($0) })
        let address = Expected<String>()
        let listener = StoreListener(stores.apple, play: stores.google, logger: quiet) { address.set($0) }
        return try await withThrowingTaskGroup(of: Outcome?.self) { group in
            group.addTask {
                try await listener.run()
                return nil
            }
            group.addTask { try await serve(stores, at: address.value(), onStep) }
            defer { group.cancelAll() }
            while let outcome = try await group.next() {
                if let outcome { return outcome }
            }
            throw CancellationError()
        }
    }

    private func appStore(_ simulation: Simulation) -> SimulatedStore {
        var api = SimulatedServerAPI.Settings()
        api.sending = sending
        return SimulatedStore(simulation, now: Simulation.start, api: api)
    }

    private func googlePlay(_ google: PlaySimulation) -> SimulatedPlay {
        var settings = SimulatedPlay.Settings(packageName: google.packageName)
        settings.sending = pushing
        settings.faults = faults.fraction
        settings.outage = faults.storeOutage
        settings.rendering.showsOfferPhase = true
        return SimulatedPlay(google.storyteller, stories: google.count, now: Simulation.start, settings)
    }

    // MARK: The server

    /// Runs the server until the simulated time is over.
    private func serve(
        _ stores: Stores, at storeAddress: String, _ onStep: @escaping @Sendable (Instant) -> Void
    ) async throws -> Outcome {
        let ports = (public: Expected<Int>(), private: Expected<Int>())
        let clock = SimulatedClock()
        let plan = try plan(storeAddress, clock, ports.public, ports.private)
        let database = try await Database.open(settings, logger: logger)
        let token = try await database.stoppingOnError { try await prepare(database) }
        let server = try await database.stoppingOnError {
            try await Server(
                plan, database: database, now: { clock.now }, metrics: MetricsRegistry(), logger: logger)
        }
        let run = try Run(self, stores: stores, plan: plan, server: server, database: database, clock: clock)
        let steps = StepService {
            let site = Run.Site(
                publicAddress: "http://127.0.0.1:\(try await ports.public.value())",
                privateAddress: "http://127.0.0.1:\(try await ports.private.value())", token: token.text)
            return try await run.outcome(at: site, onStep)
        }
        var services = server.services.map { ServiceGroupConfiguration.ServiceConfiguration(service: $0) }
        services.append(
            .init(
                service: steps, successTerminationBehavior: .gracefullyShutdownGroup,
                failureTerminationBehavior: .gracefullyShutdownGroup))
        let group = ServiceGroup(
            configuration: .init(
                services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: quiet))
        do {
            try await group.run()
        } catch {
            await run.close()
            throw error
        }
        await run.close()
        guard let outcome = steps.outcome else { throw CancellationError() }
        return outcome
    }

    /// The streams in which facts of the stores are.
    var streams: [StreamKey] {
        let apple = simulation.map {
            [StreamKey(app: $0.settings.app.bundleId, environment: $0.settings.app.environment)]
        }
        let play = google.map { google in
            [Environment.production, .sandbox].map { StreamKey(app: google.packageName, environment: $0) }
        }
        return Array(Set((apple ?? []) + (play ?? [])))
    }

    var quiet: Logger {
        var logger = logger
        logger.logLevel = .critical
        return logger
    }
}
