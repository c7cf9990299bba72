import AppStore
import Encoding
import EventLog
import HTTPServer
import Logging
import Postgres

/// The services that receive Apple's notifications.
struct ReceiverServices {
    let listener: Listener
    let quarantine: QuarantineService
    let pool: PostgresPool

    /// The default bounds of the quarantine.
    static let quarantineBounds = QuarantineBounds.standard

    struct Settings {
        let address: ListenAddress
        let identity: TLSIdentity?
        let connectionsPerAddress: Int
        let quarantineMegabytes: Int?
        let quarantineDays: Int?
        /// Called with the port once connections are accepted.
        var onListening: @Sendable (Int) -> Void = { _ in }
    }

    /// - Parameter health: Further conditions that must be ok to store notifications, besides the database's own.
    init(
        _ settings: Settings, apps: [App], verifying: VerifierServices, appender: Appender, health: [HealthCheck],
        database: Database, now: @escaping @Sendable () -> Instant, logger: Logger
    ) {
        // A separate pool: notifications of apps that are not configured must not delay any other.
        pool = database.pool(.receiver, limit: 1, logger: logger)
        let bounds = QuarantineBounds(
            bytesMax: settings.quarantineMegabytes.map { Int64($0) << 20 } ?? Self.quarantineBounds.bytesMax,
            daysMax: settings.quarantineDays ?? Self.quarantineBounds.daysMax)
        let kept = Quarantine(pool: pool, bounds: bounds)
        quarantine = QuarantineService(
            intake: QuarantineIntake(
                quarantine: kept, apps: apps.map(\.bundleId), verifier: verifying.verifier, appender: appender,
                now: now, logger: logger))
        let address = settings.address
        listener = Listener.public(
            at: address, verifier: verifying.verifier, appender: appender, quarantine: QuarantineKeeper(kept),
            // The public health check needs no authentication, so it must not use the appender's connections.
            health: [.database(LogReader(pool: verifying.pool))] + health,
            connectionsPerAddress: settings.connectionsPerAddress, identity: settings.identity, now: now,
            logger: logger,
            onListening: { port in
                logger.info("public listener is up", metadata: ["http.address": "\(address.on(port))"])
                settings.onListening(port)
            })
    }

    /// Logs what an operator should know before notifications are accepted.
    static func warn(about configured: [App], rootFiles: [String], logger: Logger) {
        for file in rootFiles {
            logger.warning(
                "trusting an additional root certificate; anyone with its key can forge notifications",
                metadata: ["file": "\(file)"])
        }
        for app in configured where app.environments.contains(where: \.isLocal) {
            logger.warning(
                "accepting unsigned notifications from Xcode and local testing; anyone can forge them, and they use the same disk",
                metadata: ["stream.app": "\(app.bundleId)"])
        }
        for app in configured where app.appAppleId == nil && app.environments.contains(.production) {
            logger.notice(
                "no appAppleId configured; signed notifications are matched by bundle id alone",
                metadata: ["stream.app": "\(app.bundleId)"])
        }
        if configured.isEmpty {
            logger.warning("no app configured; every notification receives 503")
        }
        for app in configured where app.acceptsWithoutSecret {
            logger.warning(
                "accepting notifications without a shared secret; anyone who knows the URL can forge them",
                metadata: ["stream.app": "\(app.bundleId)"])
        }
    }
}
