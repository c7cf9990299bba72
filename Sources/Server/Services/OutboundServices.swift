import EventLog
import HTTPServer
import Logging
import Outbound
import Postgres
import Readers
import StoreClient

/// What delivers changes to endpoints, and passes notifications on.
package struct OutboundServices {
    let delivery: OutboundDelivery

    package struct Settings {
        /// Nil without one.
        package var keyFile: WebhookKeyFile?
        /// See ``Forward``.
        var forwards: [Forward] = []
        var client = EndpointClientSettings(allowsPrivate: false)
    }

    /// - Parameters:
    ///   - changes: Hears of changes.
    ///   - events: Hears of events; the service runs it.
    init(
        _ settings: Settings, changes: ChangeSignal, events: ChangeSignal, clock: StoreClock, database: Database,
        elector: Elector, logger: Logger
    ) {
        let poller = database.pool(for: .asking, logger: logger)
        let reader = database.pool(for: .background, logger: logger)
        delivery = OutboundDelivery(
            pool: poller, archive: database.archive, changes: ChangeReader(pool: reader),
            changeSignal: changes,
            eventSignal: events,
            leadership: StreamLeadership(elector, for: .endpoints), forwards: settings.forwards,
            keyFile: settings.keyFile, settings: settings.client, clock: clock, logger: logger)
    }
}

extension HealthCheck {
    /// Checks whether endpoints get what they should. Each says itself whether it does, so the process stays ready.
    static func endpoints(_ delivery: OutboundDelivery) -> HealthCheck {
        HealthCheck(name: "endpoints") {
            let figures = delivery.figures
            var details: [String] = []
            if figures.failing + figures.disabled > 0, let example = figures.example {
                details.append(
                    "endpoints failing: \(figures.failing), disabled: \(figures.disabled), the first is \(example)")
            }
            if figures.lost > 0, let example = figures.lostExample {
                details.append(
                    "notifications not passed on because the log has lost their bodies: \(figures.lost), the last one to "
                        + example)
            }
            return details.isEmpty ? .ok : .degraded(details.joined(separator: "; "))
        }
    }
}
