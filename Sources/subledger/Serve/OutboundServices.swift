import EventLog
import HTTPServer
import Logging
import Outbound
import Postgres
import Readers
import StoreClient

/// What delivers changes to endpoints, and passes notifications on.
struct OutboundServices {
    let delivery: OutboundDelivery
    let pools: [PostgresPool]

    struct Settings {
        /// Nil without one.
        var keyFile: WebhookKeyFile?
        /// See ``Forward``.
        var forwards: [Forward] = []
        var client = EndpointClientSettings(allowsPrivate: false)
    }

    init(_ settings: Settings, clock: StoreClock, database: Database, elector: Elector, logger: Logger) {
        // Separate pools: deliveries must not wait for questions to stores, nor for readers.
        let poller = database.pool(.poller, limit: 4, logger: logger)
        let reader = database.pool(.reader, limit: 4, logger: logger)
        let listener = database.configuration(.reader)
        delivery = OutboundDelivery(
            pool: poller, changes: ChangeReader(pool: reader),
            changeSignal: ChangeSignal(listener: listener, logger: logger),
            eventSignal: ChangeSignal(listener: listener, channel: "subledger_event", logger: logger),
            leadership: StreamLeadership(elector, for: .endpoints), forwards: settings.forwards,
            keyFile: settings.keyFile, settings: settings.client, clock: clock, logger: logger)
        pools = [poller, reader]
    }
}

extension HealthCheck {
    /// Checks whether endpoints get what they should. Each says itself whether it does, so the process stays ready.
    static func endpoints(_ delivery: OutboundDelivery) -> HealthCheck {
        HealthCheck(name: "endpoints") {
            let figures = delivery.figures
            guard figures.failing + figures.disabled > 0, let example = figures.example else { return .ok }
            return .degraded(
                "endpoints failing: \(figures.failing), disabled: \(figures.disabled), the first is \(example)")
        }
    }
}
