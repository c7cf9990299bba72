import Encoding
import Subscriptions

extension SeatStatement {
    /// The statement as an event of the log. A seat that was taken back can be given again later.
    package func event(environment: Environment, app: String?, receivedAt: Instant) -> Event {
        event(
            environment: environment, app: app, receivedAt: receivedAt,
            dedupeKey: DedupeKey(of: canonicalText, at: receivedAt))
    }
}
