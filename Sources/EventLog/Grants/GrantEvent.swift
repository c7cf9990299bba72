import Crypto
import Encoding
import Subscriptions

/// Access that was given by hand, as the private listener or an operator states it. Only ``GrantService`` creates them.
struct GrantEvent: ProvenEvent {
    let stream: StreamKey
    let event: Event
    let evidence: Evidence
    let bodyDigest: [UInt8]
    /// Nil: nobody signs a grant.
    var chain: SigningChain? { nil }

    init(_ grant: GrantStatement, source: EventSource, stream: StreamKey, receivedAt: Instant) {
        self.stream = stream
        event = grant.event(source: source, environment: stream.environment, app: stream.app, receivedAt: receivedAt)
        evidence = Evidence(grant.canonicalText)
        bodyDigest = Array(SHA256.hash(data: grant.canonicalText))
    }
}

extension GrantStatement {
    /// The grant as an event of the log. Its dedupe key is the SHA-256 of the statement and the time, so that a grant that
    /// was taken back can be given again.
    package func event(
        source: EventSource, environment: Environment, app: String?, receivedAt: Instant
    ) -> Event {
        let stated = canonicalText + Array(" \(receivedAt.milliseconds)".utf8)
        return event(
            source: source, environment: environment, app: app, receivedAt: receivedAt,
            dedupeKey: DedupeKey(bytes: Array(SHA256.hash(data: stated))))
    }
}
