import Encoding
import EventLog
import HTTPServer
import Logging
import Postgres
import Server
import ServiceLifecycle
import Simulation
import StoreClient
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
    let faults: FaultSettings
    let logger: Logger

    /// What goes wrong.
    struct FaultSettings: Sendable {
        /// The fraction of requests to Google Play with a fault.
        var fraction = 0.0
        /// When the API of Google Play is away; nil for no such time.
        var storeOutage: Range<Instant>?
        /// When the server is down; nil for no such time.
        var serverOutage: Range<Instant>?
        /// What the database lacks after it was restored; nil if it never is.
        var lost: LostTime?
    }

    struct Outcome: Sendable {
        var apple: AppleOutcome?
        var google: PlayOutcome?
        /// The number of events that the database lacked after it was restored; nil if it never was.
        var lostEvents: Int64?
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

    /// Runs the server until the simulated time is over. To restore its database, it is stopped and started again.
    private func serve(
        _ stores: Stores, at storeAddress: String, _ onStep: @escaping @Sendable (Instant) -> Void
    ) async throws -> Outcome {
        let posters = Posters()
        let life = ServerLife(simulation: self, stores: stores, storeAddress: storeAddress, posters: posters)
        do {
            let outcome = try await outcome(of: life, onStep)
            await posters.end()
            return outcome
        } catch {
            await posters.end()
            throw error
        }
    }

    private func outcome(
        of life: ServerLife, _ onStep: @escaping @Sendable (Instant) -> Void
    ) async throws -> Outcome {
        guard let lost = faults.lost else {
            return try await life.live(at: nil) { try await $0.settle($0.pass($0.courses(), until: nil, onStep)) }
        }
        let (site, first) = try await life.live(at: nil) { run in
            (run.site, try await run.pass(run.courses(), until: lost.start, onStep))
        }
        try await copyDatabase(Database.embeddedName, to: Self.backupName)
        let (second, events) = try await life.live(at: site) { run in
            let courses = try await run.pass(run.courses(after: first), until: lost.end, onStep)
            return (courses, try await run.events())
        }
        try await copyDatabase(Self.backupName, to: Database.embeddedName)
        return try await life.live(at: site) { run in
            let lostEvents = try await events - run.events()
            let restored = await run.courses(after: second).restored(lost)
            var outcome = try await run.settle(run.pass(restored, until: nil, onStep))
            outcome.lostEvents = lostEvents
            return outcome
        }
    }

    private static let backupName = "backup"

    /// Replaces a database of the private PostgreSQL by a copy of another one. No server uses it.
    private func copyDatabase(_ name: String, to copy: String) async throws {
        let server = try await Database.startServer(folder: settings.dataFolder, logger: quiet)
        do {
            try await server.dropDatabase(copy)
            try await server.createDatabase(copy, template: name)
        } catch {
            await server.stop()
            throw error
        }
        await server.stop()
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
