import Encoding
import Subscriptions

extension GrantStatement {
    /// The grant as an event of the log. A grant that was taken back can be given again later.
    package func event(
        source: EventSource, environment: Environment, app: String?, receivedAt: Instant
    ) -> Event {
        event(
            source: source, environment: environment, app: app, receivedAt: receivedAt,
            dedupeKey: DedupeKey(of: canonicalText, at: receivedAt))
    }
}
