import Crypto
import Encoding
import Subscriptions

/// What the operator or a backend states, which needs no signature: the private listener or the rights in the database have
/// proved who it is. Only the services of this module create them.
struct StatedEvent: ProvenEvent {
    let stream: StreamKey
    let event: Event
    let evidence: Evidence
    let bodyDigest: [UInt8]
    var chain: SigningChain? { nil }

    /// - Parameter text: The canonical text of the statement, which is the body of the event.
    init(_ event: Event, text: [UInt8], stream: StreamKey) {
        self.stream = stream
        self.event = event
        evidence = Evidence(text)
        bodyDigest = Array(SHA256.hash(data: text))
    }
}

extension DedupeKey {
    /// The key of a statement: a SHA-256 of its canonical text and its time, so the same statement at another time is a
    /// different event.
    init(of text: [UInt8], at time: Instant) {
        self.init(bytes: Array(SHA256.hash(data: text + Array(" \(time.milliseconds)".utf8))))
    }
}
