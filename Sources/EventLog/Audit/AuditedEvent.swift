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

/// Columns of an event that can be recomputed from its body.
package struct DerivedColumns: Sendable {
    package let occurredAt: Instant?
    package let type: String?
    package let subtype: String?
    package let kind: String
    package let fingerprint: [UInt8]?
    /// JSON text as `jsonb` has it.
    package let facts: [UInt8]
    package let defects: [UInt8]?
}

/// An event as a link of the hash chain.
package struct AuditedLink: Sendable {
    package let position: Int64
    /// Computed from the columns, see ``ChainedEvent/digest``.
    package let digest: [UInt8]
    /// Value of the hash chain up to this event, as stored.
    package let chain: [UInt8]
}

/// An event with its body.
package struct AuditedEvent: Sendable {
    package let position: Int64
    package let receivedAt: Instant
    /// The column whose time is not a whole number of milliseconds; nil if there is none. Subledger writes only whole
    /// milliseconds.
    package let brokenTime: String?
    /// The columns that can be recomputed from the body; nil for an event that is read from a file of evidence.
    package let derived: DerivedColumns?
    /// The columns that the hash chain covers.
    package let chained: ChainedEvent
    /// Nil if there is none: see ``absence``.
    let storedBody: AuditedBody?
    /// Why there is no body, apart from erasures.
    let absence: DamagedBody
    /// Whether the body, or what an erasure left of it, was read from an archive file.
    package let isArchived: Bool
    /// Value of the hash chain up to this event, as stored.
    package let chain: [UInt8]

    /// Whether nothing can be said of the body, since its archive file cannot be read.
    package var isUnread: Bool {
        guard storedBody == nil else { return false }
        switch absence {
        case .archived: return true
        case .archive(let error): return error.problem.isOfWholeFile
        default: return false
        }
    }
    /// Whether there is no body, as an erasure leaves it.
    package var isErasable: Bool { storedBody == nil && (absence == .missing || absence == .erased || isUnread) }
    var isFileMissing: Bool {
        guard case .archive(let error) = absence else { return false }
        return error.problem == .missing
    }
    package var source: String { chained.source }
    package var dedupeKey: DedupeKey { DedupeKey(bytes: chained.dedupeKey) }
    /// Identifies the certificates of the signature; nil if the body is unsigned, or was stored before this column
    /// existed.
    package var chainId: [UInt8]? { chained.chainId }
    package var revocation: String? { chained.revocation }

    package var link: AuditedLink { AuditedLink(position: position, digest: chained.digest, chain: chain) }

    /// An event that is read from a file of evidence.
    package init(position: Int64, receivedAt: Instant, chained: ChainedEvent, body: [UInt8]) {
        self.init(
            position: position, receivedAt: receivedAt, brokenTime: nil, derived: nil, chained: chained,
            storedBody: AuditedBody(stored: body, digest: chained.bodyDigest, headers: [:]), absence: .missing,
            isArchived: false, chain: [])
    }

    init(
        position: Int64, receivedAt: Instant, brokenTime: String?, derived: DerivedColumns?, chained: ChainedEvent,
        storedBody: AuditedBody?, absence: DamagedBody, isArchived: Bool, chain: [UInt8]
    ) {
        self.position = position
        self.receivedAt = receivedAt
        self.brokenTime = brokenTime
        self.derived = derived
        self.chained = chained
        self.storedBody = storedBody
        self.absence = absence
        self.isArchived = isArchived
        self.chain = chain
    }

    /// The bytes of ``ProvenEvent/evidence``, checked against the stored digest.
    package func body() throws(DamagedBody) -> [UInt8] {
        guard let storedBody else { throw absence }
        return try storedBody.bytes()
    }
}

/// The result of a revocation check.
package struct CertificateVerdict: Sendable, Hashable {
    package let decidedAt: Instant
    /// `good`, `revoked` or `unknown`.
    package let verdict: String

    package init(decidedAt: Instant, verdict: String) {
        self.decidedAt = decidedAt
        self.verdict = verdict
    }
}
