import Encoding
import Subscriptions

extension LinkStatement {
    /// The statement as an event of the log. Its dedupe key is the SHA-256 of the statement and its time of receipt, so
    /// the same statement received at another time is a different event.
    package func event(environment: Environment, app: String?, receivedAt: Instant) -> Event {
        event(
            environment: environment, app: app, receivedAt: receivedAt,
            dedupeKey: DedupeKey(of: canonicalText, at: receivedAt))
    }
}
