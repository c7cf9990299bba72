import EventLog
import HTTPServer
import Logging

/// The public listener: for the notifications of the stores, for apps, or for both.
package struct PublicServices {
    let listener: Listener

    package struct Settings {
        let address: ListenAddress
        let identity: TLSIdentity?
        let connectionsPerAddress: Int
        /// Whether apps reach their routes here, too.
        let servesApps: Bool
        /// Called with the port once connections are accepted.
        let onListening: @Sendable (Int) -> Void

        package init(
            address: ListenAddress, identity: TLSIdentity? = nil, connectionsPerAddress: Int, servesApps: Bool = false,
            onListening: @escaping @Sendable (Int) -> Void = { _ in }
        ) {
            self.address = address
            self.identity = identity
            self.connectionsPerAddress = connectionsPerAddress
            self.servesApps = servesApps
            self.onListening = onListening
        }
    }

    /// - Parameter health: Of a process that receives notifications or serves apps.
    /// - Returns: Nil for a process that does neither.
    init?(
        _ settings: Settings, notifications: NotificationSources?, apps: AppRoutes?, health: [HealthCheck],
        logger: Logger
    ) {
        let apps = settings.servesApps ? apps : nil
        guard notifications != nil || apps != nil else { return nil }
        listener = Listener.public(
            at: settings.address, notifications: notifications, apps: apps, health: health,
            connectionsPerAddress: settings.connectionsPerAddress, identity: settings.identity, logger: logger,
            onListening: { port in
                logger.info("public listener is up", metadata: ["http.address": "\(settings.address.on(port))"])
                settings.onListening(port)
            })
    }

    /// Logs what an operator should know before apps are served.
    ///
    /// - Parameter asserted: The apps with keys of assertions.
    static func warn(_ settings: Settings, asserted: Set<String>, logger: Logger) {
        guard settings.servesApps else { return }
        if asserted.isEmpty {
            logger.warning("no app has keys for assertions; every request of an app receives 403")
        }
        if settings.identity == nil {
            logger.notice("requests of apps accepted over plain HTTP; end TLS in front of the public listener")
        }
    }
}
