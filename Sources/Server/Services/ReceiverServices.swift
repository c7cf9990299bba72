import AppStore
import Encoding
import EventLog
import HTTPServer
import Logging
import PlayStore
import Postgres
import StoreClient

/// The services that receive the notifications of the stores.
package struct ReceiverServices {
    let notifications: NotificationSources
    /// What the public health check depends on. It needs no authentication, so it must not use the appender's connections.
    let health: [HealthCheck]
    let quarantine: QuarantineIntake
    /// Fetches the keys of Google's pushes.
    let keys: StoreTransportService

    /// The default bounds of the quarantine.
    package static let quarantineBounds = QuarantineBounds.standard

    package struct Settings {
        let quarantineMegabytes: Int?
        let quarantineDays: Int?

        package init(quarantineMegabytes: Int? = nil, quarantineDays: Int? = nil) {
            self.quarantineMegabytes = quarantineMegabytes
            self.quarantineDays = quarantineDays
        }
    }

    /// - Parameter health: Further conditions that must be ok to store notifications, besides the database's own.
    init(
        _ settings: Settings, apps: [App], googleApps: [GoogleApp], googleAddresses: GoogleAddresses,
        verifying: VerifierServices, appender: Appender, health: [HealthCheck], database: Database,
        now: @escaping @Sendable () -> Instant, logger: Logger
    ) {
        let pool = database.pool(for: .quarantine, logger: logger)
        let bounds = QuarantineBounds(
            bytesMax: settings.quarantineMegabytes.map { Int64($0) << 20 } ?? Self.quarantineBounds.bytesMax,
            daysMax: settings.quarantineDays ?? Self.quarantineBounds.daysMax)
        let kept = Quarantine(pool: pool, bounds: bounds)
        quarantine = QuarantineIntake(
            quarantine: kept, apps: apps.map(\.bundleId), verifier: verifying.verifier, appender: appender, now: now,
            logger: logger)
        let transport = HTTPStoreTransport()
        keys = StoreTransportService(transport: transport)
        let pushes = (
            verifier: PushVerifier(apps: googleApps.map(\.play)),
            keys: GoogleSigningKeys(
                transport: transport, addresses: googleAddresses, clock: StoreClock(date: now), logger: logger)
        )
        notifications = NotificationSources(
            verifier: verifying.verifier, appender: appender, quarantine: QuarantineKeeper(kept), pushes: pushes,
            now: now)
        self.health = [.database(LogReader(pool: verifying.pool))] + health
    }

    /// Logs what an operator should know before notifications are accepted.
    static func warn(about configured: [App], _ googleApps: [GoogleApp], rootFiles: [String], logger: Logger) {
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
        for app in googleApps where app.play.pushAuthentication == .none {
            logger.warning(
                "accepting pushes without an identity token; anyone who knows the URL can cause questions to Google Play",
                metadata: ["stream.app": "\(app.packageName)"])
        }
        for app in googleApps where app.credentials == nil {
            logger.warning(
                "no credentials configured; notifications are stored, and Google Play is not asked",
                metadata: ["stream.app": "\(app.packageName)"])
        }
        if configured.isEmpty, googleApps.isEmpty {
            logger.warning("no app configured; every notification receives 503")
        }
        for app in configured where app.acceptsWithoutSecret {
            logger.warning(
                "accepting notifications without a shared secret; anyone who knows the URL can forge them",
                metadata: ["stream.app": "\(app.bundleId)"])
        }
    }
}
