import Crypto
import Encoding
import Subscriptions

/// A body as stored, with the values needed to restore and check it.
struct AuditedBody: Sendable {
    let stored: [UInt8]
    /// SHA-256 of the restored body.
    let digest: [UInt8]
    /// JWS headers by their SHA-256.
    let headers: [[UInt8]: [UInt8]]

    /// The restored body, checked against its digest.
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
    /// The column whose time is not a whole number of milliseconds; nil if there is none. Subledger writes only whole
    /// milliseconds.
    package let brokenTime: String?
    package let source: String
    package let type: String?
    package let subtype: String?
    package let kind: String
    package let dedupeKey: DedupeKey
    package let fingerprint: [UInt8]?
    let storedBody: AuditedBody
    /// Identifies the certificates of the signature; nil if the body is unsigned, or was stored before this column
    /// existed.
    package let chainId: [UInt8]?
    package let revocation: String?
    /// Whether the columns that the body does not determine match the row's checksum.
    package let isAsSealed: Bool

    /// The bytes of ``ProvenEvent/evidence``, checked against the stored digest.
    package func body() throws(DamagedBody) -> [UInt8] { try storedBody.bytes() }
}
