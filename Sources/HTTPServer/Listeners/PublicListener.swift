import AppStore
import Encoding
import EventLog
import Hummingbird
import Logging
import PlayStore

/// What verifies and stores the notifications of the stores.
package struct NotificationSources: Sendable {
    let verifier: NotificationVerifier
    let appender: Appender
    let quarantine: QuarantineKeeper
    let pushes: (verifier: PushVerifier, keys: any PushKeys)
    let now: @Sendable () -> Instant

    /// - Parameter pushes: Verifies the pushes of Google Play, with Google's keys.
    package init(
        verifier: NotificationVerifier, appender: Appender, quarantine: QuarantineKeeper,
        pushes: (verifier: PushVerifier, keys: any PushKeys), now: @escaping @Sendable () -> Instant
    ) {
        self.verifier = verifier
        self.appender = appender
        self.quarantine = quarantine
        self.pushes = pushes
        self.now = now
    }
}

extension Listener {
    /// The listener that strangers reach: it serves the stores' notifications, the requests of apps, and health checks only.
    ///
    /// - Parameters:
    ///   - notifications: Nil in a process that receives none.
    ///   - apps: Nil if apps are served by the private listener alone.
    ///   - health: What the server's readiness depends on. The response only says whether it is ready.
    ///   - connectionsPerAddress: The number of connections from one peer address beyond which its idle ones are
    ///     closed.
    ///   - identity: For HTTPS; nil for plain HTTP.
    ///   - onListening: Called with the port once connections are accepted.
    package static func `public`(
        at address: ListenAddress, notifications: NotificationSources?, apps: AppRoutes?, health: [HealthCheck],
        connectionsPerAddress: Int = Limits.publicConnectionsPerAddress, identity: TLSIdentity? = nil,
        logger: Logger, onListening: @escaping @Sendable (Int) async -> Void
    ) -> Listener {
        let router = Router(context: BasicRequestContext.self)
        router.add(middleware: RequestMetrics(listener: "public"))
        router.add(middleware: ErrorResponseMiddleware())
        if let notifications {
            let answers = NotificationAnswers(appender: notifications.appender, logger: logger)
            let bodies = BodyReader()
            NotificationRoutes(
                verifier: notifications.verifier, quarantine: notifications.quarantine, answers: answers,
                bodies: bodies, now: notifications.now
            ).add(to: router)
            GoogleNotificationRoutes(
                verifier: notifications.pushes.verifier, keys: notifications.pushes.keys, answers: answers,
                bodies: bodies, now: notifications.now
            ).add(to: router)
        }
        apps?.add(to: router, connectionsPerAddress: connectionsPerAddress)
        HealthRoutes(checks: health, showsConditions: false).add(to: router)
        return Listener(
            router, address: address, identity: identity,
            connections: ConnectionTable(
                limit: Limits.publicConnectionsMax, perAddress: connectionsPerAddress, listener: "public"),
            logger: logger, onListening: onListening)
    }
}
