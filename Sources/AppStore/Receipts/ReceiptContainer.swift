import Crypto
import Encoding
import SwiftASN1
import X509

/// The signed container of an app receipt, as far as it can be read without Apple.
///
/// It tells receipts that Apple signed from invented ones before Apple is asked, and proves nothing more: only Apple's answer
/// is a fact. Transaction receipts (iOS 6) and receipts in a form that is not known here are asked about like any other.
///
/// - Source: Apple, "Validating receipts on the device": PKCS #7 with a set of attributes (type, version, value).
package struct ReceiptContainer: Sendable {
    /// The bundle id in the receipt; nil if there is none. Proves nothing unless ``isSignedByApple``.
    package let bundleId: String?
    /// Whether the signature is valid and leads to Apple's root, or to an additional one. Certificates may have expired.
    package let isSignedByApple: Bool

    /// SHA-256 of Apple Root CA, which signs the certificates of receipts. Receipts contain it.
    ///
    /// - Source: Apple, "Apple PKI", Apple Inc. Root.
    private static let appleRoot = "b0b1730ecbc7ff4505142c49f1295e6eda6bcaed7e2c68c5be91b5a11001f024"

    /// The extension of certificates that may sign receipts, and that of their issuers. Apple's other certificates, such as
    /// developers', lead to the same root.
    private static let receiptSigning: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 11, 1]
    private static let developerRelations: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 2, 1]

    private static let signedData: ASN1ObjectIdentifier = [1, 2, 840, 113549, 1, 7, 2]
    private static let certificatesTag = ASN1Identifier(tagWithNumber: 0, tagClass: .contextSpecific)
    private static let bundleIdType = 2
    /// Receipts have three certificates.
    private static let certificatesMax = 8

    /// Nil if the bytes are no such container.
    ///
    /// - Parameter roots: Accepted besides Apple's.
    package init?(_ receipt: Receipt, roots: RootCertificates = .apple) {
        guard receipt.style == .app, let parts = try? Parts(receipt.bytes) else { return nil }
        bundleId = try? Self.bundleId(in: parts.content)
        isSignedByApple = Self.isSigned(parts, roots)
    }

    // MARK: Container

    private struct Parts {
        /// The attributes.
        let content: [UInt8]
        let certificates: [Certificate]
        let digestAlgorithm: ASN1ObjectIdentifier
        let signature: [UInt8]

        /// ContentInfo, with SignedData of one signer.
        init(_ bytes: [UInt8]) throws {
            let info = try BER.parse(bytes).children
            guard info.count == 2, try ASN1ObjectIdentifier(berEncoded: info[0]) == ReceiptContainer.signedData,
                let signed = info[1].children.first?.children, signed.count >= 4
            else { throw Unreadable() }
            let encapsulated = signed[2].children
            guard encapsulated.count == 2, let octets = encapsulated[1].children.first,
                let certificates = signed[3...].first(where: { $0.identifier == ReceiptContainer.certificatesTag }),
                let signer = signed.last?.children.first?.children, signer.count >= 5
            else { throw Unreadable() }
            content = Array(try ASN1OctetString(berEncoded: octets).bytes)
            self.certificates = certificates.children.prefix(ReceiptContainer.certificatesMax).compactMap {
                try? Certificate(derEncoded: Array($0.encodedBytes))
            }
            // Signed attributes would stand between the algorithms. Receipts have none.
            guard let algorithm = signer[2].children.first else { throw Unreadable() }
            digestAlgorithm = try ASN1ObjectIdentifier(berEncoded: algorithm)
            signature = Array(try ASN1OctetString(berEncoded: signer[4]).bytes)
        }
    }

    private struct Unreadable: Error {}

    private static func bundleId(in content: [UInt8]) throws -> String? {
        for attribute in try BER.parse(content).children {
            let fields = attribute.children
            guard fields.count == 3, try Int(berEncoded: fields[0]) == bundleIdType else { continue }
            let value = try ASN1OctetString(berEncoded: fields[2]).bytes
            return String(try ASN1UTF8String(berEncoded: BER.parse(value)))
        }
        return nil
    }

    // MARK: Signature

    private static func isSigned(_ parts: Parts, _ roots: RootCertificates) -> Bool {
        let algorithm: Certificate.SignatureAlgorithm
        switch parts.digestAlgorithm {
        case ASN1ObjectIdentifier.Digest.sha256: algorithm = .sha256WithRSAEncryption
        case ASN1ObjectIdentifier.Digest.sha1: algorithm = .sha1WithRSAEncryption
        default: return false
        }
        return parts.certificates.contains { leaf in
            leaf.extensions[oid: receiptSigning] != nil
                && leaf.publicKey.isValidSignature(parts.signature, for: parts.content, signatureAlgorithm: algorithm)
                && isTrusted(leaf, parts.certificates, roots)
        }
    }

    /// Whether a certificate of Apple's developer relations issued this one, and a root that one.
    private static func isTrusted(_ leaf: Certificate, _ others: [Certificate], _ roots: RootCertificates) -> Bool {
        others.contains { issuer in
            issuer.extensions[oid: developerRelations] != nil && didIssue(issuer, leaf)
                && (others + roots.certificates).contains { root in
                    (roots.certificates.contains(root) || fingerprint(root) == appleRoot) && didIssue(root, issuer)
                }
        }
    }

    private static func didIssue(_ issuer: Certificate, _ certificate: Certificate) -> Bool {
        issuer.subject == certificate.issuer
            && issuer.publicKey.isValidSignature(certificate.signature, for: certificate)
    }

    private static func fingerprint(_ certificate: Certificate) -> String? {
        var serializer = DER.Serializer()
        guard (try? serializer.serialize(certificate)) != nil else { return nil }
        return Hex.text(Array(SHA256.hash(data: serializer.serializedBytes)))
    }
}

extension ASN1Node {
    /// The nodes inside; none if it is primitive.
    fileprivate var children: [ASN1Node] {
        guard case .constructed(let nodes) = content else { return [] }
        return Array(nodes)
    }
}

extension ASN1ObjectIdentifier {
    fileprivate enum Digest {
        static let sha1: ASN1ObjectIdentifier = [1, 3, 14, 3, 2, 26]
        static let sha256: ASN1ObjectIdentifier = [2, 16, 840, 1, 101, 3, 4, 2, 1]
    }
}
