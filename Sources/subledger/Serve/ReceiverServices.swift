import AppStore
import EventLog
import HTTPServer
import Logging
import Postgres

/// The services that receive Apple's notifications.
struct ReceiverServices {
    let listener: Listener

    struct Settings {
        let address: ListenAddress
        let identity: TLSIdentity?
        let connectionsPerAddress: Int
    }

    /// - Parameter health: Further conditions that must be ok to store notifications, besides the database's own.
    init(_ settings: Settings, verifying: VerifierServices, appender: Appender, health: [HealthCheck], logger: Logger) {
        let address = settings.address
        listener = Listener.public(
            at: address, verifier: verifying.verifier,
            appender: appender,
            // The public health check needs no authentication, so it must not use the appender's connections.
            health: [.database(LogReader(pool: verifying.pool))] + health,
            connectionsPerAddress: settings.connectionsPerAddress, identity: settings.identity, now: SystemClock.now,
            logger: logger,
            onListening: { port in
                logger.info("public listener is up", metadata: ["http.address": "\(address.on(port))"])
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
