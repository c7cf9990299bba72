import Crypto
import Encoding
import Subscriptions

extension StoreWrite {
    /// The request, or its answer, as an event of the log. A request that is repeated later is a different event, unless it
    /// has a key.
    package func event(environment: Environment, app: String?, receivedAt: Instant) -> Event {
        event(
            environment: environment, app: app, receivedAt: receivedAt,
            dedupeKey: idempotency.map { DedupeKey(of: $0) } ?? DedupeKey(of: canonicalText, at: receivedAt))
    }
}

extension DedupeKey {
    /// The key of the first request with an idempotency key, of which a stream has one.
    init(of key: StoreWrite.IdempotencyKey) {
        self.init(bytes: Array(SHA256.hash(data: Array("idempotency key \(key.text)".utf8))))
    }
}
