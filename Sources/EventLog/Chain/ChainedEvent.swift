import Crypto
import Postgres

/// What the hash chain covers of an event: everything that cannot be recomputed from its body, and the body's digest.
package struct ChainedEvent: Sendable, Hashable {
    package let receivedAt: Timestamptz
    package let source: String
    package let dedupeKey: [UInt8]
    package let bodyDigest: [UInt8]
    package let chainId: [UInt8]?
    package let revocation: String?

    package init(
        receivedAt: Timestamptz, source: String, dedupeKey: [UInt8], bodyDigest: [UInt8], chainId: [UInt8]?,
        revocation: String?
    ) {
        self.receivedAt = receivedAt
        self.source = source
        self.dedupeKey = dedupeKey
        self.bodyDigest = bodyDigest
        self.chainId = chainId
        self.revocation = revocation
    }

    /// 32 bytes, as function `event_digest` in schema.sql computes them.
    package var digest: [UInt8] {
        var fields = ChainFields("subledger event 1")
        fields.append(receivedAt.microsecondsSinceUnixEpoch)
        fields.append(source)
        fields.append(dedupeKey)
        fields.append(bodyDigest)
        fields.append(chainId)
        fields.append(revocation)
        return Array(SHA256.hash(data: fields.bytes))
    }
}
