import AppStore
import Encoding
import EventLog
import Hummingbird
import Logging
import PlayStore

extension Listener {
    /// The listener for the stores: it serves notifications and health checks only.
    ///
    /// - Parameters:
    ///   - pushes: Verifies the pushes of Google Play, with Google's keys.
    ///   - health: What the server's readiness depends on. The response only says whether it is ready.
    ///   - connectionsPerAddress: The number of connections from one peer address beyond which its idle ones are
    ///     closed.
    ///   - identity: For HTTPS; nil for plain HTTP.
    ///   - onListening: Called with the port once connections are accepted.
    package static func `public`(
        at address: ListenAddress, verifier: NotificationVerifier, appender: Appender,
        quarantine: QuarantineKeeper, pushes: (verifier: PushVerifier, keys: any PushKeys), health: [HealthCheck],
        connectionsPerAddress: Int = Limits.publicConnectionsPerAddress, identity: TLSIdentity? = nil,
        now: @escaping @Sendable () -> Instant, logger: Logger,
        onListening: @escaping @Sendable (Int) async -> Void
    ) -> Listener {
        let router = Router(context: BasicRequestContext.self)
        router.add(middleware: RequestMetrics(listener: "public"))
        router.add(middleware: ErrorResponseMiddleware())
        let answers = NotificationAnswers(appender: appender, logger: logger)
        let bodies = BodyReader()
        NotificationRoutes(verifier: verifier, quarantine: quarantine, answers: answers, bodies: bodies, now: now)
            .add(to: router)
        GoogleNotificationRoutes(
            verifier: pushes.verifier, keys: pushes.keys, answers: answers, bodies: bodies, now: now
        )
        .add(to: router)
        HealthRoutes(checks: health, showsConditions: false).add(to: router)
        return Listener(
            router, address: address, identity: identity,
            connections: ConnectionTable(
                limit: Limits.publicConnectionsMax, perAddress: connectionsPerAddress, listener: "public"),
            logger: logger, onListening: onListening)
    }
}
