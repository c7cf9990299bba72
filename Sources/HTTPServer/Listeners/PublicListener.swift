import AppStore
import Encoding
import EventLog
import Hummingbird
import Logging

extension Listener {
    /// The listener that the stores reach: it takes notifications and answers health checks, nothing else.
    ///
    /// - Parameters:
    ///   - health: What the server's readiness depends on. The answer says ready or not, and nothing else.
    ///   - connectionsPerAddress: Connections of one peer address beyond which its own idle ones are closed.
    ///   - identity: For HTTPS; nil for plain HTTP.
    ///   - onListening: Called with the port once connections are accepted.
    package static func `public`(
        at address: ListenAddress, verifier: NotificationVerifier, appender: Appender, health: [HealthCheck],
        connectionsPerAddress: Int = Limits.publicConnectionsPerAddress, identity: TLSIdentity? = nil,
        now: @escaping @Sendable () -> Instant, logger: Logger,
        onListening: @escaping @Sendable (Int) async -> Void
    ) -> Listener {
        let router = Router(context: BasicRequestContext.self)
        router.add(middleware: ErrorResponseMiddleware())
        NotificationRoutes(verifier: verifier, appender: appender, now: now, logger: logger).add(to: router)
        HealthRoutes(checks: health, showsConditions: false).add(to: router)
        return Listener(
            router, address: address, identity: identity,
            connections: ConnectionTable(
                limit: Limits.publicConnectionsMax, perAddress: connectionsPerAddress, listener: "public"),
            logger: logger, onListening: onListening)
    }
}
