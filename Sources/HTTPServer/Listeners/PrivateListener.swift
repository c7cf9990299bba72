import CResources
import Encoding
import EventLog
import Hummingbird
import Logging
import Readers

extension Listener {
    /// The listener for backends and operators.
    ///
    /// - Parameters:
    ///   - connectionsPerAddress: The number of connections from one peer address beyond which its idle ones are
    ///     closed.
    ///   - identity: For HTTPS; nil for plain HTTP.
    ///   - onListening: Called with the port once connections are accepted.
    package static func `private`(
        at address: ListenAddress, routes: PrivateRoutes,
        connectionsPerAddress: Int = Limits.privateConnectionsPerAddress, identity: TLSIdentity? = nil,
        logger: Logger, onListening: @escaping @Sendable (Int) async -> Void
    ) -> Listener {
        Listener(
            routes.finished(), address: address, identity: identity,
            connections: ConnectionTable(
                limit: Limits.privateConnectionsMax, perAddress: connectionsPerAddress, listener: "private"),
            logger: logger, onListening: onListening)
    }
}

extension PrivateRoutes {
    /// All routes of the private listener.
    ///
    /// - Parameters:
    ///   - tokens: The active tokens.
    ///   - appGate: Admits requests of apps; nil to refuse them.
    ///   - browsers: How browsers reach the listener.
    ///   - links: Nil if this process cannot append to the log.
    ///   - headKey: Nil to leave heads unsigned, and to sign no answers.
    ///   - handIns: The ways to hand purchases in.
    ///   - others: All other routes, those of the console among them.
    ///   - health: What the server's readiness depends on.
    package init(
        tokens: TokenCache, appGate: AppGate? = nil, browsers: BrowserAccess = BrowserAccess(), log: LogReader,
        subscriptions: SubscriptionReader,
        products: ProductStore, customers: CustomerReader, links: LinkService?, headKey: HeadKey?,
        handIns: HandInSources, changes: ChangeReader, signal: ChangeSignal, others: [any RouteSet],
        metrics: MetricsRegistry, health: [HealthCheck], now: @escaping @Sendable () -> Instant, logger: Logger
    ) {
        self.init(tokens: tokens, appGate: appGate, browsers: browsers, logger: logger)
        SubscriptionRoutes(subscriptions: subscriptions, now: now).add(to: self)
        let customerRoutes = CustomerRoutes(
            customers: customers, log: log, links: links, key: headKey, now: now, logger: logger)
        customerRoutes.add(to: self)
        let purchases = PurchaseReader(subscriptions: subscriptions, customers: customers, now: now)
        let handInRoutes = HandInRoutes(sources: handIns, purchases: purchases, log: log)
        handInRoutes.add(to: self)
        ofApps = appGate.map { gate in
            AppRoutes(
                tokens: tokens, gate: gate, handIns: handInRoutes, customers: customerRoutes, logger: logger)
        }
        ImportRoutes(importer: handIns.imports).add(to: self)
        GrantRoutes(grants: handIns.grants, now: now).add(to: self)
        SeatRoutes(grants: handIns.grants, now: now).add(to: self)
        EventRoutes(log: log).add(to: self)
        StreamRoutes(log: log, key: headKey, now: now).add(to: self)
        KeyRoutes(key: headKey).add(to: self)
        ChangeRoutes(changes: changes, signal: signal, now: now).add(to: self)
        ProductRoutes(products: products).add(to: self)
        for routes in others { routes.add(to: self) }
        MonitoringRoutes(health: health, metrics: metrics).add(to: self)
        open.get("/openapi.json") { _, _ in
            let file = embedded_openapi_json()
            return Response(
                status: .ok, headers: [.contentType: "application/json"],
                body: .init(byteBuffer: ByteBuffer(bytes: UnsafeBufferPointer(start: file.start, count: file.count))))
        }
    }

    /// The routes of a process without the reader role: health and metrics.
    ///
    /// - Parameters:
    ///   - health: What the server's readiness depends on.
    ///   - browsers: How browsers reach the listener.
    package init(health: [HealthCheck], browsers: BrowserAccess, metrics: MetricsRegistry, logger: Logger) {
        self.init(tokens: TokenCache { [] }, browsers: browsers, logger: logger)
        MonitoringRoutes(health: health, metrics: metrics).add(to: self)
    }
}
