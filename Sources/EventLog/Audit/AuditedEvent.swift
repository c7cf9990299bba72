import Crypto
import Encoding
import Subscriptions

/// A body as it is stored, with what shows whether it is the one that arrived.
struct AuditedBody: Sendable {
    let stored: [UInt8]
    let digest: [UInt8]
    let headers: [[UInt8]: [UInt8]]

    func bytes() throws(DamagedBody) -> [UInt8] {
        let body = try CompactBody.rebuild(stored) { headers[$0] }
        guard SHA256.hash(data: body).elementsEqual(digest) else { throw .digest }
        return body
    }
}

/// An event with its body.
package struct AuditedEvent: Sendable {
    package let position: Int64
    package let receivedAt: Instant
    package let occurredAt: Instant?
    /// A column whose time is not in whole milliseconds, as all are that were ever written.
    package let brokenTime: String?
    package let source: String
    package let type: String?
    package let subtype: String?
    package let kind: String
    package let dedupeKey: DedupeKey
    package let fingerprint: [UInt8]?
    let storedBody: AuditedBody
    /// The certificates behind the signature; nil for what is not signed, and for what was stored before they were
    /// kept.
    package let chainId: [UInt8]?
    package let revocation: String?
    /// What its row says beside the body is what was sealed when it was made.
    package let isAsSealed: Bool

    /// The bytes of ``ProvenEvent/evidence``, whose digest was stored.
    package func body() throws(DamagedBody) -> [UInt8] { try storedBody.bytes() }
}
