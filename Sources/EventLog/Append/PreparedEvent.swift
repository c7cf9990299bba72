import Crypto
import Encoding
import Postgres
import Subscriptions

/// A proven event with everything that its row in the log needs, ready to append.
///
/// Made by the request that brings the event, so that the one loop that commits batches computes nothing of it.
package struct PreparedEvent: Sendable {
    package let stream: StreamKey
    package let event: Event
    let body: CompactBody
    let bodyDigest: [UInt8]
    let facts: JSONB
    let defects: JSONB?
    /// The subscriptions that the event names, without repetition, as column `subscription_sha256` of
    /// `subscription_head` stores them.
    let subscriptions: [[UInt8]]
    let chain: SigningChain?
    package let hasShortChain: Bool
    package let receivedAt: Instant
    /// What the event adds to the hash chain of its stream.
    let digest: [UInt8]

    /// - Parameter receivedAt: Our clock.
    package init(_ proven: some ProvenEvent, receivedAt: Instant) {
        stream = proven.stream
        event = proven.event
        body = CompactBody(proven.evidence)
        bodyDigest = proven.bodyDigest
        var writer = JSONWriter()
        writer.object { proven.event.writeFacts(to: &$0) }
        facts = JSONB(utf8: writer.bytes)
        if proven.event.defects.isEmpty {
            defects = nil
        } else {
            writer = JSONWriter()
            writer.array(proven.event.defects) { $1.write(to: &$0) }
            defects = JSONB(utf8: writer.bytes)
        }
        let digests = proven.event.subscriptions.map { Array(SHA256.hash(data: Array($0.text.utf8)).prefix(8)) }
        subscriptions = Array(Set(digests))
        chain = proven.chain
        hasShortChain = proven.hasShortChain
        self.receivedAt = receivedAt
        digest =
            ChainedEvent(
                receivedAt: Timestamptz(receivedAt), source: proven.event.source.rawValue,
                dedupeKey: proven.event.dedupeKey.bytes, bodyDigest: proven.bodyDigest, chainId: proven.chain?.id,
                revocation: proven.chain?.revocation.rawValue
            ).digest
    }

    /// The bytes of the body and its headers in the queue and on their way to the database.
    var bodyBytes: Int { body.stored.count + body.headers.reduce(0) { $0 + $1.text.count } }
}
