import Crypto
import Encoding
import SwiftASN1
import X509

/// A decoded OCSP response (RFC 6960, section 4.2.1). Nothing in it is verified.
///
/// X509 decodes responses too, but can check them only while it asks: against the nonce of its own request.
struct OCSPResponse {
    enum Responder {
        case name(DistinguishedName)
        /// SHA-1 of the key.
        case key([UInt8])
    }

    let responder: Responder
    let producedAt: Instant
    let statuses: [OCSPCertificateStatus]
    let signedBytes: ArraySlice<UInt8>
    let signatureAlgorithm: Certificate.SignatureAlgorithm
    let signature: ArraySlice<UInt8>
    /// The responder's own certificate, unless the issuer itself signed.
    let certificates: [Certificate]

    struct Malformed: Error {}

    private static let basic: ASN1ObjectIdentifier = [1, 3, 6, 1, 5, 5, 7, 48, 1, 1]

    /// - Throws: Any error if the bytes are not a successful response, or its signature algorithm is not supported.
    init(derEncoded der: [UInt8]) throws {
        let basic = try DER.sequence(try DER.parse(der), identifier: .sequence) { nodes -> ASN1OctetString in
            guard let status = nodes.next(), status.identifier == .enumerated,
                case .primitive(let value) = status.content, value.elementsEqual([0])
            else { throw Malformed() }
            return try DER.explicitlyTagged(&nodes, tagNumber: 0, tagClass: .contextSpecific) { node in
                try DER.sequence(node, identifier: .sequence) { nodes in
                    guard try ASN1ObjectIdentifier(derEncoded: &nodes) == Self.basic else { throw Malformed() }
                    return try ASN1OctetString(derEncoded: &nodes)
                }
            }
        }
        self = try DER.sequence(try DER.parse(basic.bytes), identifier: .sequence) { nodes in
            guard let data = nodes.next() else { throw Malformed() }
            let algorithm = try Self.signatureAlgorithm(&nodes)
            let signature = try ASN1BitString(derEncoded: &nodes)
            let certificates = try DER.optionalExplicitlyTagged(
                &nodes, tagNumber: 0, tagClass: .contextSpecific
            ) { node in
                try DER.sequence(of: Certificate.self, identifier: .sequence, rootNode: node)
            }
            return try OCSPResponse(data, algorithm, signature.bytes, certificates ?? [])
        }
    }

    /// - Parameter data: The signed part.
    private init(
        _ data: ASN1Node, _ algorithm: Certificate.SignatureAlgorithm, _ signature: ArraySlice<UInt8>,
        _ certificates: [Certificate]
    ) throws {
        (responder, producedAt, statuses) = try DER.sequence(data, identifier: .sequence) { nodes in
            let version = try DER.optionalExplicitlyTagged(&nodes, tagNumber: 0, tagClass: .contextSpecific) {
                try Int(derEncoded: $0)
            }
            guard version ?? 0 == 0, let responder = nodes.next(), let time = nodes.next(), let list = nodes.next()
            else { throw Malformed() }
            // Extensions of the whole response, such as the nonce of the request.
            _ = nodes.next()
            guard list.identifier == .sequence, case .constructed(let statuses) = list.content else {
                throw Malformed()
            }
            return (
                try Responder(responder), try Instant(generalizedTime: time),
                try statuses.map { try OCSPCertificateStatus($0) }
            )
        }
        signedBytes = data.encodedBytes
        signatureAlgorithm = algorithm
        self.signature = signature
        self.certificates = certificates
    }

    /// SHA-1 is not supported: collisions can be computed.
    private static func signatureAlgorithm(
        _ nodes: inout ASN1NodeCollection.Iterator
    ) throws -> Certificate.SignatureAlgorithm {
        switch try ASN1ObjectIdentifier(algorithm: &nodes) {
        case [1, 2, 840, 10045, 4, 3, 2]: .ecdsaWithSHA256
        case [1, 2, 840, 10045, 4, 3, 3]: .ecdsaWithSHA384
        case [1, 2, 840, 10045, 4, 3, 4]: .ecdsaWithSHA512
        case [1, 2, 840, 113549, 1, 1, 11]: .sha256WithRSAEncryption
        case [1, 2, 840, 113549, 1, 1, 12]: .sha384WithRSAEncryption
        case [1, 2, 840, 113549, 1, 1, 13]: .sha512WithRSAEncryption
        default: throw Malformed()
        }
    }
}

