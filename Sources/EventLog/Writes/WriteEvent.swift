import Crypto
import Encoding
import Subscriptions

/// A change that an operator asks the store for, entered at the command line. Only ``WriteLog`` creates them.
struct WriteEvent: ProvenEvent {
    let stream: StreamKey
    let event: Event
    let evidence: Evidence
    let bodyDigest: [UInt8]
    /// Nil: the operator has access to the database, and signs nothing.
    var chain: SigningChain? { nil }

    init(_ write: StoreWrite, stream: StreamKey, receivedAt: Instant) {
        self.stream = stream
        event = write.event(environment: stream.environment, app: stream.app, receivedAt: receivedAt)
        evidence = Evidence(write.canonicalText)
        bodyDigest = Array(SHA256.hash(data: write.canonicalText))
    }
}

extension StoreWrite {
    /// The request, or its answer, as an event of the log. Its dedupe key is the SHA-256 of both and of the time, so a
    /// request that is repeated later is a different event.
    package func event(environment: Environment, app: String?, receivedAt: Instant) -> Event {
        let stated = canonicalText + Array(" \(receivedAt.milliseconds)".utf8)
        return event(
            environment: environment, app: app, receivedAt: receivedAt,
            dedupeKey: DedupeKey(bytes: Array(SHA256.hash(data: stated))))
    }
}
