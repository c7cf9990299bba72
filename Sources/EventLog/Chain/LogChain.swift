import Crypto
import Postgres
import Subscriptions

/// The hash chain of a stream up to a position.
///
/// Each value is the SHA-256 of the value before it, the position in 8 bytes in big-endian order, and the digest of the
/// event, see ``ChainedEvent/digest``. So a value determines every event up to its position, and their order.
package struct LogChain: Sendable, Hashable {
    package private(set) var position: Int64
    /// 32 bytes.
    package private(set) var value: [UInt8]

    package init(position: Int64, value: [UInt8]) {
        self.position = position
        self.value = value
    }

    /// The chain before the first event, as function `chain_start` in schema.sql computes it.
    package init(startOf stream: StreamKey, createdAt: Timestamptz) {
        var fields = ChainFields("subledger stream 1")
        fields.append(stream.app)
        fields.append(stream.environment.rawValue)
        fields.append(createdAt.microsecondsSinceUnixEpoch)
        self.init(position: 0, value: Array(SHA256.hash(data: fields.bytes)))
    }

    /// Moves on by one event.
    ///
    /// Continue a chain that is broken with ``init(position:value:)`` and the stored value.
    package mutating func append(_ digest: [UInt8]) {
        position += 1
        var hasher = SHA256()
        hasher.update(data: value)
        withUnsafeBytes(of: position.bigEndian) { hasher.update(bufferPointer: $0) }
        hasher.update(data: digest)
        value = Array(hasher.finalize())
    }
}