/// What a response says about one certificate.
struct OCSPCertificateStatus {
    let status: RevocationVerdict
    let thisUpdate: Instant
    /// Nil if the response has no end. Such a response is never valid (RFC 5019, section 4).
    let nextUpdate: Instant?
    private let hashAlgorithm: ASN1ObjectIdentifier
    private let issuerNameHash: ASN1OctetString
    private let issuerKeyHash: ASN1OctetString
    private let serialNumber: Certificate.SerialNumber

    fileprivate init(_ node: ASN1Node) throws {
        var nodes = try node.elements()
        guard let id = nodes.next(), let status = nodes.next(), let thisUpdate = nodes.next() else {
            throw OCSPResponse.Malformed()
        }
        self.thisUpdate = try Instant(generalizedTime: thisUpdate)
        nextUpdate = try DER.optionalExplicitlyTagged(&nodes, tagNumber: 0, tagClass: .contextSpecific) {
            try Instant(generalizedTime: $0)
        }
        self.status =
            switch (status.identifier.tagClass, status.identifier.tagNumber) {
            case (.contextSpecific, 0): .good
            case (.contextSpecific, 1): .revoked
            case (.contextSpecific, 2): .unknown
            default: throw OCSPResponse.Malformed()
            }
        var parts = try id.elements()
        hashAlgorithm = try ASN1ObjectIdentifier(algorithm: &parts)
        issuerNameHash = try ASN1OctetString(derEncoded: &parts)
        issuerKeyHash = try ASN1OctetString(derEncoded: &parts)
        serialNumber = Certificate.SerialNumber(bytes: try ArraySlice<UInt8>(derEncoded: &parts))
    }

    /// False also if the issuer is named with another hash function than SHA-1 or SHA-256.
    func isAbout(_ certificate: Certificate, of issuer: Certificate) -> Bool {
        guard serialNumber == certificate.serialNumber, let name = try? DER.bytes(of: issuer.subject) else {
            return false
        }
        let key = issuer.publicKey.subjectPublicKeyInfoBytes
        switch hashAlgorithm {
        case [1, 3, 14, 3, 2, 26]:
            return issuerNameHash.bytes.elementsEqual(Insecure.SHA1.hash(data: name))
                && issuerKeyHash.bytes.elementsEqual(Insecure.SHA1.hash(data: key))
        case [2, 16, 840, 1, 101, 3, 4, 2, 1]:
            return issuerNameHash.bytes.elementsEqual(SHA256.hash(data: name))
                && issuerKeyHash.bytes.elementsEqual(SHA256.hash(data: key))
        default: return false
        }
    }
}

extension OCSPResponse.Responder {
    fileprivate init(_ node: ASN1Node) throws {
        var nodes = try node.elements()
        guard let value = nodes.next(), node.identifier.tagClass == .contextSpecific else {
            throw OCSPResponse.Malformed()
        }
        switch node.identifier.tagNumber {
        case 1: self = .name(try DistinguishedName(derEncoded: value))
        case 2: self = .key(Array(try ASN1OctetString(derEncoded: value).bytes))
        default: throw OCSPResponse.Malformed()
        }
    }

    func isNamed(by certificate: Certificate) -> Bool {
        switch self {
        case .name(let name): name == certificate.subject
        case .key(let hash):
            hash.elementsEqual(Insecure.SHA1.hash(data: certificate.publicKey.subjectPublicKeyInfoBytes))
        }
    }
}

// MARK: - DER

extension DER {
    static func bytes(of value: some DERSerializable) throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.serialize(value)
        return serializer.serializedBytes
    }
}

extension ASN1Node {
    fileprivate func elements() throws -> ASN1NodeCollection.Iterator {
        guard case .constructed(let nodes) = content else { throw OCSPResponse.Malformed() }
        return nodes.makeIterator()
    }
}

extension ASN1ObjectIdentifier {
    /// Of an algorithm, whose parameters are skipped.
    fileprivate init(algorithm nodes: inout ASN1NodeCollection.Iterator) throws {
        guard let node = nodes.next() else { throw OCSPResponse.Malformed() }
        self = try DER.sequence(node, identifier: .sequence) { nodes in
            defer { _ = nodes.next() }
            return try ASN1ObjectIdentifier(derEncoded: &nodes)
        }
    }
}

extension Instant {
    /// `20191108081146Z`, to the second.
    fileprivate init(generalizedTime node: ASN1Node) throws {
        let time = try GeneralizedTime(derEncoded: node)
        let seconds = [(time.month, "-"), (time.day, "T"), (time.hours, ":"), (time.minutes, ":"), (time.seconds, "Z")]
        var text = String("000\(time.year)".suffix(4)) + "-"
        for (number, end) in seconds { text += String("0\(number)".suffix(2)) + end }
        guard let instant = Instant(iso8601: text) else { throw OCSPResponse.Malformed() }
        self = instant
    }
}
