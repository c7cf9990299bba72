import Encoding
import EventLog
import HTTPServer
import Logging
import Outbound
import Postgres
import Readers
import StoreClient

/// The private listener. Every process has one, for its health and metrics. Only a reader serves backends on it.
struct PrivateServices {
    let listener: Listener
    /// Stops before the listener, because the listener waits for requests that wait for changes.
    let changes: ChangeSignal?
    let pools: [PostgresPool]

    struct Settings {
        let address: ListenAddress
        let identity: TLSIdentity?
        let connectionsPerAddress: Int
        var front: ConsoleTransport.Front?
        /// Signs heads; nil to leave them unsigned.
        var headKey: HeadKey?
        /// By app: the keys of assertions about its users.
        var assertionKeys: [String: AssertionKeys] = [:]
        /// Called with the port once connections are accepted.
        var onListening: @Sendable (Int) -> Void = { _ in }
    }

    init(
        _ settings: Settings, roles: Set<ServerRole>, database: Database, appender: Appender?,
        receipts: HandInService?, devices: DeviceService?, googlePurchases: PurchaseHandIn?,
        consumption: ConsumptionLog?, outbound: OutboundServices.Settings, health: [HealthCheck],
        apps: Set<String>,
        askedByAPI: Set<String>,
        metrics: MetricsRegistry, now: @escaping @Sendable () -> Instant, logger: Logger
    ) {
        let onListening: @Sendable (Int) async -> Void = { port in
            logger.info("private listener is up", metadata: ["http.address": "\(settings.address.on(port))"])
            settings.onListening(port)
        }
        let routes: PrivateRoutes
        if roles.contains(.reader) {
            let pool = database.pool(.reader, limit: 8, logger: logger)
            let productPool = database.pool(.products, limit: 1, logger: logger)
            let authenticatorPool = database.pool(.authenticator, limit: 1, logger: logger)
            // Two: a figure of one page must not wait for another's.
            let figurePool = PostgresPool(database.figures, limit: 2, logger: logger)
            // Requests that wait for their turn to link must not delay readers.
            let linker = appender.map { _ in database.pool(.receiver, limit: 4, logger: logger) }
            pools = [pool, productPool, authenticatorPool, figurePool] + [linker].compactMap(\.self)
            let log = LogReader(pool: pool)
            let signal = ChangeSignal(listener: database.configuration(.reader), logger: logger)
            changes = signal
            let tokens = TokenCache(read: TokenReader(pool: authenticatorPool).active)
            let subscriptions = SubscriptionReader(pool: pool, askedByAPI: askedByAPI)
            let products = ProductStore(pool: productPool)
            let customers = CustomerReader(pool: pool)
            let health = [.database(LogReader(pool: pool))] + health
            let console = ConsoleRoutes(
                tokens: tokens, sessions: ConsoleSessions(pool: authenticatorPool),
                transport: ConsoleTransport(
                    host: settings.address.host, hasTLS: settings.identity != nil, front: settings.front),
                reader: ConsoleReader(pool: pool), log: log, customers: customers, subscriptions: subscriptions,
                products: products, figures: FigureReader(pool: figurePool), metrics: metrics, health: health,
                now: now, logger: logger)
            routes = PrivateRoutes(
                tokens: tokens, appGate: AppGate(keys: settings.assertionKeys, now: now), log: log,
                subscriptions: subscriptions, products: products, customers: customers,
                links: linker.flatMap { linker in
                    appender.map { LinkService(log: LogReader(pool: linker), appender: $0, apps: apps) }
                }, headKey: settings.headKey,
                receipts: receipts,
                devices: devices, googlePurchases: googlePurchases,
                consumption: ConsumptionRoutes(
                    requests: ConsumptionLog(pool: pool), answers: consumption,
                    policies: ConsumptionPolicies(pool: productPool), appsWithKey: askedByAPI, now: now),
                webhooks: WebhookRoutes(
                    admin: EndpointAdmin(
                        store: EndpointStore(pool: productPool), keyFile: outbound.keyFile, settings: outbound.client,
                        apps: apps, now: now)),
                changes: ChangeReader(pool: pool), signal: signal, console: console, metrics: metrics, health: health,
                now: now, logger: logger)
        } else {
            changes = nil
            // Health checks use the database role that the process has anyway.
            let role: Database.Role =
                roles.contains(.receiver) ? .receiver : roles.contains(.projector) ? .projector : .poller
            let pool = database.pool(role, limit: 1, logger: logger)
            pools = [pool]
            routes = PrivateRoutes(
                health: [.database(LogReader(pool: pool))] + health, metrics: metrics, logger: logger)
        }
        listener = Listener.private(
            at: settings.address, routes: routes, connectionsPerAddress: settings.connectionsPerAddress,
            identity: settings.identity, logger: logger, onListening: onListening)
    }
}
