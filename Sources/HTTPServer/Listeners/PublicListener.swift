import AppStore
import Encoding
import EventLog
import Hummingbird
import Logging

extension Listener {
    /// The listener for the App Store: it serves notifications and health checks only.
    ///
    /// - Parameters:
    ///   - health: What the server's readiness depends on. The response only says whether it is ready.
    ///   - connectionsPerAddress: The number of connections from one peer address beyond which its idle ones are
    ///     closed.
    ///   - identity: For HTTPS; nil for plain HTTP.
    ///   - onListening: Called with the port once connections are accepted.
    package static func `public`(
        at address: ListenAddress, verifier: NotificationVerifier, appender: Appender,
        quarantine: QuarantineKeeper, health: [HealthCheck],
        connectionsPerAddress: Int = Limits.publicConnectionsPerAddress, identity: TLSIdentity? = nil,
        now: @escaping @Sendable () -> Instant, logger: Logger,
        onListening: @escaping @Sendable (Int) async -> Void
    ) -> Listener {
        let router = Router(context: BasicRequestContext.self)
        router.add(middleware: ErrorResponseMiddleware())
        NotificationRoutes(verifier: verifier, appender: appender, quarantine: quarantine, now: now, logger: logger)
            .add(to: router)
        HealthRoutes(checks: health, showsConditions: false).add(to: router)
        return Listener(
            router, address: address, identity: identity,
            connections: ConnectionTable(
                limit: Limits.publicConnectionsMax, perAddress: connectionsPerAddress, listener: "public"),
            logger: logger, onListening: onListening)
    }
}
