import Crypto
import Encoding
import Subscriptions

extension LinkStatement {
    /// The statement as an event of the log. Its key is a SHA-256 of what is stated and when: stated again later it is
    /// another event.
    package func event(environment: Environment, app: String?, receivedAt: Instant) -> Event {
        let stated = canonicalText + Array(" \(receivedAt.milliseconds)".utf8)
        return event(
            environment: environment, app: app, receivedAt: receivedAt,
            dedupeKey: DedupeKey(bytes: Array(SHA256.hash(data: stated))))
    }

    /// SHA-256 of the canonical text.
    package var digest: [UInt8] { Array(SHA256.hash(data: canonicalText)) }
}
