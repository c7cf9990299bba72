import AppStore
import EventLog
import Hummingbird
import Logging
import Subscriptions

extension Listener {
    /// The listener that Apple reaches: it takes notifications and answers a health check, nothing else.
    ///
    /// - Parameters:
    ///   - log: Reads by the connections that notifications are stored through, for the health check.
    ///   - identity: For HTTPS; nil for plain HTTP.
    ///   - onListening: Called with the port once connections are accepted.
    package static func `public`(
        at address: ListenAddress, verifier: NotificationVerifier, appender: Appender, log: LogReader,
        identity: TLSIdentity? = nil, now: @escaping @Sendable () -> Instant, logger: Logger,
        onListening: @escaping @Sendable (Int) async -> Void
    ) -> Listener {
        let router = Router(context: BasicRequestContext.self)
        let connections = OpenConnections(limit: Limits.publicConnectionsMax)
        router.add(middleware: TurnTaking(connections: connections))
        router.add(middleware: ErrorAnswers())
        NotificationRoutes(verifier: verifier, appender: appender, now: now, logger: logger).add(to: router)
        router.get("/health") { _, _ in
            do throws(ReadError) {
                try await log.ping()
                return Answer.json(.ok) { $0.member("status", "ok") }
            } catch {
                return Answer.error(.serviceUnavailable, error.description)
            }
        }
        return Listener(
            router, address: address, identity: identity, connections: connections, logger: logger,
            onListening: onListening)
    }
}
