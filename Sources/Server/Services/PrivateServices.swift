import AppStore
import Encoding
import EventLog
import HTTPServer
import Logging
import Outbound
import Postgres
import Readers

/// The private listener. Every process has one, for its health and metrics. Only a reader serves backends on it.
package struct PrivateServices {
    let listener: Listener
    /// That of the health checks of a process that serves no backends.
    let healthPool: PostgresPool?
    /// The routes of apps, for the public listener; nil in a process that serves no backends.
    let apps: AppRoutes?

    package struct Settings {
        let address: ListenAddress
        let identity: TLSIdentity?
        let connectionsPerAddress: Int
        let browsers: BrowserAccess
        /// Signs heads; nil to leave them unsigned.
        package var headKey: HeadKey?
        /// By app: the keys of assertions about its users.
        let assertionKeys: [String: AssertionKeys]
        /// Whether people can act for customers in the console.
        let hasConsoleActs: Bool
        /// Whether the stores are asked for changes.
        let hasStoreWrites: Bool
        /// Called with the port once connections are accepted.
        let onListening: @Sendable (Int) -> Void

        package init(
            address: ListenAddress, identity: TLSIdentity? = nil, connectionsPerAddress: Int,
            front: ConsoleTransport.Front? = nil, names: [String] = [], assertionKeys: [String: AssertionKeys] = [:],
            hasConsoleActs: Bool = true, hasStoreWrites: Bool = true,
            onListening: @escaping @Sendable (Int) -> Void = { _ in }
        ) {
            self.address = address
            self.identity = identity
            self.connectionsPerAddress = connectionsPerAddress
            browsers = BrowserAccess(
                transport: ConsoleTransport(host: address.host, hasTLS: identity != nil, front: front),
                names: [address.host] + names)
            self.assertionKeys = assertionKeys
            self.hasConsoleActs = hasConsoleActs
            self.hasStoreWrites = hasStoreWrites
            self.onListening = onListening
        }
    }

    init(
        _ settings: Settings, roles: Set<ServerRole>, database: Database, appender: Appender?,
        handIns: HandInSources, storeActs: (any StoreActs)?, consumption: ConsumptionLog?,
        outbound: OutboundServices.Settings,
        health: [HealthCheck], apps: Set<String>, signingKeys: [String: ServerAPIKey],
        refundApps: RefundApps, asked: AskedApps,
        changes: ChangeSignal,
        metrics: MetricsRegistry, now: @escaping @Sendable () -> Instant, logger: Logger
    ) {
        let onListening: @Sendable (Int) async -> Void = { port in
            logger.info("private listener is up", metadata: ["http.address": "\(settings.address.on(port))"])
            settings.onListening(port)
        }
        let routes: PrivateRoutes
        if roles.contains(.reader) {
            let pool = database.pool(for: .requests, logger: logger)
            let productPool = database.pool(for: .products, logger: logger)
            let authenticatorPool = database.pool(for: .authenticator, logger: logger)
            healthPool = nil
            let figurePool = database.pool(for: .figures, logger: logger)
            let linker = appender.map { _ in database.pool(for: .links, logger: logger) }
            let log = LogReader(pool: pool)
            let tokens = TokenCache(read: TokenReader(pool: authenticatorPool).active)
            let subscriptions = SubscriptionReader(pool: pool, asked: asked)
            let products = ProductStore(pool: productPool)
            let customers = CustomerReader(pool: pool)
            let health = [.database(LogReader(pool: pool))] + health
            let endpoints = EndpointAdmin(
                store: EndpointStore(pool: productPool), keyFile: outbound.keyFile, settings: outbound.client,
                apps: apps, now: now)
            var acts = ConsoleActs()
            acts.isOn = settings.hasConsoleActs
            acts.grants = handIns.grants
            acts.stores = storeActs
            acts.orders = storeActs.map { OrderQuestions(reader: ConsoleReader(pool: pool), stores: $0) }
            acts.refunds = consumption
            acts.refundApps = refundApps
            let console = ConsoleRoutes(
                tokens: tokens, sessions: ConsoleSessions(pool: authenticatorPool),
                transport: settings.browsers.transport,
                reader: ConsoleReader(pool: pool), log: log, customers: customers, subscriptions: subscriptions,
                products: products, figures: FigureReader(pool: figurePool), endpoints: endpoints,
                refunds: ConsumptionLog(pool: pool), acts: acts, metrics: metrics, health: health, now: now,
                logger: logger)
            routes = PrivateRoutes(
                tokens: tokens, appGate: AppGate(keys: settings.assertionKeys, now: now), browsers: settings.browsers,
                log: log, subscriptions: subscriptions, products: products, customers: customers,
                links: linker.flatMap { linker in
                    appender.map { LinkService(log: LogReader(pool: linker), appender: $0, apps: apps) }
                }, headKey: settings.headKey, handIns: handIns,
                changes: ChangeReader(pool: pool), signal: changes,
                others: [
                    ConsumptionRoutes(
                        requests: ConsumptionLog(pool: pool), answers: consumption,
                        policies: ConsumptionPolicies(pool: productPool), apps: refundApps, now: now),
                    OfferRoutes(keys: signingKeys, now: now), OrderRoutes(questions: acts.orders, log: log),
                    WriteRoutes(subscriptions: subscriptions, stores: storeActs, now: now),
                    WebhookRoutes(admin: endpoints), console,
                ], metrics: metrics, health: health, now: now, logger: logger)
        } else {
            // Health checks use the database role that the process has anyway.
            let role: Database.Role =
                roles.contains(.receiver) ? .receiver : roles.contains(.projector) ? .projector : .poller
            let pool = database.pool(role, limit: 1, logger: logger)
            healthPool = pool
            routes = PrivateRoutes(
                health: [.database(LogReader(pool: pool))] + health, browsers: settings.browsers, metrics: metrics,
                logger: logger)
        }
        self.apps = routes.ofApps
        listener = Listener.private(
            at: settings.address, routes: routes, connectionsPerAddress: settings.connectionsPerAddress,
            identity: settings.identity, logger: logger, onListening: onListening)
    }
}

extension ListenAddress {
    /// The same address with the actual port.
    func on(_ port: Int) -> ListenAddress { ListenAddress(host: host, port: port) }
}
