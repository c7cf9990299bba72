import Encoding
import Foundation
import Logging
import Server
import ServiceLifecycle
import Simulation

extension StoreSimulator {
    /// Serves the simulated stores until interrupted.
    func serve(_ simulation: Simulation?, _ google: PlaySimulation?, port: Int) async throws {
        var logger = Logger(label: "store-simulator")
        logger.logLevel = .error
        let serviceAccountFile = google == nil ? nil : play.writeServiceAccount
        let listener = StoreListener(
            simulation.map { simulatedStore($0) }, play: google.map { simulatedPlay($0) }, port: port, logger: logger
        ) { [serviceAccountFile] address in
            // Not before, because it names the address of the token endpoint.
            if let serviceAccountFile {
                let file = PlayServiceAccount.standard.keyFile(tokenURI: "\(address)/google/token")
                do {
                    try OutputFile.write(String(decoding: file, as: UTF8.self) + "\n", to: serviceAccountFile)
                } catch {
                    printError("store-simulator: \(error)")
                }
            }
            // Unbuffered, for scripts that wait for it.
            FileHandle.standardOutput.write(Data("\(address)\n".utf8))
        }
        var group = ServiceGroupConfiguration(
            services: [listener], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
        // Slow answers are not waited for.
        group.maximumGracefulShutdownDuration = .seconds(2)
        try await ServiceGroup(configuration: group).run()
    }

    private func simulatedStore(_ simulation: Simulation) -> SimulatedStore {
        var api = SimulatedServerAPI.Settings()
        // A server dates its tokens by its own clock.
        api.tokenClock = { SystemClock.now() }
        if let storeNotifications {
            let target = NotificationTarget(url: storeNotifications)
            api.sending = sending { await target.post($0) }
        }
        return SimulatedStore(simulation, now: firstInstant, faults: storeFaults, api: api)
    }

    private func simulatedPlay(_ simulation: PlaySimulation) -> SimulatedPlay {
        var settings = SimulatedPlay.Settings(packageName: simulation.storyteller.settings.packageName)
        settings.tokenClock = { SystemClock.now().milliseconds / 1000 }
        settings.faults = storeFaults
        settings.rendering.showsOfferPhase = true
        if let url = play.googleNotifications {
            let target = NotificationTarget(url: url)
            settings.sending = pushing(audience: play.pushAudience ?? url) { await target.push($0) }
        }
        return SimulatedPlay(simulation.storyteller, stories: simulation.count, now: firstInstant, settings)
    }

    /// How Google Play pushes its messages.
    func pushing(
        audience: String, _ post: @escaping @Sendable (_ push: PlaySending.Request) async -> Int?
    ) -> PlaySending {
        var sending = PlaySending(audience: audience, post: post)
        sending.lose = scenario.lose
        sending.duplicate = scenario.duplicate
        sending.delayMax = scenario.order == .inOrder ? .zero : Self.pushDelayMax
        sending.connections = connections
        return sending
    }

    private var firstInstant: Instant {
        let sends = storeNotifications != nil || play.googleNotifications != nil
        return sends ? scenario.window.start : scenario.window.end
    }

    /// Pushes that arrive in any order are at most this late.
    private static let pushDelayMax = Duration.seconds(3 * 86_400)

    /// The part of notifications that are not lost whose first attempts fail, if they arrive in any order.
    private static let delayedPart = 0.2

    /// How the store posts its notifications.
    func sending(
        _ post: @escaping @Sendable (_ body: [UInt8]) async -> SendAttempt.Result
    ) -> NotificationSending {
        var sending = NotificationSending(post: post)
        sending.lose = scenario.lose
        sending.isShuffled = scenario.order != .inOrder
        // Apple does not retry in the sandbox.
        sending.delay = sending.isShuffled && scenario.environment == .production ? Self.delayedPart : 0
        sending.connections = connections
        return sending
    }
}
