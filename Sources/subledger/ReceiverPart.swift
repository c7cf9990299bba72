import AppStore
import EventLog
import HTTPServer
import Logging
import Postgres

/// What takes Apple's notifications.
struct ReceiverPart {
    let revocation: RevocationService
    let listener: Listener
    let healthPool: PostgresPool

    struct Settings {
        let apps: [App]
        let address: ListenAddress
        let roots: RootCertificates
        let revocationMode: RevocationMode
        let identity: TLSIdentity?
        let connectionsPerAddress: Int
    }

    /// - Parameter health: Conditions beside the database's own, without which no notification can be stored.
    init(
        _ settings: Settings, appender: Appender, health: [HealthCheck], database: Database, logger: Logger
    ) async throws {
        // Anybody may ask for the public health check, and must not take a connection from the appender.
        let healthPool = database.pool(.receiver, limit: 1, logger: logger)
        self.healthPool = healthPool
        let verdicts = VerdictLog(pool: healthPool)
        revocation = RevocationService(
            mode: settings.revocationMode,
            revoked: try await database.stoppingOnError { try await verdicts.revoked() },
            verdicts: verdicts, logger: logger)
        let address = settings.address
        listener = Listener.public(
            at: address,
            verifier: NotificationVerifier(
                apps: Apps(settings.apps), signatures: SignatureVerifier(roots: settings.roots),
                revocation: revocation.checker),
            appender: appender, health: [.database(LogReader(pool: healthPool))] + health,
            connectionsPerAddress: settings.connectionsPerAddress, identity: settings.identity, now: Clock.now,
            logger: logger,
            onListening: { port in
                logger.info("public listener is up", metadata: ["http.address": "\(address.on(port))"])
            })
    }

    /// Says what an operator should know before notifications are taken.
    static func warn(about configured: [App], rootFiles: [String], logger: Logger) {
        for file in rootFiles {
            logger.warning(
                "a root certificate beside Apple's is trusted: whoever has its key can make up notifications",
                metadata: ["file": "\(file)"])
        }
        for app in configured where app.environments.contains(where: \.isLocal) {
            logger.warning(
                "notifications of Xcode or local tests are accepted unsigned: anybody can send them, to the same disk",
                metadata: ["stream.app": "\(app.bundleId)"])
        }
        for app in configured where app.appAppleId == nil && app.environments.contains(.production) {
            logger.notice(
                "no appAppleId is configured, so signed notifications are told by their bundle id alone",
                metadata: ["stream.app": "\(app.bundleId)"])
        }
        if configured.isEmpty {
            logger.warning("no app is configured: every notification will be answered 503")
        }
        for app in configured where app.acceptsWithoutSecret {
            logger.warning(
                "notifications without a secret are taken: whoever knows the URL can make them up",
                metadata: ["stream.app": "\(app.bundleId)"])
        }
    }
}
