import EventLog
import Hummingbird
import Logging
import Projector
import Subscriptions

extension Listener {
    /// The listener for backends and operators.
    ///
    /// - Parameter links: Nil where nothing is appended to the log.
    /// - Parameter onListening: Called with the port once connections are accepted.
    package static func `private`(
        at address: ListenAddress, log: LogReader, subscriptions: SubscriptionReader, products: ProductStore,
        customers: CustomerReader, links: CustomerLinkRoute?, metrics: MetricsRegistry,
        now: @escaping @Sendable () -> Instant, logger: Logger,
        onListening: @escaping @Sendable (Int) async -> Void
    ) -> Listener {
        let router = Router(context: BasicRequestContext.self)
        router.add(middleware: ErrorAnswers())
        SubscriptionRoutes(subscriptions: subscriptions, now: now, logger: logger).add(to: router)
        CustomerRoutes(
            customers: customers, links: links, now: now, logger: logger
        ).add(to: router)
        EventRoutes(log: log, logger: logger).add(to: router)
        ProductRoutes(products: products, logger: logger).add(to: router)
        HealthRoute(log: log).add(to: router)
        MetricsRoute(metrics: metrics).add(to: router)
        return Listener(router, address: address, logger: logger, onListening: onListening)
    }
}
