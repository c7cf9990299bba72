import Encoding
import Subscriptions

extension StoreWrite {
    /// The request, or its answer, as an event of the log. A request that is repeated later is a different event.
    package func event(environment: Environment, app: String?, receivedAt: Instant) -> Event {
        event(
            environment: environment, app: app, receivedAt: receivedAt,
            dedupeKey: DedupeKey(of: canonicalText, at: receivedAt))
    }
}
