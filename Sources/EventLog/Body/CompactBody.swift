import Subscriptions

/// The form in which the log keeps a body: base64 as the bytes that it encodes, and each header of a JWS, which holds
/// three certificates, as the digest under which it is stored once.
///
/// A signed notification is two or three JWS inside another, so two thirds of it are copies of one header, and the
/// rest is base64 of base64, which no compression sees through. Which parts of a body are base64 is known from decoding
/// it: see ``Evidence``. The form gives the body byte for byte, because the decoded parts are ``Base64Text``, and
/// everything else is kept as it is.
///
///     stored    = any byte but 1, …             the body itself: JSON never begins with a 1, so older rows are these
///               | 1 part…
///     part      = 0 length bytes                the bytes
///               | 1 length part…                what the parts give, in base64 with padding
///               | 2 header length part… bytes   a JWS: SHA-256 of its first segment, what the parts give in
///                                               base64url, and its signature, 64 bytes
///     length    = 3 bytes, the highest first
///
/// `subledger.event_body` in `schema.sql` does the same in SQL as ``rebuild(_:header:)``.
package struct CompactBody: Sendable {
    /// As the column `body` has it.
    package let stored: [UInt8]
    /// What it refers to.
    package let headers: [JWSHeaderText]

    static let mark: UInt8 = 1
    /// Apple nests two deep; older releases stored receipts that nest three deep.
    static let depthMax = 4
    static let lengthMax = 1 << 24 - 1

    enum Part: UInt8 {
        case bytes = 0
        case base64 = 1
        case jws = 2
    }

    /// - Parameter evidence: Less than 16 MiB is made compact, more is kept as it is.
    package init(_ evidence: Evidence) {
        let slices = evidence.slices
        let count = slices.reduce(0) { $0 + $1.count }
        if count <= Self.lengthMax {
            var encoder = CompactBodyEncoder(capacity: count)
            encoder.append(evidence)
            if encoder.isCompact || slices.first(where: { !$0.isEmpty })?.first == Self.mark {
                // Without the room that was made for more, since thousands may wait for their commit.
                stored = Array(unsafeUninitializedCapacity: encoder.stored.count) { output, count in
                    count = output.initialize(fromContentsOf: encoder.stored)
                }
                headers = encoder.headers
                assert(isForm(of: evidence))
                return
            }
        }
        stored = evidence.bytes
        headers = []
    }

    private func isForm(of evidence: Evidence) -> Bool {
        (try? Self.rebuild(stored) { digest in headers.first { $0.digest == digest }?.text }) == evidence.bytes
    }

    /// The digests of the headers that stored bodies refer to, as far as these can be read.
    package static func headers(of bodies: [[UInt8]]) -> Set<[UInt8]> {
        var digests: Set<[UInt8]> = []
        for stored in bodies where stored.first == mark {
            try? CompactBodyDecoder(stored: stored).addHeaders(of: 1..<stored.count, to: &digests)
        }
        return digests
    }

    /// The bytes of the evidence.
    ///
    /// - Parameter header: The header of a digest, nil if there is none.
    package static func rebuild(
        _ stored: [UInt8], header: ([UInt8]) -> [UInt8]?
    ) throws(DamagedBody) -> [UInt8] {
        guard stored.first == mark else { return stored }
        var output: [UInt8] = []
        output.reserveCapacity(stored.count * 2)
        try CompactBodyDecoder(stored: stored).append(1..<stored.count, to: &output, depth: 0, header: header)
        return output
    }
}

/// The first segment of a JWS, still in base64url, under its digest.
package struct JWSHeaderText: Sendable, Hashable {
    /// SHA-256 of the text.
    package let digest: [UInt8]
    package let text: [UInt8]
}

/// Why a stored body gives none.
package enum DamagedBody: Error, Hashable, CustomStringConvertible {
    /// It was cut, or is no form that this release knows.
    case form
    /// A header that it refers to is not in the log.
    case headerMissing
    /// What comes out is not what arrived.
    case digest
    /// There is none.
    case missing
    /// An operator erased it, as facts in the log say.
    case erased
    /// It is stored under another time than that of its event, so nothing finds it.
    case wrongTime
    /// It is in an archive file, and no archive folder is configured.
    case archived(file: String)
    /// It is in an archive file that cannot be read.
    case archive(ArchiveError)

    package var description: String {
        switch self {
        case .form: "body is stored in a form that cannot be read"
        case .headerMissing: "body refers to a header that is not there"
        case .digest: "body does not match its digest"
        case .missing: "body is missing, and no erasure in the log says so"
        case .erased: "body was erased"
        case .wrongTime: "body is stored under another time than received_at"
        case .archived(let file): "body is in archive file \(file): set SUBLEDGER_ARCHIVE_FOLDER to read it"
        case .archive(let error): "body cannot be read: \(error)"
        }
    }
}
